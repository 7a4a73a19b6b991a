//! Shares: whose turn it is, decided from who has how many slots and places. Nothing is done here, and nothing waits.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use common::webhooks::delivery::Queue;
use tokio::time::Instant;

use crate::{
    receivers::Key,
    standing::{SOON, Standing},
};

/// How many attempts at once a receiver gets once the first has succeeded, and a slow receiver: as many as a batch has records.
pub(super) const NEW: usize = 10;
/// How many attempts at once a receiver gets that hangs. More would hardly save invocation time, and with fewer, its deliveries
/// would pile up.
pub(super) const HANGING: usize = 4;
/// How long an attempt that has to be short waits for a receiver that does not succeed.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// How many attempts of a tenant may wait for a slot while an invocation waits with them: those of two batches.
const PATIENT: usize = 20;
/// How many batches of a queue a process handles at once: one on Lambda, so many in the local runner.
const BATCHES: usize = 32;
/// How many lanes a process remembers.
const LANES: usize = 10_000;
/// How many places there are for each slot, and how many at most: Lambda allows a process 1,024 file descriptors, and our
/// own calls to AWS need some of them.
const PLACES: usize = 4;
const MOST_PLACES: usize = 800;

/// The attempts at a receiver that share its width: those of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) key: Key,
    pub(crate) queue: Queue,
}

/// The slots that an attempt may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    Any,
    Half,
}

/// What a silent receiver gets.
pub(super) enum Probe {
    Given(Share),
    /// All slots are taken: without a turn of its own, the receiver would never be tried.
    Waits,
    /// The receiver, or its tenant, has as many attempts under way as it may have.
    Full,
}

/// The slots and places of a process, and who has them. `W` is how an attempt waits for its turn.
pub(super) struct State<W> {
    total: usize,
    /// How many slots and places are free.
    slots: usize,
    places: usize,
    /// How many places there are.
    all_places: usize,
    /// How many slots receivers have that are not known to be good.
    half: usize,
    /// How many places slow receivers have, and those that hang.
    apart: Apart,
    /// How many batches wait for probes, counted for each tenant that has some there.
    probed: usize,
    tenants: BTreeMap<u64, TenantState>,
    lanes: HashMap<Lane, LaneState<W>>,
}

#[derive(Default)]
struct TenantState {
    /// How many slots and places it has, for good receivers and for others, and how many of the places for slow receivers and for
    /// those that hang.
    good: Taken,
    others: Taken,
    apart: Apart,
    /// How many of its attempts may wait.
    patient: usize,
    /// How many probes it has in each batch.
    probes: BTreeMap<u64, usize>,
    /// The lanes in which attempts wait, the longest wait first.
    waiting: Vec<Lane>,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    slots: usize,
    places: usize,
}

/// Places by the queue of their attempts; those of the shared queues are not counted.
#[derive(Clone, Copy, Default)]
struct Apart {
    slow: usize,
    hanging: usize,
}

impl Apart {
    fn of(self, queue: Queue) -> usize {
        match queue {
            Queue::Shared => 0,
            Queue::Slow => self.slow,
            Queue::Hanging => self.hanging,
        }
    }

    fn of_mut(&mut self, queue: Queue) -> Option<&mut usize> {
        match queue {
            Queue::Shared => None,
            Queue::Slow => Some(&mut self.slow),
            Queue::Hanging => Some(&mut self.hanging),
        }
    }
}

struct LaneState<W> {
    under_way: usize,
    width: usize,
    share: Share,
    /// When the receiver last succeeded, or else when its first attempt began.
    succeeded_at: Instant,
    waiting: VecDeque<W>,
}

impl From<Standing> for Share {
    fn from(standing: Standing) -> Self {
        if standing == Standing::Good { Self::Any } else { Self::Half }
    }
}

impl TenantState {
    fn taken(&self, share: Share) -> Taken {
        if share == Share::Any { self.good } else { self.others }
    }

    fn taken_mut(&mut self, share: Share) -> &mut Taken {
        if share == Share::Any { &mut self.good } else { &mut self.others }
    }
}

impl Lane {
    /// How many attempts at once it begins with, of a process with so many slots. Where they have to be short, a first one goes
    /// ahead: if the receiver is slow, it gets that one twice, and no other. Of new origins of callbacks, many may hang, and
    /// the others wait for them.
    fn first_width(self, total: usize) -> usize {
        match self.queue {
            Queue::Shared => 1,
            Queue::Hanging if self.key.is_crowd() => HANGING.max(total / 4),
            Queue::Slow => NEW,
            Queue::Hanging => HANGING,
        }
    }
}

