//! The order in which a standard queue's visible messages are received: by arrival, except that the messages of noisy
//! groups wait for all others.
//!
//! SQS calls this [fair queues][how]: an organization with many messages, or with slow ones, does not delay the others.
//! A group is noisy if it has more than a tenth of the messages in flight, and at least 30 of them, or if its messages
//! took more than a tenth of the processing time in the last minute. (SQS says only "recent".) Processing time is the
//! time from the last receive of a message to its deletion; a receive that ends with a timeout does not count. If only
//! noisy groups have visible messages, the group with the fewest messages in flight comes first. A message without a
//! group is a quiet group of its own.
//!
//! Unlike in SQS, a group does not become quiet as soon as it has no messages left: its processing time counts for the
//! rest of the minute.
//!
//! At most nine groups can have more than a tenth of anything, so at most 18 are noisy at a time. A receive therefore
//! compares only the oldest messages of a few groups, and costs O(log n) for n groups and messages without a group.
//!
//! [how]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

/// The minimum number of messages in flight that can make a group noisy.
const MIN_NOISY_MESSAGES: usize = 30;

/// A group is noisy if it has more than this part of the messages in flight or of the processing time: one tenth.
const NOISY_SHARE_DIVISOR: u32 = 10;

/// The time for which processing time counts.
const WINDOW: Duration = Duration::from_mins(1);

/// Processing times that end within this time are added up, which bounds their number.
const STEP: Duration = Duration::from_secs(1);

/// A message's group, if it has one.
pub(super) type Group = Option<Arc<str>>;

/// The visible messages of a queue, by their keys, and the load from each group.
#[derive(Default)]
pub(super) struct Fair {
    /// The number of messages that have arrived.
    arrivals: u64,
    /// The oldest visible message of each group and the visible messages without a group, by arrival.
    heads: BTreeMap<u64, Head>,
    /// The groups with visible messages or load.
    groups: HashMap<Arc<str>, Load>,
    /// The sum for all groups and all messages without a group.
    in_flight: usize,
    /// The same for the processing time.
    worked: Duration,
    /// The processing times that count, in the order in which they end.
    recent: VecDeque<Step>,
}

enum Head {
    /// A message without a group.
    Single(i64),
    /// The oldest visible message of this group.
    Oldest(Arc<str>),
}

#[derive(Default)]
struct Load {
    /// Arrival and key of each visible message.
    visible: VecDeque<(u64, i64)>,
    in_flight: usize,
    worked: Duration,
}

/// The processing times that end within [`STEP`], by group.
struct Step {
    start: Instant,
    worked: HashMap<Group, Duration>,
}

