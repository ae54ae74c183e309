//! Aligns lines of cells in columns, for terminals.
//! Not tables in other programs' formats (`render`).

use std::fmt::Write;

use crate::printable::printable;

/// Columns of one width each, right-aligned. The first line is a heading.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let lines: Vec<Vec<_>> =
        lines.iter().map(|line| line.iter().map(|cell| printable(cell)).collect()).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        text.push_str(if number == 0 { "#" } else { " " });
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, " {cell:>width$} ");
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}
