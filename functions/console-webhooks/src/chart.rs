//! Deliveries in the last 24 hours by hour, as a bar chart and as a table.

use std::time::Duration;

use common::{
    id::EndpointId,
    presentation::times,
    timestamp::Timestamp,
    webhooks::log::counts::{Counts, DeliveryDetails, Statistics},
};
use maud::{Markup, html};

/// The number of bars: 24 hours and the current hour.
const BARS: u32 = 25;
const HOUR: Duration = Duration::from_hours(1);
/// The size of the drawing, in its own units. Each hour has a bar and a gap.
const HEIGHT: u32 = 40;
const STEP: u32 = 8;
const BAR: u32 = 6;
/// The number of hours between two labels.
const LABEL_INTERVAL_HOURS: usize = 6;
/// The parts of a bar from the bottom up, each with its color and its name in the legend. Most pending deliveries are
/// waiting because an attempt failed.
const PARTS: [(&str, &str); 5] = [
    ("failed", "Failed"),
    ("pending", "Pending or retrying"),
    ("held", "Held"),
    ("retried", "Delivered after a retry"),
    ("delivered", "Delivered on the first attempt"),
];

/// Returns the start of the chart.
pub(crate) fn since(now: Timestamp) -> Timestamp {
    now.hour().before(HOUR * (BARS - 1))
}

/// An hour of the chart.
struct Column {
    x: u32,
    hour: Timestamp,
    counts: Counts,
    /// The deliveries that succeeded after a retry.
    retried: u32,
}

impl Column {
    /// Returns the numbers, in the order of [`PARTS`].
    fn parts(&self) -> [u32; 5] {
        let Counts { pending, delivered, failed, held, .. } = self.counts;
        let retried = self.retried.min(delivered);
        [failed, pending, held, retried, delivered - retried]
    }

    fn sum(&self) -> u32 {
        self.parts().iter().sum()
    }
}

fn columns(counted: &Statistics, details: &DeliveryDetails, now: Timestamp) -> Vec<Column> {
    let columns = (0..BARS).map(|column| {
        let hour = now.hour().before(HOUR * (BARS - 1 - column));
        let counts = counted.hours.get(&hour).copied().unwrap_or_default();
        Column { x: column * STEP, hour, counts, retried: details.retried.get(&hour).copied().unwrap_or_default() }
    });
    columns.collect()
}

/// Draws a small chart without a scale, with the totals as text. `name` is the name of the endpoint, for screen
/// readers.
pub(crate) fn day(counted: &Statistics, name: &str, held: &str, now: Timestamp) -> Markup {
    let columns = columns(counted, &DeliveryDetails::default(), now);
    let highest = highest(&columns);
    let mut paths = PARTS.map(|(class, _)| (class, String::new()));
    for column in &columns {
        for (part, y, height) in stack(column.parts(), highest) {
            let Some((_, path)) = paths.get_mut(part) else { continue };
            path.extend([format!("M{} {y}h{BAR}v{height}h-{BAR}z", column.x)]);
        }
    }
    html! {
        div .day {
            svg .chart viewBox={ "0 0 " (BARS * STEP) " " (HEIGHT + 1) } role="img"
                aria-label={ "Deliveries by hour to " (name) } {
                (unread(counted, &columns))
                path .base d={ "M0 " (HEIGHT) "h" (BARS * STEP) "v1H0z" } {}
                @for (class, path) in paths.iter().filter(|(_, path)| !path.is_empty()) { path class=(class) d=(path) {} }
            }
            p .soft { @if is_empty(counted) { "None" } @else { (numbers(counted, held)) } }
        }
    }
}

/// The name of held deliveries.
#[derive(Clone, Copy)]
pub(crate) struct HeldName {
    /// In a sentence, after their number.
    pub(crate) word: &'static str,
    /// Before their number.
    pub(crate) label: &'static str,
}

