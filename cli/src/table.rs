//! Tables that fit the terminal: columns shrink, and the least important ones are omitted. `comfy-table` cannot do
//! this: it wraps wide cells, so that a row takes several lines.

use std::io;

use anstyle::AnsiColor;

use crate::terminal::{fit, fit_ends, painted, print_line, width, width_of};

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    content: Content,
    /// The minimum width of the column. `None` if truncated values would be useless.
    least: Option<usize>,
    /// If the terminal is too narrow, columns with the lowest rank are omitted first. A column without a rank is never
    /// omitted.
    rank: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Text,
    /// A value that begins with a status, which determines the color.
    Status,
    /// An id, whose middle is truncated.
    Id,
    /// A URL, which loses its scheme before its end is truncated.
    Url,
}

impl Column {
    pub(crate) const fn new(title: &'static str) -> Self {
        Self { title, content: Content::Text, least: None, rank: None }
    }

    pub(crate) const fn of_statuses(self) -> Self {
        Self { content: Content::Status, ..self }
    }

    pub(crate) const fn of_ids(self) -> Self {
        Self { content: Content::Id, ..self }
    }

    pub(crate) const fn of_urls(self) -> Self {
        Self { content: Content::Url, ..self }
    }

    pub(crate) const fn shrinks_to(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }

    pub(crate) const fn left_out(self, rank: u8) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Shortens a cell to this width.
    fn fitted(&self, cell: &str, width: usize) -> String {
        if self.content == Content::Id {
            return fit_ends(cell, width);
        }
        let without_scheme = cell.split_once("://").map_or(cell, |(_, rest)| rest);
        let is_shortened = self.content == Content::Url && width_of(cell) > width;
        fit(if is_shortened { without_scheme } else { cell }, width)
    }
}

/// The widths of the columns on this screen.
pub(crate) struct Table<'a> {
    columns: &'a [Column],
    /// `None` for an omitted column.
    widths: Vec<Option<usize>>,
    screen: usize,
}

impl<'a> Table<'a> {
    /// Lays out a table for these rows.
    pub(crate) fn for_rows(columns: &'a [Column], rows: &[Vec<String>]) -> Self {
        Self::laid_out(columns, rows, width())
    }

    fn laid_out(columns: &'a [Column], rows: &[Vec<String>], screen: usize) -> Self {
        let natural = columns.iter().enumerate().map(|(number, column)| {
            let cells = rows.iter().filter_map(|row| row.get(number)).map(|cell| width_of(cell));
            Some(cells.chain([width_of(column.title)]).max().unwrap_or_default())
        });
        let natural: Vec<_> = natural.collect();
        let is_empty =
            |number: usize| !rows.is_empty() && rows.iter().all(|row| row.get(number).is_none_or(String::is_empty));
        // Empty columns are omitted on terminals only, because programs rely on all columns.
        let is_kept = |number: &usize| screen == usize::MAX || !is_empty(*number);
        let mut kept: Vec<usize> = (0..columns.len()).filter(is_kept).collect();
        loop {
            let mut widths = vec![None; columns.len()];
            for number in &kept {
                if let (Some(width), Some(natural)) = (widths.get_mut(*number), natural.get(*number)) {
                    *width = *natural;
                }
            }
            shrink(columns, &mut widths, screen);
            let rank = |number: &usize| columns.get(*number).and_then(|column| column.rank);
            let least = kept.iter().copied().filter(|number| rank(number).is_some()).min_by_key(|number| rank(number));
            match least.filter(|_| sum(&widths) > screen) {
                Some(least) => kept.retain(|number| *number != least),
                None => return Self { columns, widths, screen },
            }
        }
    }

    /// Returns the title line.
    pub(crate) fn titles(&self) -> String {
        let titles: Vec<_> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        self.laid_line(&titles, false)
    }

    /// Formats a row as a line.
    pub(crate) fn line(&self, row: &[String]) -> String {
        self.laid_line(row, true)
    }

    fn laid_line(&self, row: &[String], has_colors: bool) -> String {
        let (mut line, mut left) = (String::new(), self.screen);
        for ((column, cell), width) in self.columns.iter().zip(row).zip(&self.widths) {
            let Some(width) = *width else { continue };
            // Piped output contains each cell in full, regardless of the column's width.
            let most = if self.screen == usize::MAX { usize::MAX } else { width.min(left) };
            let shown = column.fitted(cell, most);
            let used = width_of(&shown);
            let is_colored = has_colors && column.content == Content::Status && !shown.is_empty();
            let color = color_of(cell).filter(|_| is_colored);
            line.push_str(&color.map_or_else(|| shown.clone(), |color| painted(&shown, color)));
            let taken = width.max(used) + 2;
            line.extend(std::iter::repeat_n(' ', taken - used));
            left = left.saturating_sub(taken);
        }
        line.trim_end().to_owned()
    }
}

