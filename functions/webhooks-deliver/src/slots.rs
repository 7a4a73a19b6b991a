//! Slots: how many attempts run at once in this process, and whose turn it is.
//!
//! Every attempt takes a slot. Where slots are scarce, the next goes to the tenant that has the fewest, and to that one of
//! its destinations that has the fewest. Each destination has a lane, only as wide as its receiver has shown to take: each
//! success widens it by one attempt, as slow start does with a congestion window (RFC 5681, section 3.1), and a receiver
//! that does not answer gets few. So a receiver that hangs cannot hold the slots of others, and a receiver that comes back
//! is not flooded.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use common::{
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{delivery::Outcome, endpoints::Health},
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::breaker::{Seen, Shown, Silence};

/// How many attempts at once an unknown receiver gets: as many as a batch has events.
const NEW: usize = 10;
/// How many attempts at once a silent receiver gets. More would hardly save invocation time, and with fewer, what waits
/// for the receiver would pile up.
const SILENT: usize = 4;
/// How many destinations a process remembers.
const LANES: usize = 10_000;

/// The slots of a process. Cloning is cheap, and shares them.
#[derive(Clone)]
pub(crate) struct Slots {
    /// Hashed with each destination, so that nobody can construct collisions.
    secret: [u8; 16],
    state: Arc<Mutex<State>>,
}

/// A destination of a tenant: an endpoint, or an origin that job callbacks go to. The few with the same hash share a lane.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    tenant: u64,
    destination: u64,
}

/// A slot that is taken, until this is dropped.
pub(crate) struct Slot {
    slots: Slots,
    lane: Lane,
    is_probe: bool,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// The receiver has as many attempts under way as it may have.
    Full,
    /// It has become too late for an attempt.
    Late,
}

struct State {
    total: usize,
    free: usize,
    /// How many slots silent receivers have.
    probes: usize,
    tenants: BTreeMap<u64, TenantState>,
    lanes: HashMap<u64, LaneState>,
}

#[derive(Default)]
struct TenantState {
    /// How many slots it has, and how many of them are for silent receivers.
    slots: usize,
    probes: usize,
    /// The lanes in which attempts wait, the longest wait first.
    waiting: Vec<Lane>,
}

struct LaneState {
    under_way: usize,
    width: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
    seen: Seen,
}

