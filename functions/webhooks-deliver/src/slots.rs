//! Schedules attempts: slots limit how many start at the same time, and places limit how many are in progress.
//!
//! Connecting, signing and writing take CPU time, so an attempt begins in one of `MAX_CONCURRENT_ATTEMPTS` slots. An
//! attempt that only waits for its response needs just a socket and a few kilobytes: after 20 ms it returns the slot
//! and keeps its place. There are four times as many places as slots, up to 800.
//!
//! If slots or places are scarce, the next one goes to the tenant that holds the fewest, and within it to the lane that
//! holds the fewest. A tenant never holds more than it leaves free for others. Receivers that are not known to be good
//! get at most half of the slots. Slow receivers get at most half of the places, and hanging receivers at most as many
//! places as there are slots.
//!
//! Each receiver has a lane. Its width is the number of concurrent attempts that the receiver has proved it can handle:
//! initially one for an unknown receiver, ten for a slow one and four for a hanging one. Each success widens the lane
//! by one, like slow start with a congestion window (RFC 5681, section 3.1), and a quick error halves it, down to ten,
//! so a recovering receiver is not flooded. A tenant's new callback origins share one lane.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use common::lock::lock;
use tokio::{
    sync::oneshot::{self, error::RecvError},
    time::{Instant, timeout_at},
};

pub(crate) use self::shares::{At, Lane, NoSlot};
use self::shares::{PATIENCE, Share, State};
use crate::standing::{SOON, Shown, Standing};

mod shares;

/// A process's slots. Clones share them.
#[derive(Clone)]
pub(crate) struct Slots {
    state: Arc<Mutex<State<oneshot::Sender<Slot>>>>,
}

/// A slot and a place, held until dropped.
pub(crate) struct Slot {
    slots: Slots,
    pub(crate) lane: Lane,
    share: Share,
    /// Whether the attempt has returned the slot and keeps only its place.
    is_aside: bool,
    /// The batch that is waiting for the attempt, if it is a probe.
    probes_in: Option<u64>,
}

/// Permission for an attempt to wait, held until dropped.
struct Patient<'a>(&'a Slots, Lane);

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).end_wait(self.1);
    }
}

