//! nccl-tests' tables in a text: rows that are known without a header, rows and headers that were broken into
//! lines, and the heads and feet around them.
//! Not how a line is read (`row`, `head`, `columns`), and not which run is open (`runs`).

use super::{
    super::{
        broken::{self, Broken, Joined},
        markup::strip_markup,
        nccl_message::before_message,
        runs::Runs,
        words::{Word, Words},
    },
    Columns, HeadLine, RowText, continuation, find,
};

/// What is open of nccl-tests' tables between two lines.
#[derive(Debug, Default)]
pub(in super::super) struct Tables {
    /// A row that may go on.
    broken: Option<Broken>,
    /// A header that may go on.
    header: Option<String>,
}

/// What became of a line behind a row that may go on.
pub(in super::super) enum Rest {
    /// It was read.
    Read,
    /// It belongs to something else. These lines before it, which seemed to be the row's, do as well.
    Other(Vec<String>),
}

impl Tables {
    /// Reads a line behind a row that may go on. Lines of NCCL may stand in between.
    pub(in super::super) fn rest(&mut self, line: &str, runs: &mut Runs<'_>) -> Rest {
        let Some(mut broken) = self.broken.take() else { return Rest::Other(Vec::new()) };
        let spoken = before_message(line);
        let piece = spoken.unwrap_or(line);
        if spoken.is_none() || !piece.trim().is_empty() {
            match broken.add(piece, &runs.section.columns()) {
                Joined::Whole(parsed) => {
                    runs.lines.joined += broken.lines.len() as u64 + 1;
                    runs.section.row(*parsed, false);
                }
                Joined::More => self.broken = Some(broken),
                Joined::No => {
                    self.broken = Some(broken);
                    return Rest::Other(self.give_up(runs));
                }
            }
        } else {
            self.broken = Some(broken);
        }
        if spoken.is_some() && runs.section.take_nccl_line(line) {
            runs.lines.nccl += 1;
        }
        Rest::Read
    }

    /// A row that did not continue is what its first line gave. Returns the lines behind it, which are to be read
    /// on their own.
    pub(in super::super) fn give_up(&mut self, runs: &mut Runs<'_>) -> Vec<String> {
        let Some(broken) = self.broken.take() else { return Vec::new() };
        runs.section.row(broken.first, broken.torn);
        broken.lines
    }

    /// Reads the rows of a line, or a placement that was left of a row.
    pub(in super::super) fn row(&mut self, table: &str, torn: bool, runs: &mut Runs<'_>) -> bool {
        let Some(row) = find(table) else {
            if runs.section.waits()
                && let Some(halves) = continuation(table, &runs.section.columns())
            {
                runs.section.continued(halves);
                runs.lines.joined += 1;
                return true;
            }
            return false;
        };
        runs.leave_table();
        let alone = row.next.is_none().then_some(table);
        let mut row = Some(row);
        // A table that lost its line ends has several.
        while let Some(this) = row {
            self.one_row(&this, alone, torn, runs);
            row = this.next.and_then(find);
        }
        true
    }

    /// Takes a row, and the line if it has it for itself.
    fn one_row(&mut self, row: &RowText, alone: Option<&str>, torn: bool, runs: &mut Runs<'_>) {
        let columns = runs.section.columns();
        let mut parsed = row.parse(&columns);
        if parsed.cut
            && let Some(plain) = alone.and_then(strip_markup)
            && let Some(plain) = find(&plain).map(|row| row.parse(&columns))
            && !plain.cut
        {
            parsed = plain;
        }
        if runs.section.row_starts_next_run(parsed.row.size) {
            runs.next_table();
        }
        runs.lines.rows += 1;
        match alone.and_then(|line| Broken::begins(line, &parsed, &columns, torn)) {
            Some(broken) => self.broken = Some(broken),
            None => runs.section.row(parsed, torn),
        }
    }

    /// Reads a header, or another line around the table.
    pub(in super::super) fn head(&mut self, line: &str, words: Words, runs: &mut Runs<'_>) -> bool {
        if words.has(Word::Bandwidth)
            && let Some(columns) = Columns::read(line)
        {
            runs.leave_table();
            if runs.section.header_starts_next_run() {
                runs.next_table();
            }
            self.header = (columns.placements == Some(1)).then(|| line.to_owned());
            runs.section.header(columns);
            runs.lines.known += 1;
            return true;
        }
        take(super::head::head(line, words), line, runs)
    }

    /// The header of the line before, which this line may complete.
    pub(in super::super) fn take_header(&mut self) -> Option<String> {
        self.header.take()
    }

    /// Keeps a line that nothing recognised, if it begins a header and may lack its end.
    pub(in super::super) fn may_begin_header(&mut self, line: &str) {
        if broken::begins_header(line) {
            self.header = Some(line.to_owned());
        }
    }
}

/// Reads the rest of a header that the line before began.
pub(in super::super) fn header_rest(header: &str, line: &str, runs: &mut Runs<'_>) -> bool {
    let Some(columns) = broken::header(header, line) else { return false };
    runs.section.header(columns);
    runs.lines.known += 1;
    true
}

/// Reads the most common lines around a table, without looking for words.
pub(in super::super) fn common_head(line: &str, runs: &mut Runs<'_>) -> bool {
    take(super::head::common(line), line, runs)
}

fn take(head_line: Option<HeadLine>, line: &str, runs: &mut Runs<'_>) -> bool {
    let Some(head_line) = head_line else { return false };
    if runs.section.starts_next_run(&head_line) {
        runs.next_run();
    }
    runs.section.take(head_line, line);
    runs.lines.known += 1;
    true
}
