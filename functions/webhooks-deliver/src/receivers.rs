//! This process's state about receivers.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    time::Duration,
};

use common::{
    id::TenantId,
    lock::lock,
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Outcome, Queue},
        endpoints::Health,
    },
};

use crate::{
    pace::Pace,
    recent::Recent,
    rests::Rest,
    standing::{Seen, Shown, Standing},
    trials::{TRIAL, Trials},
};

/// A tenant's new callback origins count as hanging once its slow origins outnumber its good ones by this number.
const DOUBTS: u32 = 3;
/// The maximum number of doubts, so that new good origins can always outweigh the slow ones.
const MOST_DOUBTS: u32 = 20;

/// The receivers that this process has seen.
pub(crate) struct Receivers {
    /// Hashed together with each receiver, so an attacker cannot construct collisions.
    secret: [u8; 16],
    known: Mutex<Known>,
}

/// A tenant's receiver: an endpoint or a callback origin. Receivers with colliding hashes share state.
pub(crate) struct Receiver<'a> {
    pub(crate) tenant: u64,
    /// The hash of the tenant and the receiver.
    pub(crate) hash: u64,
    /// The health of an endpoint; callbacks have none.
    health: Option<Health>,
    known: &'a Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By the hash of the receiver.
    receivers: Recent<u64, Seen>,
    /// By the hash of the tenant.
    tenants: Recent<u64, Tenant>,
}

#[derive(Default)]
struct Tenant {
    /// The number of slow callback origins minus the number of good ones. Without this count, a tenant with thousands
    /// of hanging origins would get an attempt at each.
    doubts: u32,
    /// The response times of all callback origins, because each event may have a different origin.
    pace: Pace,
    trials: Trials,
    rest: Rest,
}

impl Receivers {
    pub(crate) fn new() -> Self {
        Self { secret: random::bytes(), known: Mutex::default() }
    }

    /// Returns a tenant's receiver: an endpoint with its health, or a callback origin.
    pub(crate) fn of(&self, tenant: &TenantId, id: impl Hash, health: Option<Health>) -> Receiver<'_> {
        let tenant = self.hash(tenant.as_str());
        Receiver { tenant, hash: self.hash((tenant, id)), health, known: &self.known }
    }

    fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, value).hash(&mut hasher);
        hasher.finish()
    }
}