impl Slots {
    pub(crate) fn new(total: usize) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(total))) }
    }

    /// Waits for a slot until `last_start`. Only a few of a tenant's attempts may wait, because each keeps its
    /// invocation waiting.
    pub(crate) async fn take(&self, lane: Lane, standing: Standing, last_start: Instant) -> Result<Slot, NoSlot> {
        if !lock(&self.state).begin_wait(lane) {
            return Err(NoSlot::Full);
        }
        let _patient = Patient(self, lane);
        match self.queue(lane, standing) {
            // `queue` returns a free slot even after the deadline.
            _ if Instant::now() >= last_start => Err(NoSlot::Late),
            Ok(slot) => Ok(slot),
            Err(turn) => in_time(turn, last_start).await,
        }
    }

    /// Waits for a slot for a short attempt. If the receiver or its tenant has its maximum number in progress, the
    /// attempt waits only while the receiver keeps answering, or while its batch waits for other attempts anyway
    /// (`in_progress` is their number), and no longer than an attempt may take.
    pub(crate) async fn take_soon(
        &self,
        lane: Lane,
        standing: Standing,
        in_progress: &AtomicUsize,
        last_start: Instant,
    ) -> Result<Slot, NoSlot> {
        let began = Instant::now();
        let mut turn = match self.queue(lane, standing) {
            _ if began >= last_start => return Err(NoSlot::Late),
            Ok(slot) => return Ok(slot),
            Err(turn) => turn,
        };
        // The pauses grow, because thousands of attempts may wait for a tenant whose receivers have all begun to hang.
        let mut pause = PATIENCE;
        let at_most = began + SOON;
        while Instant::now() < last_start {
            let waits_anyway = in_progress.load(Ordering::Relaxed) > 0 && Instant::now() < at_most;
            if !waits_anyway && lock(&self.state).is_stuck(lane, began) {
                return Err(NoSlot::Full);
            }
            let now = Instant::now();
            let looks_again = if now < at_most { at_most.min(now + pause) } else { now + pause };
            match in_time(&mut turn, last_start.min(looks_again)).await {
                Err(NoSlot::Late) => pause *= 2,
                taken => return taken,
            }
        }
        Err(NoSlot::Late)
    }

    /// Takes a slot for a probe of a hanging receiver, unless the receiver has reached its limit. All hanging receivers
    /// together get no more places than there are slots. One tenant's probes never occupy more places or batches than
    /// they leave free for others.
    pub(crate) async fn probe(&self, lane: Lane, batch: u64, last_start: Instant) -> Result<Slot, NoSlot> {
        let given = lock(&self.state).probe(lane, batch)?;
        match given {
            Some(share) => {
                let mut slot = self.slot(lane, share);
                slot.probes_in = Some(batch);
                Ok(slot)
            }
            None => self.take(lane, Standing::Hanging, last_start).await,
        }
    }

    /// Takes a slot, or queues for one.
    fn queue(&self, lane: Lane, standing: Standing) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut state = lock(&self.state);
        if let Some(share) = state.take(lane, standing) {
            drop(state);
            return Ok(self.slot(lane, share));
        }
        let (sender, turn) = oneshot::channel();
        state.wait(lane, sender);
        Err(turn)
    }

    /// Gives the free slots to waiting attempts, in turn.
    fn pass_on(&self) {
        let mut state = lock(&self.state);
        while let Some((lane, share, waiting)) = state.next(|waiting| !waiting.is_closed()) {
            drop(state);
            // Without the lock: if the attempt is no longer waiting, the slot is dropped here, and its destructor takes
            // the lock.
            waiting.send(self.slot(lane, share)).ok();
            state = lock(&self.state);
        }
    }

    fn slot(&self, lane: Lane, share: Share) -> Slot {
        Slot { slots: self.clone(), lane, share, is_aside: false, probes_in: None }
    }
}

impl Slot {
    /// Returns the slot and keeps the place: from now on, the attempt only waits for its response.
    pub(crate) fn step_aside(&mut self) {
        if !std::mem::replace(&mut self.is_aside, true) {
            lock(&self.slots.state).take_slot_back(self.lane, self.share);
            self.slots.pass_on();
        }
    }

    /// Changes the receiver's number of concurrent attempts after an attempt has ended.
    pub(crate) fn learn(&self, shown: Shown) {
        lock(&self.slots.state).learn(self.lane, shown);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = lock(&self.slots.state);
        if !self.is_aside {
            state.take_slot_back(self.lane, self.share);
        }
        state.take_place_back(self.lane, self.share);
        self.probes_in.into_iter().for_each(|batch| state.end_probe(self.lane, batch));
        drop(state);
        self.slots.pass_on();
    }
}

