//! Shares: decide whose turn it is, from the slots and places in use. None of this code waits or has side effects.

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

/// The width of a lane after its first response, and of a slow receiver's lane: the number of records in a batch.
pub(super) const NEW: usize = 10;
/// The number of concurrent attempts to a hanging receiver. A higher number saves little invocation time; with a lower
/// one, deliveries pile up.
pub(super) const HANGING: usize = 4;
/// The maximum time for which a short attempt waits for a receiver that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum number of a tenant's attempts that wait for a slot, as do their invocations: two batches.
const PATIENT: usize = 20;
/// The number of batches of a queue that a process handles concurrently: one on Lambda, this many in the local runner.
const BATCHES: usize = 32;
/// The number of lanes that a process remembers.
const LANES: usize = 10_000;
/// The places per slot, and their maximum: Lambda allows 1,024 file descriptors, and calls to AWS need some of them.
const PLACES: usize = 4;
const MOST_PLACES: usize = 800;

/// The attempts at a receiver that share its width: all attempts from one queue.
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

/// The response to a request for a probe.
pub(super) enum Probe {
    Given(Share),
    /// All slots are taken. The attempt waits for its turn, since the receiver would otherwise never be tried.
    Waits,
    /// The receiver, or its tenant, has its maximum number of attempts in progress.
    Full,
}

/// The slots and places of a process, and their holders. `W` represents an attempt that waits for its turn.
pub(super) struct State<W> {
    total: usize,
    /// The numbers of free slots and places.
    slots: usize,
    places: usize,
    /// The total number of places.
    all_places: usize,
    /// The number of slots in use for receivers that are not known to be good.
    half: usize,
    /// The numbers of places in use for slow and for hanging receivers.
    apart: Apart,
    /// The number of batches that wait for probes, counted once for each tenant with probes in the batch.
    probed: usize,
    tenants: BTreeMap<u64, TenantState>,
    lanes: HashMap<Lane, LaneState<W>>,
}

#[derive(Default)]
struct TenantState {
    /// The slots and places in use by all receivers, and the places of slow and hanging ones.
    good: Taken,
    others: Taken,
    apart: Apart,
    /// The number of its attempts that have permission to wait.
    patient: usize,
    /// The number of its probes in each batch.
    probes: BTreeMap<u64, usize>,
    /// The lanes in which attempts wait, longest wait first.
    waiting: Vec<Lane>,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    slots: usize,
    places: usize,
}

