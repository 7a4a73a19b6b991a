//! Decides which attempt is next, based on the slots and places in use. This code does not wait and has no side
//! effects.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    iter,
    time::Duration,
};

use common::webhooks::delivery::Queue;
use tokio::time::Instant;

use crate::standing::{SOON, Shown, Standing};

/// The width of a lane after its first response, and of a slow receiver's new lane: a batch's number of records.
pub(super) const NEW: usize = 10;
/// The number of concurrent attempts at a hanging receiver. A higher number would save little invocation time; with a
/// lower one, deliveries would pile up.
pub(super) const HANGING: usize = 4;
/// The maximum time that a short attempt waits for a receiver that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum number of a tenant's attempts that may keep their invocations waiting for a slot: two batches.
const PATIENT: usize = 20;
/// In the local runner, the maximum number of a queue's batches that a process handles concurrently. Lambda hands a
/// process one at a time.
const BATCHES: usize = 32;
/// A process with more lanes than this forgets idle ones.
const LANES: usize = 10_000;
/// The number of places per slot, and the maximum number of places: Lambda allows 1,024 file descriptors, and calls to
/// AWS need some of them.
const PLACES: usize = 4;
const MOST_PLACES: usize = 800;

/// A tenant's attempts in one queue that share a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) tenant: u64,
    pub(crate) at: At,
    pub(crate) queue: Queue,
}

/// The destination of a lane's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Receiver(u64),
    /// All new callback origins.
    NewOrigins,
    /// A receiver on trial.
    Trial(u64),
}

/// The slots that an attempt may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Share {
    Any,
    Half,
}

/// Why an attempt does not get a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// The receiver, or its tenant, has its maximum number of attempts in progress.
    Full,
    /// It is too late to start an attempt.
    Late,
}

/// A process's slots and places, and their holders. `W` is an attempt that waits for its turn.
pub(super) struct State<W> {
    /// The numbers of all slots and places.
    total: usize,
    places: usize,
    held: Held,
    tenants: BTreeMap<u64, TenantState>,
    lanes: HashMap<Lane, LaneState<W>>,
    /// Idle lanes are next forgotten when there are this many lanes.
    most_lanes: usize,
    /// The number of attempts that have ever waited, which serves as a clock.
    waits: u64,
}

#[derive(Default)]
struct TenantState {
    held: Held,
    /// The number of the tenant's attempts that have permission to wait.
    patient: usize,
    /// The number of the tenant's probes in each batch.
    probes: BTreeMap<u64, usize>,
    /// The lanes that have waiting attempts and are narrower than their width, grouped by the attributes that decide
    /// whether they may get a slot. Thousands of lanes may wait for each slot, so a turn looks only at the first lane
    /// of each group.
    ready: BTreeMap<(Share, Queue), BTreeMap<Place, Lane>>,
}

/// A lane's position among the ready ones: the number of its attempts in progress, and the start of its wait.
type Place = (usize, u64);

/// The slots and places that a tenant, or all tenants together, have in use.
#[derive(Default)]
struct Held {
    /// For receivers known to be good, and for all others.
    good: Taken,
    others: Taken,
    /// Places by queue. Places for the shared queues are not counted.
    apart: BTreeMap<Queue, usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    slots: usize,
    places: usize,
}

struct LaneState<W> {
    in_progress: usize,
    width: usize,
    share: Share,
    /// The time of the receiver's last quick response or, before that, of the start of its first attempt.
    answered_at: Instant,
    waiting: VecDeque<W>,
    /// The value of `waits` when the lane began to wait.
    waits_since: u64,
    /// The position among the tenant's ready lanes.
    ready: Option<(Share, Place)>,
}

impl Held {
    fn all(&self) -> Taken {
        let Self { good, others, .. } = self;
        Taken { slots: good.slots + others.slots, places: good.places + others.places }
    }

    fn of(&mut self, share: Share) -> &mut Taken {
        if share == Share::Any { &mut self.good } else { &mut self.others }
    }

    fn apart(&self, queue: Queue) -> usize {
        self.apart.get(&queue).copied().unwrap_or(0)
    }
}