/// Waits for a turn until `end`.
async fn in_time(turn: impl Future<Output = Result<Slot, RecvError>>, end: Instant) -> Result<Slot, NoSlot> {
    timeout_at(end, turn).await.map_err(|_elapsed| NoSlot::Late)?.map_err(|_narrowed| NoSlot::Full)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::webhooks::delivery::Queue;
    use futures::{FutureExt, future::join_all};

    use super::{
        shares::{HANGING, NEW},
        *,
    };

    const MINUTE: Duration = Duration::from_secs(60);

    fn lane(tenant: u64, receiver: u64) -> Lane {
        Lane { tenant, at: At::Receiver(receiver), queue: Queue::Shared }
    }

    fn slow(tenant: u64, receiver: u64) -> Lane {
        Lane { queue: Queue::Hanging, ..lane(tenant, receiver) }
    }

    fn soon() -> Instant {
        Instant::now() + MINUTE
    }

    /// Takes a slot for a good receiver.
    async fn take(slots: &Slots, lane: Lane) -> Slot {
        slots.take(lane, Standing::Good, soon()).await.expect("a slot")
    }

    /// Takes a slot if one is free immediately.
    fn at_once(slots: &Slots, lane: Lane, standing: Standing) -> Option<Slot> {
        slots.queue(lane, standing).ok()
    }

    /// Takes a slot for a probe if one is free immediately.
    fn probe(slots: &Slots, lane: Lane) -> Result<Slot, NoSlot> {
        slots.probe(lane, 0, soon()).now_or_never().expect("no wait")
    }

    /// Starts attempts that have to wait for slots.
    fn waiting(slots: &Slots, lane: Lane, number: usize) -> Vec<impl Future<Output = Slot>> {
        let mut waiting: Vec<_> = (0..number).map(|_| Box::pin(take(slots, lane))).collect();
        for attempt in &mut waiting {
            assert!(attempt.now_or_never().is_none(), "the attempt has to wait");
        }
        waiting
    }

    fn ready(waiting: &mut [impl Future<Output = Slot> + Unpin]) -> usize {
        waiting.iter_mut().filter_map(FutureExt::now_or_never).map(std::mem::forget).count()
    }

    #[tokio::test]
    async fn the_tenant_and_lane_with_the_fewest_are_next() {
        let slots = Slots::new(4);
        let of_all = [lane(1, 0), lane(1, 1), lane(2, 0), lane(4, 0)];
        let mut taken = join_all(of_all.map(|lane| take(&slots, lane))).await;
        let mut more = waiting(&slots, lane(1, 0), 1);
        let mut other = waiting(&slots, lane(1, 7), 1);
        let mut quiet = waiting(&slots, lane(3, 0), 1);
        drop(taken.pop());
        assert_eq!((ready(&mut quiet), ready(&mut other), ready(&mut more)), (1, 0, 0), "a tenant without slots");
        taken.drain(1..);
        assert_eq!((ready(&mut other), ready(&mut more)), (1, 0), "a lane without slots");
    }

    #[tokio::test]
    async fn one_attempt_goes_ahead_and_each_success_lets_more_follow() {
        let slots = Slots::new(100);
        let scout = take(&slots, lane(1, 1)).await;
        let mut others = waiting(&slots, lane(1, 1), NEW + 5);
        scout.learn(Shown::Success);
        drop(scout);
        let mut taken: Vec<_> = others.iter_mut().filter_map(FutureExt::now_or_never).collect();
        assert_eq!(taken.len(), NEW);
        let one = taken.pop().expect("a slot");
        one.learn(Shown::Success);
        drop(one);
        assert_eq!(ready(&mut others[NEW..]), 2, "one for the returned slot and one more");
    }

    #[test]
    fn an_error_halves_the_width_of_a_lane() {
        let slots = Slots::new(100);
        let mut taken = vec![at_once(&slots, lane(1, 1), Standing::Good).expect("a slot")];
        let halved = |one: &Slot| {
            one.learn(Shown::Error);
            lock(&slots.state).width(lane(1, 1))
        };
        assert_eq!(halved(&taken[0]), NEW, "the receiver has answered");
        for _ in 0..100 {
            taken[0].learn(Shown::Success);
            taken.extend(at_once(&slots, lane(1, 1), Standing::Good));
        }
        assert_eq!([(); 4].map(|()| halved(&taken[0])), [50, 25, 12, NEW]);
    }

    #[tokio::test]
    async fn attempts_stop_waiting_once_the_first_one_is_cut_off() {
        let slots = Slots::new(100);
        let scout = take(&slots, lane(1, 1)).await;
        let other = slots.take(lane(1, 1), Standing::Unknown, soon());
        let (refused, ()) = tokio::join!(other, async { scout.learn(Shown::NoAnswer { hangs: true }) });
        assert_eq!(refused.err(), Some(NoSlot::Full));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_attempt_waits_for_its_own_share_only_briefly() {
        let slots = Slots::new(2);
        let (mine, others) = (take(&slots, lane(1, 1)).await, take(&slots, lane(2, 1)).await);
        let (none, one) = (AtomicUsize::new(0), AtomicUsize::new(1));
        let refused = async |lane, in_progress, within| {
            let began = Instant::now();
            let end = began + Duration::from_secs(2);
            let refused = slots.take_soon(lane, Standing::Good, in_progress, end).await.err();
            assert!(began.elapsed() <= within, "{:?}", began.elapsed());
            refused
        };
        assert_eq!(refused(lane(1, 1), &none, PATIENCE).await, Some(NoSlot::Full), "its lane is full");
        assert_eq!(
            refused(lane(1, 1), &none, Duration::ZERO).await,
            Some(NoSlot::Full),
            "its lane has been full for longer"
        );
        assert_eq!(refused(lane(2, 2), &none, SOON).await, Some(NoSlot::Full), "its tenant leaves no slot free");
        let began = Instant::now();
        assert_eq!(refused(lane(1, 1), &one, SOON).await, Some(NoSlot::Full));
        assert_eq!(began.elapsed(), SOON, "its batch waits for another attempt");
        assert_eq!(refused(lane(3, 1), &none, Duration::from_secs(2)).await, Some(NoSlot::Late));
        drop((mine, others));
        let late = slots.take(lane(3, 1), Standing::Good, Instant::now()).await;
        assert_eq!(late.err(), Some(NoSlot::Late), "it is too late, although a slot is free");
        assert_eq!(lock(&slots.state).counts(), (2, 8, 0), "an attempt that no longer waits holds no slot");
    }

    #[test]
    fn a_tenant_never_has_more_than_it_leaves_to_others() {
        let slots = Slots::new(100);
        let mut taken = Vec::new();
        for (tenant, most) in [(1, 50), (2, 25), (3, 13), (4, 6)] {
            let more = (0..100).map_while(|number| at_once(&slots, lane(tenant, number), Standing::Good));
            let before = taken.len();
            taken.extend(more);
            assert_eq!(taken.len() - before, most, "tenant {tenant}");
        }
    }

    #[test]
    fn receivers_not_known_to_be_good_have_half_of_the_slots() {
        let slots = Slots::new(100);
        let mut taken = Vec::new();
        for tenant in 0..100 {
            taken.extend(at_once(&slots, lane(tenant, 1), Standing::Unknown));
        }
        assert_eq!(taken.len(), 50);
        assert!(at_once(&slots, lane(100, 1), Standing::Good).is_some());
        drop(taken);
        assert!(at_once(&slots, lane(101, 1), Standing::Unknown).is_some());
    }

    #[test]
    fn an_attempt_that_only_waits_keeps_a_place_and_no_slot() {
        let slots = Slots::new(4);
        let mut taken = Vec::new();
        for tenant in 0..16 {
            let mut slot = at_once(&slots, lane(tenant, 1), Standing::Unknown).expect("a slot");
            slot.step_aside();
            taken.push(slot);
        }
        assert!(at_once(&slots, lane(16, 1), Standing::Good).is_none(), "all places are taken");
        taken.pop();
        assert!(at_once(&slots, lane(16, 1), Standing::Good).is_some());
    }

    #[test]
    fn silent_receivers_leave_places_to_other_tenants() {
        let slots = Slots::new(4 * HANGING);
        let mut taken = Vec::new();
        let mut more = |lane: Lane| {
            let mut slot = probe(&slots, lane)?;
            slot.step_aside();
            taken.push(slot);
            Ok(())
        };
        for _ in 0..HANGING {
            assert_eq!(more(slow(1, 1)), Ok(()));
        }
        assert_eq!(more(slow(1, 1)), Err(NoSlot::Full), "the lane is full");
        for _ in 0..HANGING {
            assert_eq!(more(slow(1, 2)), Ok(()));
        }
        assert_eq!(more(slow(1, 3)), Err(NoSlot::Full), "the tenant leaves no more than this for others");
        assert_eq!(more(slow(2, 1)), Ok(()));
    }

    #[test]
    fn a_tenants_hanging_receivers_hold_half_of_the_batches() {
        let slots = Slots::new(1000);
        let mut taken = Vec::new();
        let mut held = |tenant: u64| {
            let batches = (0..100).filter(|batch| {
                let slot = slots.probe(slow(tenant, *batch), *batch, soon()).now_or_never().expect("no wait");
                slot.map(|slot| taken.push(slot)).is_ok()
            });
            batches.count()
        };
        assert_eq!([held(1), held(2), held(3)], [16, 8, 4]);
        drop(taken);
        assert!(slots.probe(slow(4, 0), 0, soon()).now_or_never().is_some_and(|slot| slot.is_ok()));
        assert_eq!(lock(&slots.state).counts(), (1000, 1000, 0));
    }

    #[tokio::test]
    async fn a_silent_receiver_has_a_turn_even_if_all_slots_are_taken() {
        let slots = Slots::new(2);
        let mut taken = vec![take(&slots, lane(1, 1)).await, take(&slots, lane(2, 1)).await];
        let mut probe = Box::pin(slots.probe(slow(3, 1), 0, soon()));
        assert!((&mut probe).now_or_never().is_none(), "the attempt has to wait");
        taken.pop();
        assert!(probe.now_or_never().is_some_and(|slot| slot.is_ok()));
    }

    #[test]
    fn a_receiver_gets_more_at_once_only_after_taking_as_many() {
        let slots = Slots::new(100);
        for _ in 0..100 {
            at_once(&slots, lane(1, 1), Standing::Good).expect("a slot").learn(Shown::Success);
        }
        assert_eq!(lock(&slots.state).width(lane(1, 1)), NEW);
    }

    #[test]
    fn each_turn_goes_to_the_one_that_a_search_of_all_finds() {
        let total = 12;
        let (mut state, mut rng) = (State::<u32>::new(total), 1_u64);
        let mut below = |most: usize| {
            // The constants of Knuth's generator.
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(rng >> 33).expect("31 bits") % most
        };
        let (mut held, mut turns) = (Vec::new(), 0);
        for number in 0..20_000 {
            let queue = Queue::ALL[below(3)];
            let lane = Lane { queue, ..lane(below(4) as u64, below(4) as u64) };
            let standing = [Standing::Good, Standing::Unknown][below(2)];
            match below(8) {
                0..3 => match state.take(lane, standing) {
                    Some(share) => held.push((lane, share, false)),
                    None => state.wait(lane, number),
                },
                3 if !held.is_empty() => {
                    let at = below(held.len());
                    let (lane, share, is_aside) = &mut held[at];
                    if !std::mem::replace(is_aside, true) {
                        state.take_slot_back(*lane, *share);
                    }
                }
                4..7 if !held.is_empty() => {
                    let (lane, share, is_aside) = held.swap_remove(below(held.len()));
                    if !is_aside {
                        state.take_slot_back(lane, share);
                    }
                    state.take_place_back(lane, share);
                }
                _ => match below(3) {
                    0 => state.learn(lane, Shown::Success),
                    1 => state.learn(lane, Shown::Error),
                    _ => state.learn(lane, Shown::NoAnswer { hangs: true }),
                },
            }
            loop {
                assert_eq!(state.turn(), state.searched(), "at {number}");
                // Some no longer wait.
                let Some((lane, share, _)) = state.next(|waiting| waiting % 5 > 0) else { break };
                held.push((lane, share, false));
                turns += 1;
            }
        }
        assert!(turns > 1000, "{turns}");
    }
}
