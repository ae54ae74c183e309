//! A plain table of a page: a setting and its bus bandwidth in each row, such as `| NCCL_ALGO=Ring | 23.4 |`.
//! Not the test: the page's sentences and its command line say which it was (`page`).

use std::collections::BTreeMap;

use crate::measurement::{Figure, Form, Measurement, Row};
use busbw_core::record::Figures;

use super::{
    command::is_setting,
    format::{Format, Line},
};

/// What the first column of such a table is called.
const SETTINGS: [&str; 8] = [
    "setting",
    "settings",
    "variable",
    "variables",
    "environment",
    "configuration",
    "parameters",
    "options",
];

/// An open table.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// The column of the bandwidth.
    column: usize,
    /// The command line and the environment above the table, which all rows have.
    above: Option<(Option<String>, BTreeMap<String, String>)>,
    ended: bool,
}

impl Format for Table {
    const FORM: Form = Form::NcclTests;
    const WORDS: &'static [&'static str] = &["GB/s"];

    fn sniff(line: &str) -> Option<Table> {
        let cells = cells(line)?;
        let first = cells.first()?.to_ascii_lowercase();
        SETTINGS.contains(&first.as_str()).then_some(())?;
        let mut columns =
            (1..cells.len()).filter(|at| cells.get(*at).is_some_and(|one| one.contains("GB/s")));
        let column = columns.next()?;
        columns.next().is_none().then_some(Table { column, ..Table::default() })
    }

    fn line(&mut self, line: &str, run: &mut Measurement) -> Line {
        let Some(cells) = cells(line).filter(|_| !self.ended) else {
            self.ended = true;
            return Line::Other;
        };
        let figure = cells.get(self.column).and_then(|cell| figure(cell));
        let (Some(setting), Some(busbw)) = (cells.first(), figure) else { return Line::Known };
        if !run.rows.is_empty() {
            return Line::Next;
        }
        let above =
            self.above.get_or_insert_with(|| (run.command.clone(), run.environment.clone()));
        (run.command, run.environment) = above.clone();
        let words = setting.split_ascii_whitespace().map(|word| word.trim_matches(['`', ',']));
        let pairs = words.filter(|word| is_setting(word)).filter_map(|word| word.split_once('='));
        run.environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        run.test.figure = Figure::Bandwidths;
        let setting = setting.chars().filter(|c| *c != '`').take(200).collect();
        run.page.get_or_insert_default().setting = Some(setting);
        let figures = Figures { busbw: Some(busbw), ..Figures::default() };
        Line::Row(Row { out_of_place: Some(figures), ..Row::default() })
    }
}

/// The cells of a line of a Markdown table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inside.split('|').map(str::trim).take(16).collect();
    (cells.len() > 1).then_some(cells)
}

/// A positive number, with or without its unit.
fn figure(cell: &str) -> Option<f64> {
    let number = cell.trim_matches('*').trim_end_matches("GB/s").trim();
    number.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_settings_and_others() {
        for line in ["| setting | GB/s |", "|Settings|size|busbw (GB/s)|"] {
            assert!(Table::sniff(line).is_some(), "{line}");
        }
        // A summary of fabrics, two figures, and no table.
        for line in
            ["| fabric | GB/s |", "| setting | algbw GB/s | busbw GB/s |", "setting GB/s", "| a |"]
        {
            assert!(Table::sniff(line).is_none(), "{line}");
        }
        assert_eq!(
            [figure("21.4"), figure("**21.4 GB/s**"), figure("-"), figure("0")],
            [Some(21.4), Some(21.4), None, None]
        );
    }
}