impl Receiver<'_> {
    /// Returns the receiver's standing.
    pub(crate) fn standing(&self, now: Timestamp) -> Standing {
        let mut known = lock(self.known);
        match known.seen(self).standing(self.health.as_ref(), now) {
            Standing::Unknown if self.health.is_none() && known.tenant(self).doubts >= DOUBTS => Standing::Hanging,
            standing => standing,
        }
    }

    /// Whether the receiver answers in time, but rarely quickly (see `pace`).
    pub(crate) fn lingers(&self, now: Timestamp) -> bool {
        lock(self.known).pace(self).lingers(now)
    }

    /// Returns the start of the receiver's silence, if it does not answer.
    pub(crate) fn silent_since(&self, now: Timestamp) -> Option<Timestamp> {
        lock(self.known).seen(self).silent_since(self.health.as_ref(), now)
    }

    /// Whether this is a callback origin that has not recently answered in time.
    pub(crate) fn is_new_origin(&self, now: Timestamp) -> bool {
        self.health.is_none() && !lock(self.known).seen(self).has_answered(now)
    }

    /// Whether this process may probe the receiver although it does not answer.
    pub(crate) fn is_probing(&self, now: Timestamp) -> bool {
        lock(self.known).seen(self).probing_until > Some(now)
    }

    pub(crate) fn let_probe(&self, until: Timestamp) {
        lock(self.known).seen(self).probing_until = Some(until);
    }

    /// Records that an attempt was cut off. Returns whether a trial begins. Only the first cut-off in the shared queues
    /// begins one. A callback origin that has not answered before gets one only while its tenant has few doubts, because
    /// a tenant may have any number of origins.
    pub(crate) fn cut(&self, queue: Queue, since: Timestamp, now: Timestamp) -> bool {
        let mut known = lock(self.known);
        let seen = known.seen(self);
        let is_first = matches!(seen.standing(self.health.as_ref(), now), Standing::Good | Standing::Unknown);
        let is_known = self.health.is_some() || seen.has_answered(now);
        let tenant = known.tenant(self);
        let may_begin = queue == Queue::Shared && is_first && (is_known || tenant.doubts < DOUBTS);
        let is_trial = may_begin && tenant.trials.begin(now);
        self.learn(&mut known, now, |seen| {
            if is_trial {
                seen.suspect(now);
            }
            seen.cut(since, now);
        });
        is_trial
    }

    /// Returns the end of the receiver's trial, if another delivery may wait for it.
    pub(crate) fn wait_for_trial(&self, now: Timestamp) -> Option<Timestamp> {
        let mut known = lock(self.known);
        let seen = known.seen(self);
        let began = seen.suspected_at(self.health.as_ref())?;
        let end = Some(began.after(TRIAL)).filter(|end| now < *end)?;
        seen.suspect(began);
        known.tenant(self).trials.wait(end, now).then_some(end)
    }

    /// Lets the organization rest after an attempt that took from `began` to `now`.
    pub(crate) fn begin_rest(&self, began: Timestamp, now: Timestamp) {
        lock(self.known).tenant(self).rest.begin(began, now);
    }

    /// Whether the organization's attempt, which has been due since `due`, has to yield.
    pub(crate) fn rests(&self, due: Timestamp, now: Timestamp) -> bool {
        lock(self.known).tenant(self).rest.holds(due, now)
    }

    /// Records a response's duration, of which this process may have caused `lag`.
    pub(crate) fn answered(&self, took: Duration, lag: Duration, now: Timestamp) {
        lock(self.known).pace(self).answered(took, lag, now);
    }

    /// Records the outcome of an attempt that began at `began`. Returns the behavior that the receiver showed.
    pub(crate) fn ended(&self, outcome: Outcome, began: Timestamp, now: Timestamp) -> Shown {
        self.learn(&mut lock(self.known), now, |seen| seen.ended(outcome, self.health.as_ref(), began, now))
    }

    /// Changes the state of the receiver and, for a callback origin, its tenant's number of doubts.
    fn learn<T>(&self, known: &mut Known, now: Timestamp, change: impl FnOnce(&mut Seen) -> T) -> T {
        let seen = known.seen(self);
        let (before, has_been_slow) = (seen.standing(self.health.as_ref(), now), seen.has_been_slow());
        let result = change(seen);
        let after = seen.standing(self.health.as_ref(), now);
        if self.health.is_none() && before != after {
            let doubts = &mut known.tenant(self).doubts;
            match after {
                Standing::Good => *doubts = doubts.saturating_sub(1),
                // A slow origin counts once, even if it is found slow again after `Seen` has forgotten the first time.
                Standing::Slow | Standing::Suspect | Standing::Hanging if !has_been_slow => {
                    *doubts = doubts.saturating_add(1).min(MOST_DOUBTS);
                }
                _ => {}
            }
        }
        result
    }
}

impl Known {
    fn seen(&mut self, receiver: &Receiver<'_>) -> &mut Seen {
        self.receivers.of(receiver.hash)
    }

    fn tenant(&mut self, receiver: &Receiver<'_>) -> &mut Tenant {
        self.tenants.of(receiver.tenant)
    }