impl Lane {
    /// Returns the initial width in a process with `total` slots. In the shared queues, the first attempt at a receiver
    /// is made alone: if the receiver is slow, it gets only that delivery twice. New callback origins share one lane,
    /// where hanging ones delay the others, so it is wider. A trial is made alone.
    fn first_width(self, total: usize) -> usize {
        match (self.queue, self.at) {
            (Queue::Shared, _) | (Queue::Slow, At::Trial(_)) => 1,
            (Queue::Slow, _) => NEW,
            (Queue::Hanging, At::NewOrigins) => HANGING.max(total / 4),
            (Queue::Hanging, _) => HANGING,
        }
    }
}

impl<W> State<W> {
    pub(super) fn new(total: usize) -> Self {
        let places = total.saturating_mul(PLACES).min(MOST_PLACES).max(total);
        Self {
            total,
            places,
            held: Held::default(),
            tenants: BTreeMap::new(),
            lanes: HashMap::new(),
            most_lanes: LANES,
            waits: 0,
        }
    }

    /// Takes a slot and a place, if both are free.
    pub(super) fn take(&mut self, lane: Lane, standing: Standing) -> Option<Share> {
        self.lane(lane).share = if standing == Standing::Good { Share::Any } else { Share::Half };
        self.line_up(lane);
        self.give(lane)
    }

    /// Takes a slot and a place for a probe in this batch. Returns `None` if all slots are taken: the attempt then
    /// waits for its turn, because the receiver might never be tried otherwise.
    pub(super) fn probe(&mut self, lane: Lane, batch: u64) -> Result<Option<Share>, NoSlot> {
        // A batch counts once for each tenant with probes in it.
        let left = BATCHES.saturating_sub(self.tenants.values().map(|tenant| tenant.probes.len()).sum());
        let probes = self.tenants.get(&lane.tenant).map(|tenant| &tenant.probes);
        if probes.is_some_and(|held| !held.contains_key(&batch) && !held.is_empty() && held.len() >= left) {
            return Err(NoSlot::Full);
        }
        let known = self.lane(lane);
        known.share = Share::Half;
        let is_idle = known.in_progress == 0 && known.waiting.is_empty();
        self.line_up(lane);
        match self.give(lane) {
            Some(share) => {
                *self.tenant(lane).probes.entry(batch).or_default() += 1;
                Ok(Some(share))
            }
            None if is_idle && !self.has_its_share(lane) => Ok(None),
            None => Err(NoSlot::Full),
        }
    }

    pub(super) fn end_probe(&mut self, lane: Lane, batch: u64) {
        let probes = &mut self.tenant(lane).probes;
        probes.entry(batch).and_modify(|number| *number -= 1);
        probes.retain(|_, number| *number > 0);
        self.forget_idle(lane);
    }

    /// Appends an attempt to the waiting attempts of its lane.
    pub(super) fn wait(&mut self, lane: Lane, attempt: W) {
        self.waits += 1;
        let waits = self.waits;
        let known = self.lane(lane);
        if known.waiting.is_empty() {
            known.waits_since = waits;
        }
        known.waiting.push_back(attempt);
        self.line_up(lane);
    }

    /// Changes the width of a lane after an attempt. If the receiver hangs, the lane becomes as narrow as a new one,
    /// and its waiting attempts are dropped.
    pub(super) fn learn(&mut self, lane: Lane, shown: Shown) {
        let (total, new) = (self.total, lane.first_width(self.total));
        let after_response = if lane.queue == Queue::Shared { NEW.min(total) } else { new };
        let known = self.lane(lane);
        match shown {
            Shown::Success | Shown::Good { .. } => {
                known.answered_at = Instant::now();
                // A lane that is less than half full stays as it is: its receiver has not shown that it can take more.
                if known.in_progress * 2 >= known.width && !matches!(lane.at, At::Trial(_)) {
                    known.width = total.min((known.width + 1).max(after_response));
                }
            }
            Shown::Error => {
                known.answered_at = Instant::now();
                known.width = (known.width / 2).max(after_response);
            }
            Shown::NoAnswer { hangs: true } => {
                known.width = new;
                known.waiting.clear();
            }
            Shown::NoAnswer { hangs: false } | Shown::Nothing => {}
        }
        self.line_up(lane);
    }