/// Prints rows below their titles.
pub(crate) fn print(columns: &[Column], rows: &[Vec<String>]) -> io::Result<()> {
    let table = Table::for_rows(columns, rows);
    print_line(&table.titles())?;
    rows.iter().try_for_each(|row| print_line(&table.line(row)))
}

/// Shrinks the widest columns until the line fits or all columns have their minimum width.
fn shrink(columns: &[Column], widths: &mut [Option<usize>], screen: usize) {
    while sum(widths) > screen {
        let can_shrink = columns.iter().zip(&mut *widths).filter_map(|(column, width)| {
            let (least, width) = (column.least?, width.as_mut()?);
            (*width > least).then_some(width)
        });
        let Some(widest) = can_shrink.max_by_key(|width| **width) else { return };
        *widest -= 1;
    }
}

/// Returns the width of a line with two spaces between columns.
fn sum(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|width| width + 2).sum::<usize>().saturating_sub(2)
}

/// The color of a status.
fn color_of(state: &str) -> Option<AnsiColor> {
    let mut words = state.split(' ');
    match words.next().unwrap_or_default() {
        "HTTP" if words.next().is_some_and(|status| status.starts_with('2')) => Some(AnsiColor::Green),
        "HTTP" => Some(AnsiColor::Red),
        "delivered" | "enabled" | "ok" => Some(AnsiColor::Green),
        "failed" | "failing" | "disabled" => Some(AnsiColor::Red),
        "pending" | "held" | "warning" => Some(AnsiColor::Yellow),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    const COLUMNS: &[Column] = &[
        Column::new("ID"),
        Column::new("STATUS").of_statuses(),
        Column::new("EVENT").left_out(1),
        Column::new("JOB").shrinks_to(8),
        Column::new("ENDPOINT").of_urls().shrinks_to(18),
        Column::new("AGE").left_out(2),
    ];

    fn shown(rows: &[Vec<String>], screen: usize) -> String {
        let table = Table::laid_out(COLUMNS, rows, screen);
        let lines = [table.titles()].into_iter().chain(rows.iter().map(|row| table.line(row)));
        strip_str(&lines.collect::<Vec<_>>().join("\n")).to_string()
    }

    fn row(job: &str, url: &str) -> Vec<String> {
        ["a6250e60", "delivered", "job.completed", job, url, "12m"].map(ToOwned::to_owned).to_vec()
    }

    #[test]
    fn a_narrow_table_shrinks_then_omits_columns() {
        let rows = [row("invoices-of-january", "https://hooks.example.com/orders/new")];
        let all = "a6250e60  delivered  job.completed  invoices-of-january  https://hooks.example.com/orders/new  12m";
        assert!(shown(&rows, usize::MAX).ends_with(all));
        for (width, line) in [
            (86, "a6250e60  delivered  job.completed  invoices-of-january  hooks.example.com/order…  12m"),
            (74, "a6250e60  delivered  job.completed  invoices-of-…  hooks.example.com…  12m"),
            (60, "a6250e60  delivered  invoices-of-j…  hooks.example.com…  12m"),
            (50, "a6250e60  delivered  invoices…  hooks.example.com…"),
        ] {
            assert!(
                shown(&rows, width).lines().all(|line| width_of(line) <= width),
                "{width}: {}",
                shown(&rows, width)
            );
            assert_eq!(shown(&rows, width).lines().nth(1), Some(line), "{width}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let rows =
            [row("日本語の受信者の長い住所です", "e\u{301}e\u{301}e\u{301} short"), row("1", "http://localhost")];
        for width in 1..120 {
            let shown = shown(&rows, width);
            assert!(shown.lines().all(|line| width_of(line) <= width), "{width}: {shown}");
        }
    }

    #[test]
    fn an_empty_column_is_omitted_on_a_terminal_only() {
        let rows = [row("", "http://localhost"), row("", "http://localhost")];
        let titles = |screen| shown(&rows, screen).lines().next().expect("titles").to_owned();
        assert_eq!(titles(80), "ID        STATUS     EVENT          ENDPOINT          AGE");
        assert!(titles(usize::MAX).contains("JOB"));
    }

    #[test]
    fn a_pipe_gets_each_cell_in_full() {
        let table = Table::laid_out(COLUMNS, &[], usize::MAX);
        let row = row("invoices-of-january", "https://hooks.example.com/orders/new");
        assert_eq!(strip_str(&table.line(&row)).to_string(), row.join("  "));
    }

    #[test]
    fn only_statuses_are_colored_and_colors_have_no_width() {
        let columns = [Column::new("ID"), Column::new("STATE").of_statuses(), Column::new("URL")];
        let row = ["enabled", "failing for 3d", "enabled"].map(ToOwned::to_owned).to_vec();
        let table = Table::laid_out(&columns, std::slice::from_ref(&row), 80);
        assert_eq!(table.titles(), "ID       STATE           URL");
        assert_eq!(table.line(&row), "enabled  \u{1b}[31mfailing for 3d\u{1b}[0m  enabled");
    }
}