    fn pace(&mut self, receiver: &Receiver<'_>) -> &mut Pace {
        if receiver.health.is_some() { &mut self.seen(receiver).pace } else { &mut self.tenant(receiver).pace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::AT_ONCE;

    #[test]
    fn callbacks_of_a_tenant_share_a_pace_and_endpoints_do_not() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let began = Timestamp::from_second(0).expect("a time");
        let took = Duration::from_millis(200);
        let now = began.after(took);
        let health = Some(Health::default());
        for (health, shared) in [(None, true), (health, false)] {
            let [one, other] = ["one", "other"].map(|name| receivers.of(&tenant, name, health));
            one.answered(took, Duration::ZERO, now);
            assert_eq!((one.lingers(now), other.lingers(now)), (true, shared));
        }
    }

    #[test]
    fn new_origins_count_as_hanging_after_several_slow_ones() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let origin = |name: &str| receivers.of(&tenant, name, None);
        let mut now = Timestamp::from_second(0).expect("a time");
        for _ in 0..DOUBTS * 2 {
            origin("slow").cut(Queue::Shared, now, now);
            now = now.after(Duration::from_secs(11 * 60));
        }
        assert_eq!(origin("new").standing(now), Standing::Unknown);
        for other in 1..DOUBTS {
            origin(&other.to_string()).cut(Queue::Shared, now, now);
        }
        assert_eq!(origin("new").standing(now), Standing::Hanging);
        let health = Health::default();
        assert_eq!(receivers.of(&tenant, "new", Some(health)).standing(now), Standing::Unknown, "an endpoint");
        origin("good").ended(Outcome::Delivered(200), now, now);
        assert_eq!(origin("new").standing(now), Standing::Unknown);
    }

    #[test]
    fn a_tenant_gets_trials_at_few_new_origins_and_endpoints() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let health = Health::default();
        let origin = |name: &str| receivers.of(&tenant, name, None);
        let endpoint = |name: &str| receivers.of(&tenant, name, Some(health));
        let now = Timestamp::from_second(1000).expect("a time");
        let begun =
            |kind: &str| (0..10).filter(|n| origin(&format!("{kind} {n}")).cut(Queue::Shared, now, now)).count();
        assert_eq!(begun("new"), 3);
        let now = now.after(TRIAL);
        assert!(!origin("new").cut(Queue::Shared, now, now), "other new origins were slow");
        assert!(!endpoint("slow").cut(Queue::Slow, now, now), "the queue for slow receivers has no trials");
        origin("origin").ended(Outcome::Delivered(200), now, now);
        assert!(origin("origin").cut(Queue::Shared, now, now));
        assert!(!origin("origin").cut(Queue::Shared, now, now), "its trial has already begun");
        for other in 1..AT_ONCE {
            assert!(endpoint(&other.to_string()).cut(Queue::Shared, now, now), "{other}");
        }
        assert!(!endpoint("endpoint").cut(Queue::Shared, now, now), "other receivers have trials");
        let until = now.after(TRIAL);
        assert_eq!(origin("origin").wait_for_trial(now), Some(until));
        assert_eq!(endpoint("endpoint").wait_for_trial(now), None);
        assert!(endpoint("other").cut(Queue::Shared, until, until));
        assert!(!origin("origin").cut(Queue::Shared, until, until), "it hangs");
    }

    #[test]
    fn the_origins_of_a_tenant_do_not_displace_those_of_another() {
        let receivers = Receivers::new();
        let [flood, quiet]: [TenantId; 2] = ["flood", "quiet"].map(|id| id.parse().expect("a tenant"));
        let (good, now) = (receivers.of(&quiet, "good", None), Timestamp::from_second(1000).expect("a time"));
        for slow in 0..=DOUBTS {
            receivers.of(&quiet, slow, None).cut(Queue::Shared, now, now);
        }
        for number in 0..100_000 {
            if number % 1000 == 0 {
                good.ended(Outcome::Delivered(200), now, now);
            }
            receivers.of(&flood, number, None).ended(Outcome::Delivered(200), now, now);
            assert_eq!(good.standing(now), Standing::Good, "after {number} others");
        }
    }
}