/// Places by the queue of their attempts. Places of the shared queues are not counted.
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
    in_progress: usize,
    width: usize,
    share: Share,
    /// The time of the receiver's last quick response, or else of the start of its first attempt.
    answered_at: Instant,
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
    /// The initial width in a process with `total` slots. If attempts must be short, a first attempt is made alone: a
    /// slow receiver then gets only that delivery twice. Many new origins of callbacks may hang, and the others wait
    /// for them, so their shared lane is wider. Trials are made one by one.
    fn first_width(self, total: usize) -> usize {
        match self.queue {
            Queue::Shared => 1,
            Queue::Hanging if self.key.is_crowd() => HANGING.max(total / 4),
            Queue::Slow if self.key.is_trial() => 1,
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

    /// Takes a slot and a place, if both are free.
    pub(super) fn take(&mut self, lane: Lane, standing: Standing) -> Option<Share> {
        self.lane(lane).share = standing.into();
        self.give(lane)
    }

    /// Takes a slot and a place for a hanging receiver, in this batch.
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
        let is_idle = known.in_progress == 0 && known.waiting.is_empty();
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

    /// Widens a lane after a success. A lane that is less than half full has not shown that its receiver can handle
    /// more.
    pub(super) fn widen(&mut self, lane: Lane) {
        let total = self.total;
        let (first, known) = self.answered(lane);
        if known.in_progress * 2 >= known.width && !lane.key.is_trial() {
            known.width = total.min((known.width + 1).max(first));
        }
    }

    /// Halves a lane after a quick error, down to the width of a lane after its first response.
    pub(super) fn halve(&mut self, lane: Lane) {
        let (first, known) = self.answered(lane);
        known.width = (known.width / 2).max(first);
    }

    /// Records a quick response. Returns the width of the lane after its first one, and its state.
    fn answered(&mut self, lane: Lane) -> (usize, &mut LaneState<W>) {
        let first = if lane.queue == Queue::Shared { NEW.min(self.total) } else { lane.first_width(self.total) };
        let known = self.lane(lane);
        known.answered_at = Instant::now();
        (first, known)
    }

    /// Makes a lane as narrow as a new lane, and lets no attempt wait in it.
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
            self.lanes.retain(|_, known| known.in_progress > 0 || !known.waiting.is_empty());
        }
        let (width, share) = (lane.first_width(self.total), Share::Half);
        self.lanes.entry(lane).or_insert_with(|| LaneState {
            in_progress: 0,
            width,
            share,
            answered_at: Instant::now(),
            waiting: VecDeque::new(),
        })
    }

    fn share(&self, lane: Lane) -> Share {
        self.lanes.get(&lane).map_or(Share::Half, |known| known.share)
    }

    fn is_full(&self, lane: Lane) -> bool {
        self.lanes.get(&lane).is_some_and(|known| known.in_progress >= known.width)
    }

    /// Whether the receiver or the tenant has reached its share, even if slots are free.
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

    /// The number of places left for attempts of this queue. Slow receivers together get half of all places, and
    /// hanging receivers no more than there are slots.
    fn left(&self, queue: Queue) -> usize {
        let most = match queue {
            Queue::Shared => return self.places,
            Queue::Slow => self.all_places.div_ceil(2),
            Queue::Hanging => self.total,
        };
        most.saturating_sub(self.apart.of(queue))
    }

    /// Gives an attempt of the tenant permission to wait, if only a few others have it.
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

    /// Whether an attempt that waits since `began` should stop waiting: its receiver does not answer, or other
    /// attempts of its tenant take too long.
    pub(super) fn is_stuck(&self, lane: Lane, began: Instant) -> bool {
        let known = self.lanes.get(&lane).filter(|known| known.in_progress > 0);
        let since = known.map_or(began, |known| known.answered_at);
        (since.elapsed() >= PATIENCE && self.is_full(lane)) || (began.elapsed() >= SOON && self.has_its_share(lane))
    }

    /// Whether the lane may take a slot and a place now.
    fn is_free(&self, lane: Lane) -> bool {
        let has_slot = self.slots > 0 && (self.share(lane) == Share::Any || self.half < self.total.div_ceil(2));
        has_slot && self.places > 0 && self.left(lane.queue) > 0 && !self.has_its_share(lane)
    }

    /// Takes a slot and a place, if both are free.
    fn give(&mut self, lane: Lane) -> Option<Share> {
        if !self.is_free(lane) {
            return None;
        }
        self.slots -= 1;
        self.places -= 1;
        let known = self.lane(lane);
        if known.in_progress == 0 {
            known.answered_at = Instant::now();
        }
        known.in_progress += 1;
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
            known.in_progress -= 1;
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

    /// Gives a free slot, if there is one, to the next attempt, if there is one.
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

    /// Finds the tenant with the fewest slots and places among those that wait for a share they may have, and the index
    /// of its waiting lane with the fewest attempts.
    fn turn(&self) -> Option<(u64, usize)> {
        let mut tenants: Vec<_> = self.tenants.iter().filter(|(_, tenant)| !tenant.waiting.is_empty()).collect();
        tenants.sort_by_key(|(_, tenant)| {
            (tenant.good.slots + tenant.others.slots, tenant.good.places + tenant.others.places)
        });
        tenants.into_iter().find_map(|(id, tenant)| {
            let mut best = None;
            for (index, lane) in tenant.waiting.iter().enumerate() {
                let in_progress = self.lanes.get(lane).map_or(0, |known| known.in_progress);
                if best.is_none_or(|(fewest, _)| in_progress < fewest) && self.is_free(*lane) {
                    best = Some((in_progress, index));
                    if in_progress == 0 {
                        break;
                    }
                }
            }
            best.map(|(_, index)| (*id, index))
        })
    }

    /// The numbers of free slots, of free places, and of slots in use for receivers that are not known to be good.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize, usize) {
        (self.slots, self.places, self.half)
    }

    #[cfg(test)]
    pub(super) fn width(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(lane.first_width(self.total), |known| known.width)
    }
}
