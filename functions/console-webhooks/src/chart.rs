//! The deliveries of the last 24 hours by hour: as a bar chart, and as a table.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::log::count::{Counts, Statistics},
};
use maud::{Markup, html};

use crate::times;

/// The number of hours: a day, and the hour that has begun.
const HOURS: u32 = 25;
const HOUR: Duration = Duration::from_secs(60 * 60);
/// The size of the drawing. Each hour has a bar and a gap.
const HEIGHT: u32 = 40;
const STEP: u32 = 8;
const BAR: u32 = 6;

/// The beginning of the chart.
pub(crate) fn since(now: Timestamp) -> Timestamp {
    now.before(HOUR * (HOURS - 1))
}

/// The bars, with their totals as text. Successes that were not read look unread, and the text says so.
pub(crate) fn day(counted: &Statistics, now: Timestamp) -> Markup {
    let total = counted.total;
    html! {
        (bars(counted, now))
        p .soft {
            @match counted.complete_since {
                None if total == Counts::default() => "No deliveries in the last 24 hours",
                None => { (summary(total)) " in 24 hours" },
                Some(since) => {
                    (total.delivered) " delivered since " (times::hour(since)) ". "
                    @match (summary(Counts { delivered: 0, ..total }), counted.open_since) {
                        (others, _) if others.is_empty() => "",
                        (others, None) => { (others) " in 24 hours. " },
                        (others, Some(since)) => { (others) " since " (times::hour(since)) ". " },
                    }
                    "Older successes were not read."
                },
            }
        }
    }
}

/// A table of the hours that have deliveries.
pub(crate) fn by_hour(counted: &Statistics) -> Markup {
    html! {
        details {
            summary { "By hour (UTC)" }
            table {
                thead {
                    tr {
                        @for name in ["Hour", "Delivered", "Failed", "Held", "Pending", "Ended"] { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for (hour, counts) in counted.hours.iter().rev() {
                        tr {
                            th scope="row" { (hour.readable().get(5..16).unwrap_or_default()) }
                            @for (number, since) in [
                                (counts.delivered, counted.complete_since),
                                (counts.failed, counted.open_since),
                                (counts.held, counted.open_since),
                                (counts.pending, counted.open_since),
                                (counts.ended, counted.complete_since),
                            ] {
                                td {
                                    @match (number, is_read(since, *hour)) {
                                        (0, false) => "Not read",
                                        (number, true) => (number),
                                        (number, false) => { (number) " or more" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether all of the hour was read.
fn is_read(complete_since: Option<Timestamp>, hour: Timestamp) -> bool {
    complete_since.is_none_or(|since| hour >= since)
}

/// `12 delivered, 3 failed`. Zeros are left out.
pub(crate) fn summary(counts: Counts) -> String {
    let Counts { pending, delivered, failed, held, ended } = counts;
    let numbers =
        [(delivered, "delivered"), (failed, "failed"), (held, "held"), (pending, "pending"), (ended, "ended")];
    let words = numbers.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

fn bars(counted: &Statistics, now: Timestamp) -> Markup {
    let hours = &counted.hours;
    let all = |counts: &Counts| counts.delivered + counts.failed + counts.held + counts.pending;
    let highest = hours.values().map(all).max().unwrap_or(0).max(1);
    let begun = now.as_millisecond() / 3_600_000 * 3_600_000;
    let columns = (0..HOURS).map(|column| {
        let hour = Timestamp::from_millisecond(begun).before(HOUR * (HOURS - 1 - column));
        (column * STEP, hour, hours.get(&hour).copied().unwrap_or_default())
    });
    let columns: Vec<_> = columns.collect();
    let unread = columns.iter().filter(|(_, hour, _)| !is_read(counted.complete_since, *hour)).count();
    let unread = STEP * u32::try_from(unread).unwrap_or(HOURS);
    html! {
        // Each element is closed: in SVG, unlike in HTML, an open element would contain the following ones.
        svg .chart viewBox={ "0 0 " (HOURS * STEP) " " (HEIGHT + 1) } role="img" aria-label="Deliveries by hour" {
            @if unread > 0 {
                rect .unread x="0.5" y="0.5" width=(unread - BAR / 2) height=(HEIGHT) {}
            }
            @for (x, hour, counts) in columns {
                g {
                    title { (times::hour(hour)) ": " (named(counts, is_read(counted.complete_since, hour))) }
                    rect .base x=(x) y=(HEIGHT) width=(BAR) height="1" {}
                    @for (class, y, height) in stack(counts, highest) {
                        rect class=(class) x=(x) y=(y) width=(BAR) height=(height) {}
                    }
                }
            }
        }
    }
}

/// The numbers of an hour: `12 delivered, 3 failed`.
fn named(counts: Counts, is_read: bool) -> String {
    match (summary(counts), is_read) {
        (numbers, true) if numbers.is_empty() => "none".to_owned(),
        (numbers, true) => numbers,
        (numbers, false) if numbers.is_empty() => "not read".to_owned(),
        (numbers, false) => format!("{numbers}, older successes not read"),
    }
}

/// The parts of a bar from the bottom up, each with its class, upper edge and height. Each part has a visible minimum
/// height.
fn stack(counts: Counts, highest: u32) -> Vec<(&'static str, u32, u32)> {
    let parts = [
        ("failed", counts.failed),
        ("held", counts.held),
        ("pending", counts.pending),
        ("delivered", counts.delivered),
    ];
    let mut top = HEIGHT;
    let mut stack = Vec::new();
    for (class, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
        let share = u64::from(count) * u64::from(HEIGHT) / u64::from(highest);
        let height = u32::try_from(share).unwrap_or(HEIGHT).max(2).min(top);
        top -= height;
        stack.push((class, top, height));
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_and_never_invisible() {
        let counts = Counts { delivered: 998, failed: 2, ..Counts::default() };
        assert_eq!(stack(counts, 1000), [("failed", 38, 2), ("delivered", 0, 38)]);
        assert_eq!(stack(Counts { held: 1, ..Counts::default() }, 4), [("held", 30, 10)]);
        assert_eq!(stack(Counts::default(), 1), []);
        let most = Counts { delivered: u32::MAX / 4, failed: 1, ..Counts::default() };
        assert_eq!(stack(most, u32::MAX / 4), [("failed", 38, 2), ("delivered", 0, 38)]);
    }

    #[test]
    fn a_summary_leaves_out_numbers_that_are_zero() {
        assert_eq!(summary(Counts { delivered: 3, held: 1, ..Counts::default() }), "3 delivered, 1 held");
    }
}