impl Fair {
    /// The number of messages in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Adds a message that has become visible.
    pub(super) fn arrived(&mut self, key: i64, group: &Group) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let Some(name) = group else {
            self.heads.insert(arrival, Head::Single(key));
            return;
        };
        let load = self.groups.entry(Arc::clone(name)).or_default();
        if load.visible.is_empty() {
            self.heads.insert(arrival, Head::Oldest(Arc::clone(name)));
        }
        load.visible.push_back((arrival, key));
    }

    /// Removes and returns the visible message that is next in order.
    pub(super) fn next(&mut self, now: Instant) -> Option<i64> {
        self.forget(now);
        let quiet = self.heads.iter().find(|(_, head)| !self.is_noisy(head));
        let next = quiet.or_else(|| self.heads.iter().min_by_key(|(arrival, head)| (self.flying(head), **arrival)));
        let arrival = *next?.0;
        match self.heads.remove(&arrival)? {
            Head::Single(key) => Some(key),
            Head::Oldest(name) => {
                let visible = &mut self.groups.get_mut(&name)?.visible;
                let (_, key) = visible.pop_front()?;
                if let Some((arrival, _)) = visible.front() {
                    self.heads.insert(*arrival, Head::Oldest(name));
                } else {
                    self.change(&name, |_| {});
                }
                Some(key)
            }
        }
    }

    /// A message is now in flight.
    pub(super) fn took_off(&mut self, group: &Group) {
        self.in_flight += 1;
        if let Some(name) = group {
            self.change(name, |load| load.in_flight += 1);
        }
    }

    /// A message is no longer in flight.
    pub(super) fn landed(&mut self, group: &Group) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(name) = group {
            self.change(name, |load| load.in_flight = load.in_flight.saturating_sub(1));
        }
    }

    /// A message was processed for this time, and is deleted.
    pub(super) fn worked(&mut self, group: &Group, time: Duration, now: Instant) {
        self.forget(now);
        self.worked += time;
        if let Some(name) = group {
            self.change(name, |load| load.worked += time);
        }
        if self.recent.back().is_none_or(|step| step.start + STEP <= now) {
            self.recent.push_back(Step { start: now, worked: HashMap::new() });
        }
        if let Some(step) = self.recent.back_mut() {
            *step.worked.entry(group.clone()).or_default() += time;
        }
    }

    /// Subtracts the processing times that no longer count.
    fn forget(&mut self, now: Instant) {
        while let Some(step) = self.recent.pop_front_if(|step| step.start + WINDOW <= now) {
            for (group, time) in step.worked {
                self.worked = self.worked.saturating_sub(time);
                if let Some(name) = group {
                    self.change(&name, |load| load.worked = load.worked.saturating_sub(time));
                }
            }
        }
    }

    fn is_noisy(&self, head: &Head) -> bool {
        self.load(head).is_some_and(|load| {
            let has_many = load.in_flight >= MIN_NOISY_MESSAGES
                && load.in_flight.saturating_mul(NOISY_SHARE_DIVISOR as usize) > self.in_flight;
            has_many || load.worked.saturating_mul(NOISY_SHARE_DIVISOR) > self.worked
        })
    }

    fn flying(&self, head: &Head) -> usize {
        self.load(head).map_or(0, |load| load.in_flight)
    }

    fn load(&self, head: &Head) -> Option<&Load> {
        match head {
            Head::Single(_) => None,
            Head::Oldest(name) => self.groups.get(name),
        }
    }

    /// Changes a group, and removes it if it has neither visible messages nor load.
    fn change(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Load)) {
        let load = self.groups.entry(Arc::clone(name)).or_default();
        change(load);
        if load.visible.is_empty() && load.in_flight == 0 && load.worked.is_zero() {
            self.groups.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Some(name.into())
    }

    /// Adds messages with these keys.
    fn arrive(fair: &mut Fair, keys: impl IntoIterator<Item = i64>, group: &Group) {
        for key in keys {
            fair.arrived(key, group);
        }
    }

    /// Takes the next message, which stays in flight in `group`.
    fn take(fair: &mut Fair, group: &Group, now: Instant) -> Option<i64> {
        let key = fair.next(now)?;
        fair.took_off(group);
        Some(key)
    }

    /// The keys of all visible messages, in the order in which they are next.
    fn order(fair: &mut Fair, now: Instant) -> Vec<i64> {
        std::iter::from_fn(|| fair.next(now)).collect()
    }

    #[test]
    fn a_group_with_thirty_messages_in_flight_waits_for_the_others() {
        let (mut fair, now, a) = (Fair::default(), Instant::now(), group("a"));
        arrive(&mut fair, 0..500, &a);
        arrive(&mut fair, [500], &group("b"));
        arrive(&mut fair, [501], &None);
        // With 29 messages in flight, the order is still that of the arrivals.
        for key in 0..30 {
            assert_eq!(take(&mut fair, &a, now), Some(key));
        }
        arrive(&mut fair, [502], &group("b"));
        let expected: Vec<_> = [500, 501, 502].into_iter().chain(30..500).collect();
        assert_eq!(order(&mut fair, now), expected);
    }

    #[test]
    fn a_tenth_of_the_messages_in_flight_is_not_noisy() {
        let (mut fair, now, a) = (Fair::default(), Instant::now(), group("a"));
        arrive(&mut fair, [0], &a);
        arrive(&mut fair, [1], &group("b"));
        (0..30).for_each(|_| fair.took_off(&a));
        (0..270).for_each(|_| fair.took_off(&None));
        assert_eq!(fair.next(now), Some(0), "30 of 300");
        arrive(&mut fair, [2], &a);
        arrive(&mut fair, [3], &group("b"));
        fair.landed(&None);
        assert_eq!(order(&mut fair, now), [1, 3, 2], "30 of 299");
    }

    #[test]
    fn a_group_whose_messages_have_landed_is_quiet_again() {
        let (mut fair, now, a) = (Fair::default(), Instant::now(), group("a"));
        arrive(&mut fair, 0..2, &a);
        arrive(&mut fair, [2], &group("b"));
        (0..30).for_each(|_| fair.took_off(&a));
        assert_eq!(fair.next(now), Some(2));
        arrive(&mut fair, [3], &group("b"));
        fair.landed(&a);
        assert_eq!(order(&mut fair, now), [0, 1, 3]);
    }

    #[test]
    fn a_group_with_slow_messages_waits_for_the_others_for_a_minute() {
        let (start, a, b) = (Instant::now(), group("a"), group("b"));
        for (after, expected) in [(0, [1, 2, 0]), (59, [1, 2, 0]), (60, [0, 1, 2])] {
            let (mut fair, now) = (Fair::default(), start + Duration::from_secs(after));
            fair.worked(&a, Duration::from_millis(1001), start);
            fair.worked(&b, Duration::from_secs(1), start);
            fair.worked(&None, Duration::from_millis(7999), start);
            arrive(&mut fair, [0], &a);
            arrive(&mut fair, [1], &b);
            arrive(&mut fair, [2], &None);
            assert_eq!(order(&mut fair, now), expected, "after {after} s");
        }
    }

    #[test]
    fn noisy_groups_take_turns_if_nothing_else_waits() {
        let (mut fair, now) = (Fair::default(), Instant::now());
        let groups = [group("a"), group("b")];
        for (group, first) in groups.iter().zip([0, 100]) {
            arrive(&mut fair, first..first + 3, group);
            (0..30).for_each(|_| fair.took_off(group));
        }
        for expected in [0, 100, 1, 101, 2, 102] {
            assert_eq!(take(&mut fair, &groups[usize::from(expected >= 100)], now), Some(expected));
        }
        assert_eq!(fair.next(now), None);
    }

    #[test]
    fn messages_without_a_group_are_received_in_order_of_arrival() {
        let (mut fair, now) = (Fair::default(), Instant::now());
        arrive(&mut fair, 0..500, &None);
        for key in 0..500 {
            assert_eq!(take(&mut fair, &None, now), Some(key));
            fair.worked(&None, Duration::from_secs(1), now);
        }
    }

    #[test]
    fn messages_of_quiet_groups_are_received_in_order_of_arrival() {
        let (mut fair, now) = (Fair::default(), Instant::now());
        for key in 0..2_000 {
            arrive(&mut fair, [key], &group(&(key % 20).to_string()));
        }
        for key in 0..2_000 {
            assert_eq!(take(&mut fair, &group(&(key % 20).to_string()), now), Some(key));
        }
    }

    /// The number of groups does not grow forever, nor does that of the processing times.
    #[test]
    fn idle_groups_are_forgotten() {
        let (mut fair, mut now) = (Fair::default(), Instant::now());
        for key in 0..10_000 {
            let group = group(&key.to_string());
            arrive(&mut fair, [key], &group);
            assert_eq!(take(&mut fair, &group, now), Some(key));
            fair.landed(&group);
            fair.worked(&group, Duration::from_millis(100), now);
            now += Duration::from_millis(100);
        }
        assert!(fair.groups.len() <= 610, "{}", fair.groups.len());
        assert!(fair.recent.len() <= 61, "{}", fair.recent.len());
        assert_eq!(fair.next(now + WINDOW), None);
        assert!(fair.groups.is_empty() && fair.recent.is_empty() && fair.worked.is_zero());
    }
}