/// Draws a chart with a scale, hours and a legend. Each bar links to its hour's deliveries, like the rows of the table.
pub(crate) fn large(
    counted: &Statistics,
    details: &DeliveryDetails,
    endpoint: EndpointId,
    held: HeldName,
    now: Timestamp,
) -> Markup {
    if is_empty(counted) {
        return html! { p { "No deliveries in the last 24 hours. " span .soft { "Tests are not counted." } } };
    }
    let columns = columns(counted, details, now);
    let highest = highest(&columns);
    let (is_part, is_open_part) = (counted.complete_since.is_some(), counted.open_since.is_some());
    let are_parts = [is_open_part, is_open_part, is_open_part, is_part || details.since.is_some(), is_part];
    let sums = columns.iter().fold([0; 5], |sums: [u32; 5], column| {
        let parts = column.parts();
        std::array::from_fn(|part| sums.get(part).copied().unwrap_or(0) + parts.get(part).copied().unwrap_or(0))
    });
    html! {
        div .plot aria-hidden="true" {
            div .scale { span { (highest) } span { "0" } }
            // All elements are closed: unlike in HTML, an unclosed element in SVG would contain the elements after it.
            svg .chart viewBox={ "0 0 " (BARS * STEP) " " (HEIGHT + 1) } preserveAspectRatio="none" {
                (unread(counted, &columns))
                path .base d={ "M0 0h" (BARS * STEP) "v.3H0zM0 20h" (BARS * STEP) "v.3H0zM0 " (HEIGHT) "h" (BARS * STEP) "v1H0z" } {}
                @for column in &columns {
                    a href=(hour_link(endpoint, column.hour)) tabindex="-1" {
                        title {
                            (times::hour(column.hour)) ": "
                            (named(column, is_read(counted.complete_since, column.hour)))
                        }
                        path .hit d={ "M" (column.x) " 0h" (STEP) "v" (HEIGHT) "h-" (STEP) "z" } {}
                        @for (part, y, height) in stack(column.parts(), highest) {
                            @if let Some((class, _)) = PARTS.get(part) {
                                rect class=(class) x=(column.x) y=(y) width=(BAR) height=(height) {}
                            }
                        }
                    }
                }
            }
            div .hours { @for column in columns.iter().step_by(LABEL_INTERVAL_HOURS) { span { (times::hour(column.hour)) } } }
        }
        ul .legend {
            @for (((class, words), sum), is_part) in PARTS.iter().zip(sums).zip(are_parts).rev() {
                li {
                    svg .i viewBox="0 0 8 8" aria-hidden="true" { path class=(class) d="M0 0h8v8H0z" {} }
                    " "
                    @match *class {
                        "held" => (held.label),
                        "delivered" if details.since.is_some() => "Delivered",
                        _ => (words),
                    }
                    " " strong { (sum) @if is_part { "+" } }
                }
            }
            li .soft { "Hours in UTC" }
        }
        p .soft {
            (numbers(counted, held.word)) " in 24 hours, by the time of the event. Tests are not counted."
            @if let Some(since) = counted.complete_since {
                " Successes before " (times::hour(since)) " are not included, because there are too many other deliveries."
            }
            @if let Some(since) = details.since {
                " Retries are known only for the newest 1,000 deliveries, since " (times::hour(since)) "."
            }
        }
    }
}

/// Whether all deliveries were read, and there are none.
pub(crate) fn is_empty(counted: &Statistics) -> bool {
    counted.total == Counts::default() && counted.complete_since.is_none()
}