    /// Updates a lane's position among its tenant's ready lanes after a change.
    fn line_up(&mut self, lane: Lane) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        let is_ready = !known.waiting.is_empty() && known.in_progress < known.width;
        let place = is_ready.then_some((known.share, (known.in_progress, known.waits_since)));
        let before = std::mem::replace(&mut known.ready, place);
        if before == place {
            return;
        }
        let ready = &mut self.tenant(lane).ready;
        if let Some((share, place)) = before {
            ready.entry((share, lane.queue)).or_default().remove(&place);
        }
        if let Some((share, place)) = place {
            ready.entry((share, lane.queue)).or_default().insert(place, lane);
        }
    }

    fn tenant(&mut self, lane: Lane) -> &mut TenantState {
        self.tenants.entry(lane.tenant).or_default()
    }

    /// The slots and places held by all tenants together, and by this lane's tenant.
    fn holders(&mut self, lane: Lane) -> [&mut Held; 2] {
        [&mut self.held, &mut self.tenants.entry(lane.tenant).or_default().held]
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneState<W> {
        if self.lanes.len() >= self.most_lanes && !self.lanes.contains_key(&lane) {
            self.lanes.retain(|_, known| known.in_progress > 0 || !known.waiting.is_empty());
            // If most are in use, the next new lane must not search all of them again.
            self.most_lanes = LANES.max(self.lanes.len() * 2);
        }
        let (width, share) = (lane.first_width(self.total), Share::Half);
        self.lanes.entry(lane).or_insert_with(|| LaneState {
            in_progress: 0,
            width,
            share,
            answered_at: Instant::now(),
            waiting: VecDeque::new(),
            waits_since: 0,
            ready: None,
        })
    }

    fn share(&self, lane: Lane) -> Share {
        self.lanes.get(&lane).map_or(Share::Half, |known| known.share)
    }

    fn is_full(&self, lane: Lane) -> bool {
        self.lanes.get(&lane).is_some_and(|known| known.in_progress >= known.width)
    }

    /// Whether the receiver or the tenant has reached its limit, even if slots are free.
    fn has_its_share(&self, lane: Lane) -> bool {
        let tenant = self.tenants.get(&lane.tenant);
        self.is_full(lane) || tenant.is_some_and(|tenant| self.is_greedy(&tenant.held, self.share(lane), lane.queue))
    }

    /// Whether a tenant already holds as many slots or places of this kind as it leaves free for others.
    fn is_greedy(&self, held: &Held, share: Share, queue: Queue) -> bool {
        let (taken, free) = (if share == Share::Any { held.good } else { held.others }, self.free());
        let is_greedy = |taken, free| taken > 0 && taken >= free;
        is_greedy(taken.slots, free.slots)
            || is_greedy(taken.places, free.places)
            || is_greedy(held.apart(queue), self.left(queue))
    }

    fn free(&self) -> Taken {
        let held = self.held.all();
        Taken { slots: self.total - held.slots, places: self.places - held.places }
    }

    /// Returns the number of places left for attempts from this queue. Slow receivers together get half of all places,
    /// and hanging receivers as many as there are slots.
    fn left(&self, queue: Queue) -> usize {
        match queue {
            Queue::Shared => self.free().places,
            Queue::Slow => self.places.div_ceil(2).saturating_sub(self.held.apart(queue)),
            Queue::Hanging => self.total.saturating_sub(self.held.apart(queue)),
        }
    }

    /// Gives one of the tenant's attempts permission to wait, unless too many others have it.
    pub(super) fn begin_wait(&mut self, lane: Lane) -> bool {
        let tenant = self.tenant(lane);
        let may_wait = tenant.patient < PATIENT;
        tenant.patient += usize::from(may_wait);
        may_wait
    }

    pub(super) fn end_wait(&mut self, lane: Lane) {
        self.tenant(lane).patient -= 1;
        self.forget_idle(lane);
    }

    /// Whether an attempt that has waited since `began` should give up: its receiver does not answer, or other attempts
    /// of its tenant take too long.
    pub(super) fn is_stuck(&self, lane: Lane, began: Instant) -> bool {
        let known = self.lanes.get(&lane).filter(|known| known.in_progress > 0);
        let since = known.map_or(began, |known| known.answered_at);
        (since.elapsed() >= PATIENCE && self.is_full(lane)) || (began.elapsed() >= SOON && self.has_its_share(lane))
    }

    /// Whether the lane may take a slot and a place.
    fn is_free(&self, lane: Lane) -> bool {
        self.has_room(self.share(lane), lane.queue) && !self.has_its_share(lane)
    }

    /// Whether a slot and a place of this kind are free.
    fn has_room(&self, share: Share, queue: Queue) -> bool {
        let free = self.free();
        let has_slot = free.slots > 0 && (share == Share::Any || self.held.others.slots < self.total.div_ceil(2));
        has_slot && free.places > 0 && self.left(queue) > 0
    }

    /// Takes a slot and a place, if both are free.
    fn give(&mut self, lane: Lane) -> Option<Share> {
        if !self.is_free(lane) {
            return None;
        }
        let known = self.lane(lane);
        if known.in_progress == 0 {
            known.answered_at = Instant::now();
        }
        known.in_progress += 1;
        let share = known.share;
        for held in self.holders(lane) {
            held.of(share).slots += 1;
            held.of(share).places += 1;
            if lane.queue != Queue::Shared {
                *held.apart.entry(lane.queue).or_default() += 1;
            }
        }
        self.line_up(lane);
        Some(share)
    }

    pub(super) fn take_slot_back(&mut self, lane: Lane, share: Share) {
        for held in self.holders(lane) {
            held.of(share).slots -= 1;
        }
    }

    pub(super) fn take_place_back(&mut self, lane: Lane, share: Share) {
        for held in self.holders(lane) {
            held.of(share).places -= 1;
            held.apart.entry(lane.queue).and_modify(|places| *places -= 1);
        }
        self.lane(lane).in_progress -= 1;
        self.line_up(lane);
        self.forget_idle(lane);
    }

    fn forget_idle(&mut self, lane: Lane) {
        let TenantState { held, patient, probes, ready } = self.tenant(lane);
        if held.all().places + *patient + probes.len() == 0 && ready.values().all(BTreeMap::is_empty) {
            self.tenants.remove(&lane.tenant);
        }
    }

    /// Gives a free slot to the attempt whose turn it is. Returns `None` if either is missing.
    pub(super) fn next(&mut self, is_waiting: impl Fn(&W) -> bool) -> Option<(Lane, Share, W)> {
        while self.has_room(Share::Any, Queue::Shared) {
            let lane = self.turn()?;
            let waiting = &mut self.lanes.get_mut(&lane)?.waiting;
            let first = iter::from_fn(|| waiting.pop_front()).find(&is_waiting);
            if let Some(first) = first {
                return Some((lane, self.give(lane)?, first));
            }
            self.line_up(lane);
            self.forget_idle(lane);
        }
        None
    }

    /// Finds the lane whose turn it is. Only lanes that may take a slot are considered: first the tenant with the
    /// fewest slots and places, and then its lane with the fewest attempts.
    pub(super) fn turn(&self) -> Option<Lane> {
        let first = |tenant: &TenantState| {
            let is_free = |share, queue| self.has_room(share, queue) && !self.is_greedy(&tenant.held, share, queue);
            let groups = tenant.ready.iter().filter(|((share, queue), _)| is_free(*share, *queue));
            let firsts = groups.filter_map(|(_, lanes)| lanes.first_key_value().map(|(place, lane)| (*place, *lane)));
            firsts.min_by_key(|(place, _)| *place)
        };
        let tenants = self.tenants.values().filter_map(|tenant| Some((tenant.held.all(), first(tenant)?.1)));
        tenants.min_by_key(|(taken, _)| *taken).map(|(_, lane)| lane)
    }
}

#[cfg(test)]
impl<W> State<W> {
    /// The free slots, the free places, and the slots in use for receivers that are not known to be good.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let Taken { slots, places } = self.free();
        (slots, places, self.held.others.slots)
    }

    pub(super) fn width(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(lane.first_width(self.total), |known| known.width)
    }

    /// The lane whose turn it is, found by a search through all lanes.
    pub(super) fn searched(&self) -> Option<Lane> {
        let waiting = self.lanes.iter().filter(|(lane, known)| !known.waiting.is_empty() && self.is_free(**lane));
        let by_turn = waiting.min_by_key(|(lane, known)| {
            let tenant = self.tenants.get(&lane.tenant);
            let taken = tenant.map(|tenant| tenant.held.all());
            (taken, lane.tenant, known.in_progress, known.waits_since)
        });
        by_turn.map(|(lane, _)| *lane)
    }
}