impl Slots {
    pub(crate) fn new(total: usize) -> Self {
        let state = State { total, free: total, probes: 0, tenants: BTreeMap::new(), lanes: HashMap::new() };
        Self { secret: random::bytes(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn lane(&self, tenant: &TenantId, destination: impl Hash) -> Lane {
        let tenant = self.hash(tenant.as_str());
        Lane { tenant, destination: self.hash((tenant, destination)) }
    }

    fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, value).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the receiver does not answer.
    pub(crate) fn silence(&self, lane: Lane, health: Option<&Health>, now: Timestamp) -> Option<Silence> {
        let state = self.lock();
        match state.lanes.get(&lane.destination) {
            Some(known) => known.seen.silence(health, now),
            None => Seen::default().silence(health, now),
        }
    }

    pub(crate) fn is_probing(&self, lane: Lane, now: Timestamp) -> bool {
        self.lock().lane(lane).seen.is_probing(now)
    }

    pub(crate) fn let_probe(&self, lane: Lane, until: Timestamp) {
        self.lock().lane(lane).seen.let_probe(until);
    }

    /// Waits for a slot until `last_start`, but only until `patience` if the lane is full.
    pub(crate) async fn take(&self, lane: Lane, patience: Instant, last_start: Instant) -> Result<Slot, NoSlot> {
        // A free slot would be given even after the time is up.
        if Instant::now() >= last_start {
            return Err(NoSlot::Late);
        }
        let began = Timestamp::now();
        let mut turn = match self.queue(lane) {
            Ok(slot) => return Ok(slot),
            Err(turn) => turn,
        };
        let slot = match timeout_at(patience.min(last_start), &mut turn).await {
            Err(_elapsed) if !self.lock().is_full(lane) => timeout_at(last_start, &mut turn).await,
            waited => waited,
        };
        match slot {
            _ if Instant::now() >= last_start => Err(NoSlot::Late),
            Ok(Ok(slot)) => Ok(slot),
            _ => {
                self.lock().lane(lane).seen.found_full(began, Timestamp::now());
                Err(NoSlot::Full)
            }
        }
    }

    /// Takes a slot for a silent receiver, if it may have another. All silent receivers together get a quarter of the slots,
    /// and a tenant's no more than are left for other tenants.
    pub(crate) async fn probe(&self, lane: Lane, last_start: Instant) -> Result<Slot, NoSlot> {
        let is_idle = {
            let mut state = self.lock();
            let left = state.total.div_ceil(4).saturating_sub(state.probes);
            let has = state.tenants.get(&lane.tenant).map_or(0, |tenant| tenant.probes);
            let known = state.lane(lane);
            known.width = SILENT;
            let is_idle = known.under_way == 0 && known.waiting.is_empty();
            if has >= left {
                return Err(NoSlot::Full);
            }
            if state.give(lane) {
                state.probes += 1;
                state.tenants.entry(lane.tenant).or_default().probes += 1;
                drop(state);
                return Ok(self.slot(lane, true));
            }
            is_idle
        };
        // All slots are taken: without a turn of its own, the receiver would never be tried.
        if is_idle { self.take(lane, last_start, last_start).await } else { Err(NoSlot::Full) }
    }

    /// Takes a slot, or queues for one.
    fn queue(&self, lane: Lane) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut state = self.lock();
        if state.give(lane) {
            drop(state);
            return Ok(self.slot(lane, false));
        }
        let (sender, turn) = oneshot::channel();
        let known = state.lane(lane);
        known.waiting.push_back(sender);
        if known.waiting.len() == 1 {
            state.tenants.entry(lane.tenant).or_default().waiting.push(lane);
        }
        Err(turn)
    }

    /// Gives a slot back, and then all free slots to the attempts whose turn it is.
    fn give_back(&self, lane: Lane, is_probe: bool) {
        let mut state = self.lock();
        state.take_back(lane, is_probe);
        while let Some((lane, waiting)) = state.next() {
            drop(state);
            // Without the lock: if the attempt no longer waits, its slot comes back at once.
            waiting.send(self.slot(lane, false)).ok();
            state = self.lock();
        }
    }

    fn slot(&self, lane: Lane, is_probe: bool) -> Slot {
        Slot { slots: self.clone(), lane, is_probe }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Gives the slot back after an attempt that began at `began`. Returns what the attempt has shown.
    pub(crate) fn end(self, outcome: Outcome, began: Timestamp, now: Timestamp) -> Shown {
        let mut state = self.slots.lock();
        let total = state.total;
        let known = state.lane(self.lane);
        let shown = known.seen.ended(outcome, began, now);
        match shown {
            // A lane that is not half full has not shown that its receiver takes more.
            Shown::Success if known.under_way * 2 >= known.width => known.width = total.min(known.width + 1),
            Shown::NoAnswer { hangs: true } => {
                known.width = SILENT;
                // The others need not wait for a silent receiver.
                known.waiting.clear();
                if let Some(tenant) = state.tenants.get_mut(&self.lane.tenant) {
                    tenant.waiting.retain(|waiting| waiting.destination != self.lane.destination);
                }
            }
            Shown::Success | Shown::NoAnswer { .. } | Shown::Error | Shown::Nothing => {}
        }
        shown
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.give_back(self.lane, self.is_probe);
    }
}

impl State {
    fn lane(&mut self, lane: Lane) -> &mut LaneState {
        if self.lanes.len() >= LANES && !self.lanes.contains_key(&lane.destination) {
            self.lanes.retain(|_, known| known.under_way > 0 || !known.waiting.is_empty());
        }
        self.lanes.entry(lane.destination).or_insert_with(|| LaneState {
            under_way: 0,
            width: NEW,
            waiting: VecDeque::new(),
            seen: Seen::default(),
        })
    }

    fn is_full(&self, lane: Lane) -> bool {
        self.lanes.get(&lane.destination).is_some_and(|known| known.under_way >= known.width)
    }

    /// Gives a slot, if one is free and the receiver has room for another attempt.
    fn give(&mut self, lane: Lane) -> bool {
        let is_free = self.free > 0;
        let known = self.lane(lane);
        let is_given = is_free && known.under_way < known.width;
        if is_given {
            known.under_way += 1;
            self.free -= 1;
            self.tenants.entry(lane.tenant).or_default().slots += 1;
        }
        is_given
    }

    fn take_back(&mut self, lane: Lane, is_probe: bool) {
        self.free += 1;
        self.probes -= usize::from(is_probe);
        if let Some(known) = self.lanes.get_mut(&lane.destination) {
            known.under_way -= 1;
        }
        if let Some(tenant) = self.tenants.get_mut(&lane.tenant) {
            tenant.slots -= 1;
            tenant.probes -= usize::from(is_probe);
        }
        self.forget_idle(lane.tenant);
    }

    fn forget_idle(&mut self, tenant: u64) {
        if self.tenants.get(&tenant).is_some_and(|tenant| tenant.slots == 0 && tenant.waiting.is_empty()) {
            self.tenants.remove(&tenant);
        }
    }

    /// Gives a free slot to the attempt whose turn it is, if there are both.
    fn next(&mut self) -> Option<(Lane, oneshot::Sender<Slot>)> {
        while self.free > 0 {
            let (tenant, index) = self.turn()?;
            let waiting = &mut self.tenants.get_mut(&tenant)?.waiting;
            let lane = *waiting.get(index)?;
            let known = self.lanes.get_mut(&lane.destination)?;
            let first = known.waiting.pop_front();
            if known.waiting.is_empty() {
                waiting.remove(index);
            }
            self.forget_idle(tenant);
            if let Some(first) = first.filter(|first| !first.is_closed()) {
                self.give(lane);
                return Some((lane, first));
            }
        }
        None
    }

    /// Of the tenants that wait in a lane with room, the one with the fewest slots; and the index of its waiting lane with
    /// the fewest attempts.
    fn turn(&self) -> Option<(u64, usize)> {
        let mut tenants: Vec<_> = self.tenants.iter().filter(|(_, tenant)| !tenant.waiting.is_empty()).collect();
        tenants.sort_by_key(|(_, tenant)| tenant.slots);
        tenants.into_iter().find_map(|(id, tenant)| {
            let mut best = None;
            for (index, lane) in tenant.waiting.iter().enumerate() {
                let under_way = self.lanes.get(&lane.destination).map_or(0, |known| known.under_way);
                if !self.is_full(*lane) && best.is_none_or(|(fewest, _)| under_way < fewest) {
                    best = Some((under_way, index));
                }
                if under_way == 0 {
                    break;
                }
            }
            best.map(|(_, index)| (*id, index))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::webhooks::delivery::Failure;
    use futures::{FutureExt, future::join_all};

    use super::*;
    use crate::breaker::{SLOW, SOON};

    const DELIVERED: Outcome = Outcome::Delivered(200);
    const HANGS: Outcome = Outcome::Failed(Failure::Timeout);

    fn lane(slots: &Slots, tenant: &str, destination: u8) -> Lane {
        slots.lane(&tenant.parse().expect("an id"), destination)
    }

    /// Takes a slot for a receiver that does not answer, if there is one at once.
    fn probe(slots: &Slots, lane: Lane) -> Result<Slot, NoSlot> {
        slots.probe(lane, soon()).now_or_never().expect("no wait")
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    async fn take(slots: &Slots, lane: Lane) -> Slot {
        slots.take(lane, soon(), soon()).await.expect("a slot")
    }

    /// Attempts that wait for slots.
    fn waiting(slots: &Slots, lane: Lane, number: usize) -> Vec<impl Future<Output = Slot>> {
        let mut waiting: Vec<_> = (0..number).map(|_| Box::pin(take(slots, lane))).collect();
        for attempt in &mut waiting {
            assert!(attempt.now_or_never().is_none(), "it has to wait");
        }
        waiting
    }

    fn ready(waiting: &mut [impl Future<Output = Slot> + Unpin]) -> usize {
        waiting.iter_mut().filter_map(FutureExt::now_or_never).map(std::mem::forget).count()
    }

    #[tokio::test]
    async fn the_tenant_and_the_destination_that_have_the_fewest_come_next() {
        let slots = Slots::new(4);
        let (busy, other) = (lane(&slots, "a", 1), lane(&slots, "a", 2));
        let mut taken = join_all((0..4).map(|_| take(&slots, busy))).await;
        let mut first = waiting(&slots, busy, 3);
        let mut second = waiting(&slots, other, 3);
        let mut quiet = waiting(&slots, lane(&slots, "b", 1), 1);
        drop(taken.pop());
        assert_eq!((ready(&mut quiet), ready(&mut second), ready(&mut first)), (1, 0, 0), "a tenant without slots");
        drop(taken.pop());
        assert_eq!((ready(&mut second), ready(&mut first)), (1, 0), "a destination without slots");
    }

    #[tokio::test]
    async fn a_receiver_gets_more_at_once_with_each_success_and_few_if_it_does_not_answer() {
        let slots = Slots::new(100);
        let lane = lane(&slots, "t", 1);
        let mut taken = join_all((0..NEW).map(|_| take(&slots, lane))).await;
        let mut more = waiting(&slots, lane, 3);
        let began = Timestamp::now();
        let later = began.after(Duration::from_millis(1));
        assert_eq!(taken.pop().expect("a slot").end(DELIVERED, began, later), Shown::Success);
        assert_eq!(ready(&mut more), 2, "its own and one more");
        let shown = taken.pop().expect("a slot").end(HANGS, began, later);
        assert_eq!(shown, Shown::Error, "another has succeeded since it began");
        assert_eq!(slots.silence(lane, None, later), None);
        let (began, end) = (later.after(SOON), later.after(SOON * 3));
        assert_eq!(taken.pop().expect("a slot").end(HANGS, began, end), Shown::NoAnswer { hangs: true });
        assert_eq!(slots.silence(lane, None, end), Some(Silence { since: end, hangs: true }));
        assert_eq!(probe(&slots, lane).err(), Some(NoSlot::Full), "others are still under way");
    }

    #[tokio::test]
    async fn an_attempt_no_longer_waits_for_a_receiver_that_hangs() {
        let slots = Slots::new(100);
        let lane = lane(&slots, "t", 1);
        let mut taken = join_all((0..NEW).map(|_| take(&slots, lane))).await;
        let attempt = slots.take(lane, soon(), soon());
        let now = Timestamp::now();
        let (refused, _) =
            tokio::join!(attempt, async { taken.pop().map(|slot| slot.end(HANGS, now, now.after(SLOW))) });
        assert_eq!(refused.err(), Some(NoSlot::Full));
    }

    #[tokio::test]
    async fn an_attempt_waits_for_slots_to_the_end_but_for_its_receiver_only_for_so_long() {
        let slots = Slots::new(NEW + 1);
        let (full, other) = (lane(&slots, "t", 1), lane(&slots, "t", 2));
        let taken = join_all((0..NEW).map(|_| take(&slots, full))).await;
        let patience = Instant::now() + Duration::from_millis(10);
        assert_eq!(slots.take(full, patience, soon()).await.err(), Some(NoSlot::Full));
        assert!(slots.silence(full, None, Timestamp::now()).is_some(), "nobody has succeeded meanwhile");
        let last = take(&slots, other).await;
        let end = Instant::now() + Duration::from_millis(20);
        assert_eq!(slots.take(other, Instant::now(), end).await.err(), Some(NoSlot::Late));
        drop((taken, last));
        assert_eq!(slots.take(other, soon(), Instant::now()).await.err(), Some(NoSlot::Late), "though a slot is free");
        assert_eq!(slots.lock().free, NEW + 1, "an attempt that no longer waits keeps no slot");
    }

    #[test]
    fn receivers_that_do_not_answer_get_few_slots_each_and_a_quarter_of_all() {
        let slots = Slots::new(4 * 4 * SILENT);
        let of_a_tenant: Vec<Lane> = (0..4).map(|number| lane(&slots, "t", number)).collect();
        let mut taken = Vec::new();
        for _ in 0..SILENT {
            taken.push(probe(&slots, of_a_tenant[0]).expect("a slot"));
        }
        assert_eq!(probe(&slots, of_a_tenant[0]).err(), Some(NoSlot::Full), "it has as many as it may have");
        for _ in 0..SILENT {
            taken.push(probe(&slots, of_a_tenant[1]).expect("a slot"));
        }
        assert_eq!(probe(&slots, of_a_tenant[2]).err(), Some(NoSlot::Full), "as many are left for other tenants");
        for _ in 0..SILENT {
            taken.push(probe(&slots, lane(&slots, "other", 0)).expect("a slot"));
        }
        assert_eq!(probe(&slots, lane(&slots, "other", 1)).err(), Some(NoSlot::Full));
        drop(taken);
        assert!(probe(&slots, of_a_tenant[2]).is_ok());
    }

    #[tokio::test]
    async fn a_receiver_that_does_not_answer_has_a_turn_even_if_all_slots_are_taken() {
        let slots = Slots::new(2);
        let (busy, silent) = (lane(&slots, "a", 1), lane(&slots, "b", 1));
        let mut taken = vec![take(&slots, busy).await, take(&slots, busy).await];
        let mut more = waiting(&slots, busy, 2);
        let mut probe = Box::pin(slots.probe(silent, soon()));
        assert!((&mut probe).now_or_never().is_none(), "it has to wait");
        taken.pop();
        assert!(probe.now_or_never().is_some_and(|slot| slot.is_ok()));
        assert_eq!(ready(&mut more), 1);
    }

    #[test]
    fn a_receiver_is_given_more_at_once_only_if_it_has_taken_as_many() {
        let slots = Slots::new(100);
        let (lane, now) = (lane(&slots, "t", 1), Timestamp::now());
        for _ in 0..100 {
            let slot = slots.queue(lane).ok().expect("a slot");
            slot.end(DELIVERED, now, now);
        }
        assert_eq!(slots.lock().lane(lane).width, NEW);
    }
}
