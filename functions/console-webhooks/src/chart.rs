//! The deliveries of the last 24 hours by hour: as a bar chart, and as a table.

use std::{collections::BTreeMap, time::Duration};

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

/// The bars, with their totals as text. If not all deliveries were counted, the text says so.
pub(crate) fn day(counted: &Statistics, now: Timestamp) -> Markup {
    let total = counted.total;
    html! {
        (bars(&counted.hours, now))
        p .soft {
            @if total == Counts::default() { "No deliveries in the last 24 hours" } @else {
                (summary(total))
                @if counted.is_complete { " in 24 hours" } @else { " among the newest" }
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
                thead { tr { th { "Hour" } th { "Delivered" } th { "Failed" } th { "Held" } th { "Pending" } th { "Ended" } } }
                tbody {
                    @for (hour, counts) in counted.hours.iter().rev() {
                        tr {
                            td { (hour.readable().get(..16).unwrap_or_default()) }
                            td { (counts.delivered) }
                            td { (counts.failed) }
                            td { (counts.held) }
                            td { (counts.pending) }
                            td { (counts.ended) }
                        }
                    }
                }
            }
        }
    }
}

/// `12 delivered, 3 failed`. Numbers that are zero are left out.
pub(crate) fn summary(counts: Counts) -> String {
    let Counts { pending, delivered, failed, held, ended } = counts;
    let numbers =
        [(delivered, "delivered"), (failed, "failed"), (held, "held"), (pending, "pending"), (ended, "ended")];
    let words = numbers.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

fn bars(hours: &BTreeMap<Timestamp, Counts>, now: Timestamp) -> Markup {
    let all = |counts: &Counts| counts.delivered + counts.failed + counts.held + counts.pending;
    let highest = hours.values().map(all).max().unwrap_or(0).max(1);
    let begun = now.as_millisecond() / 3_600_000 * 3_600_000;
    let columns = (0..HOURS).map(|column| {
        let hour = Timestamp::from_millisecond(begun).before(HOUR * (HOURS - 1 - column));
        (column * STEP, hour, hours.get(&hour).copied().unwrap_or_default())
    });
    html! {
        // Each element is closed: in SVG, unlike in HTML, an open element would contain the following ones.
        svg .chart viewBox={ "0 0 " (HOURS * STEP) " " (HEIGHT + 1) } role="img" aria-label="Deliveries by hour" {
            @for (x, hour, counts) in columns {
                g {
                    title { (times::hour(hour)) ": " (if all(&counts) == 0 { "none".to_owned() } else { summary(counts) }) }
                    rect .base x=(x) y=(HEIGHT) width=(BAR) height="1" {}
                    @for (class, y, height) in stack(counts, highest) {
                        rect class=(class) x=(x) y=(y) width=(BAR) height=(height) {}
                    }
                }
            }
        }
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
