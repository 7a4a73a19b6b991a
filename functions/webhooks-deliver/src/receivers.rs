//! This process's state about receivers.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use common::{
    id::TenantId,
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
    rests::Rests,
    standing::{Seen, Shown, Standing},
    trials::{TRIAL, Trials},
};

/// A tenant's new callback origins count as hanging once its slow origins outnumber its good ones by this number.
const DOUBTS: u32 = 3;
/// The maximum number of doubts, so new good origins can outweigh any number of slow ones.
const MOST_DOUBTS: u32 = 20;

/// A tenant's receiver: an endpoint or a callback origin. Receivers with colliding hashes share state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) tenant: u64,
    pub(crate) receiver: u64,
}

impl Key {
    /// The key shared by all the tenant's new callback origins.
    pub(crate) fn crowd(self) -> Self {
        Self { receiver: self.tenant, ..self }
    }

    pub(crate) fn is_crowd(self) -> bool {
        self.receiver == self.tenant
    }

    /// The key shared by all the tenant's trials.
    pub(crate) fn trial(self) -> Self {
        Self { receiver: !self.tenant, ..self }
    }

    pub(crate) fn is_trial(self) -> bool {
        self.receiver == !self.tenant
    }
}

/// The receivers that this process has seen.
pub(crate) struct Receivers {
    /// Hashed together with each receiver, so an attacker cannot construct collisions.
    secret: [u8; 16],
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    seen: Recent<Seen>,
    /// By tenant: the number of slow callback origins minus the number of good ones. Without this count, a tenant with
    /// thousands of hanging origins would get an attempt at each.
    doubts: Recent<u32>,
    /// The response times: per endpoint, and per tenant for all its callback origins.
    paces: Recent<Pace>,
    trials: Trials,
    rests: Rests,
}

impl Receivers {
    pub(crate) fn new() -> Self {
        Self { secret: random::bytes(), known: Mutex::default() }
    }

    pub(crate) fn key(&self, tenant: &TenantId, receiver: impl Hash) -> Key {
        let tenant = self.hash(tenant.as_str());
        Key { tenant, receiver: self.hash((tenant, receiver)) }
    }

    fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, value).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns a receiver's standing. `health` belongs to an endpoint; callbacks have none.
    pub(crate) fn standing(&self, key: Key, health: Option<&Health>, now: Timestamp) -> Standing {
        let known = self.lock();
        match known.seen.get(key.receiver).unwrap_or(&Seen::default()).standing(health, now) {
            Standing::Unknown if health.is_none() && known.doubts.get(key.tenant) >= Some(&DOUBTS) => Standing::Hanging,
            standing => standing,
        }
    }

    /// Whether the receiver answers in time, but rarely quickly (see `pace`).
    pub(crate) fn lingers(&self, key: Key, health: Option<&Health>, now: Timestamp) -> bool {
        self.lock().paces.get(pacer(key, health)).is_some_and(|pace| pace.lingers(now))
    }

    /// Returns the start of the receiver's silence, if it does not answer.
    pub(crate) fn silent_since(&self, key: Key, health: Option<&Health>, now: Timestamp) -> Option<Timestamp> {
        self.lock().seen.get(key.receiver).unwrap_or(&Seen::default()).silent_since(health, now)
    }

    /// Whether a callback origin has recently answered in time.
    pub(crate) fn has_answered(&self, key: Key, now: Timestamp) -> bool {
        self.lock().seen.get(key.receiver).is_some_and(|seen| seen.has_answered(now))
    }

    pub(crate) fn is_probing(&self, key: Key, now: Timestamp) -> bool {
        self.lock().seen(key).is_probing(now)
    }

    pub(crate) fn let_probe(&self, key: Key, until: Timestamp) {
        self.lock().seen(key).let_probe(until);
    }

    /// Records that an attempt was cut off. Returns whether a trial begins. Only the first cut-off in the shared queues
    /// begins one. A callback origin must have answered before, because a tenant may have any number of origins.
    pub(crate) fn cut(
        &self,
        key: Key,
        health: Option<&Health>,
        queue: Queue,
        (since, now): (Timestamp, Timestamp),
    ) -> bool {
        let mut known = self.lock();
        let seen = known.seen(key);
        let is_first = matches!(seen.standing(health, now), Standing::Good | Standing::Unknown);
        let is_known = health.is_some() || seen.has_answered(now);
        let is_trial = queue == Queue::Shared && is_first && is_known && known.trials.begin(key.tenant, now);
        if is_trial {
            known.seen(key).suspect(now);
        }
        known.learn(key, health, now, |seen| seen.cut(since, now));
        is_trial
    }

    /// Returns the end of the receiver's trial, if another delivery may wait for it.
    pub(crate) fn wait_for_trial(&self, key: Key, health: Option<&Health>, now: Timestamp) -> Option<Timestamp> {
        let mut known = self.lock();
        let began = known.seen(key).suspected_at(health).filter(|at| now < at.after(TRIAL))?;
        known.seen(key).suspect(began);
        known.trials.wait(key.tenant, began.after(TRIAL), now).then_some(began.after(TRIAL))
    }

    /// Lets the organization rest after an attempt that took from `began` to `now`.
    pub(crate) fn begin_rest(&self, key: Key, began: Timestamp, now: Timestamp) {
        self.lock().rests.begin(key.tenant, began, now);
    }

    /// Whether the organization's attempt, which has been due since `due`, has to yield.
    pub(crate) fn rests(&self, key: Key, due: Timestamp, now: Timestamp) -> bool {
        self.lock().rests.rests(key.tenant, due, now)
    }

    /// Records a response's duration.
    pub(crate) fn answered(&self, key: Key, health: Option<&Health>, took: Duration, now: Timestamp) {
        self.lock().paces.of(pacer(key, health)).answered(took, now);
    }

    /// Records the outcome of an attempt that began at `began`. Returns the behavior that the receiver showed.
    pub(crate) fn ended(
        &self,
        key: Key,
        outcome: Outcome,
        health: Option<&Health>,
        (began, now): (Timestamp, Timestamp),
    ) -> Shown {
        let mut known = self.lock();
        known.learn(key, health, now, |seen| seen.ended(outcome, health, began, now))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of a receiver's pace. All of a tenant's callback origins share one, because each event may have a
/// different origin.
fn pacer(key: Key, health: Option<&Health>) -> u64 {
    if health.is_some() { key.receiver } else { key.tenant }
}

impl Known {
    fn seen(&mut self, key: Key) -> &mut Seen {
        self.seen.of(key.receiver)
    }

    /// Changes the state of a receiver and, for a callback origin, its tenant's number of doubts.
    fn learn<T>(
        &mut self,
        key: Key,
        health: Option<&Health>,
        now: Timestamp,
        change: impl FnOnce(&mut Seen) -> T,
    ) -> T {
        let seen = self.seen(key);
        let (before, has_been_slow) = (seen.standing(health, now), seen.has_been_slow());
        let result = change(seen);
        let after = seen.standing(health, now);
        // A slow origin counts once, even if it is found slow again after `Seen` has forgotten the first time.
        let is_slow = matches!(after, Standing::Slow | Standing::Suspect | Standing::Hanging);
        if health.is_none() && before != after && !(is_slow && has_been_slow) {
            self.doubt(key.tenant, after);
        }
        result
    }

    fn doubt(&mut self, tenant: u64, standing: Standing) {
        let doubts = self.doubts.of(tenant);
        *doubts = match standing {
            Standing::Slow | Standing::Suspect | Standing::Hanging => doubts.saturating_add(1).min(MOST_DOUBTS),
            Standing::Good => doubts.saturating_sub(1),
            Standing::Unknown => *doubts,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_of_a_tenant_share_a_pace_and_endpoints_do_not() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let [one, other] = ["one", "other"].map(|name| receivers.key(&tenant, name));
        let began = Timestamp::from_second(0).expect("a time");
        let took = Duration::from_millis(200);
        let now = began.after(took);
        let health = Some(&Health::default());
        for (health, shared) in [(None, true), (health, false)] {
            receivers.answered(one, health, took, now);
            assert_eq!((receivers.lingers(one, health, now), receivers.lingers(other, health, now)), (true, shared));
        }
    }

    #[test]
    fn new_origins_count_as_hanging_after_several_slow_ones() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let key = |name: &str| receivers.key(&tenant, name);
        let mut now = Timestamp::from_second(0).expect("a time");
        for _ in 0..DOUBTS * 2 {
            receivers.cut(key("slow"), None, Queue::Shared, (now, now));
            now = now.after(Duration::from_secs(11 * 60));
        }
        assert_eq!(receivers.standing(key("new"), None, now), Standing::Unknown);
        for other in 1..DOUBTS {
            receivers.cut(key(&other.to_string()), None, Queue::Shared, (now, now));
        }
        assert_eq!(receivers.standing(key("new"), None, now), Standing::Hanging);
        assert_eq!(receivers.standing(key("new"), Some(&Health::default()), now), Standing::Unknown, "an endpoint");
        receivers.ended(key("good"), Outcome::Delivered(200), None, (now, now));
        assert_eq!(receivers.standing(key("new"), None, now), Standing::Unknown);
    }

    #[test]
    fn only_known_receivers_get_a_trial_one_for_a_tenant_at_a_time() {
        let receivers = Receivers::new();
        let tenant: TenantId = "t".parse().expect("a tenant");
        let key = |name: &str| receivers.key(&tenant, name);
        let now = Timestamp::from_second(1000).expect("a time");
        let health = Some(&Health::default());
        assert!(!receivers.cut(key("new origin"), None, Queue::Shared, (now, now)));
        assert!(
            !receivers.cut(key("slow"), health, Queue::Slow, (now, now)),
            "the queue for slow receivers has no trials"
        );
        receivers.ended(key("origin"), Outcome::Delivered(200), None, (now, now));
        assert!(receivers.cut(key("origin"), None, Queue::Shared, (now, now)));
        assert!(!receivers.cut(key("origin"), None, Queue::Shared, (now, now)), "its trial has already begun");
        assert!(!receivers.cut(key("endpoint"), health, Queue::Shared, (now, now)), "another receiver has a trial");
        let until = now.after(TRIAL);
        assert_eq!(receivers.wait_for_trial(key("origin"), None, now), Some(until));
        assert_eq!(receivers.wait_for_trial(key("endpoint"), health, now), None);
        assert!(receivers.cut(key("other"), health, Queue::Shared, (until, until)));
        assert!(!receivers.cut(key("origin"), None, Queue::Shared, (until, until)), "it hangs");
    }

    #[test]
    fn the_origins_of_a_tenant_do_not_displace_those_of_another() {
        let receivers = Receivers::new();
        let [flood, quiet]: [TenantId; 2] = ["flood", "quiet"].map(|id| id.parse().expect("a tenant"));
        let (good, now) = (receivers.key(&quiet, "good"), Timestamp::from_second(1000).expect("a time"));
        for slow in 0..=DOUBTS {
            receivers.cut(receivers.key(&quiet, slow), None, Queue::Shared, (now, now));
        }
        for number in 0..100_000 {
            if number % 1000 == 0 {
                receivers.ended(good, Outcome::Delivered(200), None, (now, now));
            }
            receivers.ended(receivers.key(&flood, number), Outcome::Delivered(200), None, (now, now));
            assert_eq!(receivers.standing(good, None, now), Standing::Good, "after {number} others");
        }
    }
}