/// Formats numbers: `37+ delivered, 2 failed`. The plus sign means that older deliveries were not read. `held` is the
/// word for held deliveries.
pub(crate) fn numbers(counted: &Statistics, held: &str) -> String {
    let Counts { pending, delivered, failed, held: waiting, ended } = counted.total;
    let (is_part, is_open_part) = (counted.complete_since.is_some(), counted.open_since.is_some());
    let all = [
        (delivered, "delivered", is_part),
        (failed, "failed", is_open_part),
        (waiting, held, is_open_part),
        (pending, "pending", is_open_part),
        (ended, "ended", false),
    ];
    let shown = all.into_iter().filter(|(number, _, is_part)| *number > 0 || *is_part && !is_open_part);
    let words = shown.map(|(number, word, is_part)| match (number, is_part) {
        (0, true) => "successes not counted".to_owned(),
        (_, true) => format!("{number}+ {word}"),
        (_, false) => format!("{number} {word}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A table of the hours with deliveries. Each hour links to its deliveries.
/// `held` is the label of held deliveries.
pub(crate) fn by_hour(counted: &Statistics, endpoint: EndpointId, held: &str) -> Markup {
    if counted.hours.is_empty() {
        return html! {};
    }
    html! {
        details {
            summary { "By hour (UTC)" }
            table .numbers {
                thead {
                    tr {
                        @for name in ["Hour", "Delivered", "Failed", held, "Pending", "Ended"] { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for (hour, counts) in counted.hours.iter().rev() {
                        tr {
                            th scope="row" {
                                a href=(hour_link(endpoint, *hour)) { (hour.readable().get(5..16).unwrap_or_default()) }
                            }
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

/// Returns the address of the page that lists an hour's deliveries.
fn hour_link(endpoint: EndpointId, hour: Timestamp) -> String {
    let (since, until) = (times::local(hour), times::local(hour.after(HOUR)));
    format!("/console/deliveries?endpoint={endpoint}&since={since}&until={until}")
}

/// The frame around hours whose successes were not all read.
fn unread(counted: &Statistics, columns: &[Column]) -> Markup {
    let unread = columns.iter().filter(|column| !is_read(counted.complete_since, column.hour)).count();
    let unread = STEP * u32::try_from(unread).unwrap_or(BARS);
    html! {
        @if unread > 0 { rect .unread x="0.5" y="0.5" width=(unread - BAR / 2) height=(HEIGHT) {} }
    }
}

/// Whether all of the hour's deliveries were read.
fn is_read(complete_since: Option<Timestamp>, hour: Timestamp) -> bool {
    complete_since.is_none_or(|since| hour >= since)
}

/// `12 delivered, 3 failed`. Zeros are omitted.
pub(crate) fn summary(counts: Counts) -> String {
    let Counts { pending, delivered, failed, held, ended } = counts;
    let numbers =
        [(delivered, "delivered"), (failed, "failed"), (held, "held"), (pending, "pending"), (ended, "ended")];
    let words = numbers.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Formats the numbers of an hour: `12 delivered, 3 failed`.
fn named(column: &Column, is_read: bool) -> String {
    let retried = if column.retried > 0 { format!(" ({} after a retry)", column.retried) } else { String::new() };
    match (summary(column.counts), is_read) {
        (numbers, true) if numbers.is_empty() => "none".to_owned(),
        (numbers, true) => format!("{numbers}{retried}"),
        (numbers, false) if numbers.is_empty() => "not read".to_owned(),
        (numbers, false) => format!("{numbers}{retried}, older successes not included"),
    }
}

fn highest(columns: &[Column]) -> u32 {
    columns.iter().map(Column::sum).max().unwrap_or(0).max(1)
}

/// Returns the parts of a bar from the bottom up, each with its index in [`PARTS`], its upper edge, and its height,
/// which is always large enough to be visible.
fn stack(parts: [u32; 5], highest: u32) -> Vec<(usize, u32, u32)> {
    let mut top = HEIGHT;
    let mut stack = Vec::new();
    for (part, count) in parts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let share = u64::from(count) * u64::from(HEIGHT) / u64::from(highest);
        let height = u32::try_from(share).unwrap_or(HEIGHT).max(2).min(top);
        top -= height;
        stack.push((part, top, height));
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_and_never_invisible() {
        assert_eq!(stack([2, 0, 0, 0, 998], 1000), [(0, 38, 2), (4, 0, 38)]);
        assert_eq!(stack([0, 0, 1, 0, 0], 4), [(2, 30, 10)]);
        assert_eq!(stack([0; 5], 1), []);
        assert_eq!(stack([1, 0, 0, 0, u32::MAX / 4], u32::MAX / 4), [(0, 38, 2), (4, 0, 38)]);
    }

    #[test]
    fn a_summary_omits_numbers_that_are_zero() {
        assert_eq!(summary(Counts { delivered: 3, held: 1, ..Counts::default() }), "3 delivered, 1 held");
    }
}