impl<W> State<W> {
    pub(super) fn new(total: usize) -> Self {
        let places = total.saturating_mul(PLACES).min(MOST_PLACES).max(total);
        Self {
            total,
            slots: total,
            places,
            all_places: places,
            half: 0,
            apart: Apart::default(),
            probed: 0,
            tenants: BTreeMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Takes a slot and a place, if they are free.
    pub(super) fn take(&mut self, lane: Lane, standing: Standing) -> Option<Share> {
        self.lane(lane).share = standing.into();
        self.give(lane)
    }

    /// Takes them for a receiver that hangs, in this batch.
    pub(super) fn probe(&mut self, lane: Lane, batch: u64) -> Probe {
        let left = BATCHES.saturating_sub(self.probed);
        let is_held = self.tenants.get(&lane.key.tenant).is_some_and(|tenant| {
            !tenant.probes.contains_key(&batch) && !tenant.probes.is_empty() && tenant.probes.len() >= left
        });
        if is_held {
            return Probe::Full;
        }
        let known = self.lane(lane);
        known.share = Share::Half;
        let is_idle = known.under_way == 0 && known.waiting.is_empty();
        match self.give(lane) {
            Some(share) => {
                let probes = self.tenants.entry(lane.key.tenant).or_default().probes.entry(batch).or_default();
                self.probed += usize::from(*probes == 0);
                *probes += 1;
                Probe::Given(share)
            }
            None if is_idle && !self.has_its_share(lane) => Probe::Waits,
            None => Probe::Full,
        }
    }

    pub(super) fn end_probe(&mut self, tenant: u64, batch: u64) {
        let Some(state) = self.tenants.get_mut(&tenant) else { return };
        if let Some(probes) = state.probes.get_mut(&batch) {
            *probes -= 1;
            if *probes == 0 {
                state.probes.remove(&batch);
                self.probed -= 1;
            }
        }
        self.forget_idle(tenant);
    }

    /// Lets an attempt wait for its turn.
    pub(super) fn wait(&mut self, lane: Lane, attempt: W) {
        let known = self.lane(lane);
        known.waiting.push_back(attempt);
        if known.waiting.len() == 1 {
            self.tenants.entry(lane.key.tenant).or_default().waiting.push(lane);
        }
    }

    /// Makes a lane wider after a success. One that is not half full has not shown that its receiver takes more.
    pub(super) fn widen(&mut self, lane: Lane) {
        let total = self.total;
        let known = self.lane(lane);
        let first = if lane.queue == Queue::Shared { NEW } else { lane.first_width(total) };
        known.succeeded_at = Instant::now();
        if known.under_way * 2 >= known.width {
            known.width = total.min((known.width + 1).max(first));
        }
    }

    /// Makes a lane as narrow as a new one, and lets no attempt wait in it.
    pub(super) fn narrow(&mut self, lane: Lane) {
        let width = lane.first_width(self.total);
        let known = self.lane(lane);
        known.width = width;
        known.waiting.clear();
        if let Some(tenant) = self.tenants.get_mut(&lane.key.tenant) {
            tenant.waiting.retain(|waiting| *waiting != lane);
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneState<W> {
        if self.lanes.len() >= LANES && !self.lanes.contains_key(&lane) {
            self.lanes.retain(|_, known| known.under_way > 0 || !known.waiting.is_empty());
        }
        let (width, share) = (lane.first_width(self.total), Share::Half);
        self.lanes.entry(lane).or_insert_with(|| LaneState {
            under_way: 0,
            width,
            share,
            succeeded_at: Instant::now(),
            waiting: VecDeque::new(),
        })
    }

    fn share(&self, lane: Lane) -> Share {
        self.lanes.get(&lane).map_or(Share::Half, |known| known.share)
    }

    fn is_full(&self, lane: Lane) -> bool {
        self.lanes.get(&lane).is_some_and(|known| known.under_way >= known.width)
    }

    /// Whether the receiver or the tenant has as much as it may have, whatever others have.
    fn has_its_share(&self, lane: Lane) -> bool {
        let tenant = self.tenants.get(&lane.key.tenant);
        let taken = tenant.map_or_else(Taken::default, |tenant| tenant.taken(self.share(lane)));
        let apart = tenant.map_or(0, |tenant| tenant.apart.of(lane.queue));
        let is_greedy = |taken, free| taken > 0 && taken >= free;
        self.is_full(lane)
            || is_greedy(taken.slots, self.slots)
            || is_greedy(taken.places, self.places)
            || is_greedy(apart, self.left(lane.queue))
    }

    /// How many places are left for attempts of this queue. Slow receivers have half of all places together, and those that hang
    /// as many as there are slots.
    fn left(&self, queue: Queue) -> usize {
        let most = match queue {
            Queue::Shared => return self.places,
            Queue::Slow => self.all_places.div_ceil(2),
            Queue::Hanging => self.total,
        };
        most.saturating_sub(self.apart.of(queue))
    }

    /// Notes that an attempt of the tenant may wait, if few others do.
    pub(super) fn begin_wait(&mut self, tenant: u64) -> bool {
        let tenant = self.tenants.entry(tenant).or_default();
        let may_wait = tenant.patient < PATIENT;
        tenant.patient += usize::from(may_wait);
        may_wait
    }

    pub(super) fn end_wait(&mut self, tenant: u64) {
        if let Some(tenant) = self.tenants.get_mut(&tenant) {
            tenant.patient -= 1;
        }
        self.forget_idle(tenant);
    }

    /// Whether an attempt that waits since `began` has waited for long enough: for a receiver that does not succeed, or for
    /// other attempts of its tenant.
    pub(super) fn is_stuck(&self, lane: Lane, began: Instant) -> bool {
        let known = self.lanes.get(&lane).filter(|known| known.under_way > 0);
        let since = known.map_or(began, |known| known.succeeded_at);
        (since.elapsed() >= PATIENCE && self.is_full(lane)) || (began.elapsed() >= SOON && self.has_its_share(lane))
    }

    /// Whether there is a slot and a place that the lane may have now.
    fn is_free(&self, lane: Lane) -> bool {
        let has_slot = self.slots > 0 && (self.share(lane) == Share::Any || self.half < self.total.div_ceil(2));
        has_slot && self.places > 0 && self.left(lane.queue) > 0 && !self.has_its_share(lane)
    }

    /// Gives a slot and a place, if they are free.
    fn give(&mut self, lane: Lane) -> Option<Share> {
        if !self.is_free(lane) {
            return None;
        }
        self.slots -= 1;
        self.places -= 1;
        let known = self.lane(lane);
        if known.under_way == 0 {
            known.succeeded_at = Instant::now();
        }
        known.under_way += 1;
        let share = known.share;
        self.half += usize::from(share == Share::Half);
        let tenant = self.tenants.entry(lane.key.tenant).or_default();
        let taken = tenant.taken_mut(share);
        taken.slots += 1;
        taken.places += 1;
        for apart in [&mut tenant.apart, &mut self.apart] {
            apart.of_mut(lane.queue).into_iter().for_each(|places| *places += 1);
        }
        Some(share)
    }

    pub(super) fn take_slot_back(&mut self, tenant: u64, share: Share) {
        self.slots += 1;
        self.half -= usize::from(share == Share::Half);
        if let Some(tenant) = self.tenants.get_mut(&tenant) {
            tenant.taken_mut(share).slots -= 1;
        }
    }

    pub(super) fn take_place_back(&mut self, lane: Lane, share: Share) {
        self.places += 1;
        self.apart.of_mut(lane.queue).into_iter().for_each(|places| *places -= 1);
        if let Some(known) = self.lanes.get_mut(&lane) {
            known.under_way -= 1;
        }
        if let Some(tenant) = self.tenants.get_mut(&lane.key.tenant) {
            tenant.taken_mut(share).places -= 1;
            tenant.apart.of_mut(lane.queue).into_iter().for_each(|places| *places -= 1);
        }
        self.forget_idle(lane.key.tenant);
    }

    fn forget_idle(&mut self, tenant: u64) {
        if self.tenants.get(&tenant).is_some_and(|it| {
            it.good.places + it.others.places + it.patient + it.probes.len() == 0 && it.waiting.is_empty()
        }) {
            self.tenants.remove(&tenant);
        }
    }

    /// Gives a free slot to the attempt whose turn it is, if there are both.
    pub(super) fn next(&mut self, is_waiting: impl Fn(&W) -> bool) -> Option<(Lane, Share, W)> {
        while self.slots > 0 && self.places > 0 {
            let (tenant, index) = self.turn()?;
            let waiting = &mut self.tenants.get_mut(&tenant)?.waiting;
            let lane = *waiting.get(index)?;
            let known = self.lanes.get_mut(&lane)?;
            let first = known.waiting.pop_front();
            if known.waiting.is_empty() {
                waiting.remove(index);
            }
            let Some(first) = first.filter(&is_waiting) else {
                self.forget_idle(tenant);
                continue;
            };
            return Some((lane, self.give(lane)?, first));
        }
        None
    }

    /// Of the tenants that wait for what they may have, the one with the fewest slots and places; and the index of its
    /// waiting lane with the fewest attempts.
    fn turn(&self) -> Option<(u64, usize)> {
        let mut tenants: Vec<_> = self.tenants.iter().filter(|(_, tenant)| !tenant.waiting.is_empty()).collect();
        tenants.sort_by_key(|(_, tenant)| {
            (tenant.good.slots + tenant.others.slots, tenant.good.places + tenant.others.places)
        });
        tenants.into_iter().find_map(|(id, tenant)| {
            let mut best = None;
            for (index, lane) in tenant.waiting.iter().enumerate() {
                let under_way = self.lanes.get(lane).map_or(0, |known| known.under_way);
                if best.is_none_or(|(fewest, _)| under_way < fewest) && self.is_free(*lane) {
                    best = Some((under_way, index));
                    if under_way == 0 {
                        break;
                    }
                }
            }
            best.map(|(_, index)| (*id, index))
        })
    }

    /// How many slots and places are free, and how many slots receivers have that are not known to be good.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize, usize) {
        (self.slots, self.places, self.half)
    }

    #[cfg(test)]
    pub(super) fn width(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(lane.first_width(self.total), |known| known.width)
    }
}
