//! A log line by line: who understands each line, and where one run ends and the next begins.
//! Not the formats themselves (`nccl_tests`, `osu`, `busbw_library_logs::nccl`).

use std::{borrow::Cow, sync::LazyLock};

use crate::measurement::Measurement;
use memchr::memmem::Finder;

use super::{
    ImportError, Lines,
    broken::{self, Broken, Joined},
    nccl_tests::{self, Columns, HeadLine, RowText},
    osu,
    section::{Section, keep},
    words::{Word, Words},
};
use crate::import::markup::strip_markup;

/// Maximum of unrecognised lines kept as examples.
const MAX_EXAMPLES: usize = 8;

/// Reads a text; hands every run on when it is complete.
pub struct Text<'e> {
    name: String,
    each: &'e mut dyn FnMut(Measurement),
    section: Section,
    osu: Option<osu::Table>,
    /// A row that may go on.
    broken: Option<Broken>,
    /// A header that may go on.
    header: Option<String>,
    lines: Lines,
    runs: u64,
    mentions: bool,
}

impl<'e> Text<'e> {
    /// A text of that name, of which nothing was read.
    pub fn new(name: &str, each: &'e mut dyn FnMut(Measurement)) -> Text<'e> {
        Text {
            name: name.to_owned(),
            each,
            section: Section::new(name, 1),
            osu: None,
            broken: None,
            header: None,
            lines: Lines::default(),
            runs: 0,
            mentions: false,
        }
    }

    /// Reads one line, without its end.
    pub fn line(&mut self, line: &str) {
        self.lines.all += 1;
        match self.broken.take() {
            Some(broken) => self.go_on(broken, line),
            None => self.read(line),
        }
    }

    /// Reads a line behind a row that may go on. Lines of NCCL may stand in between.
    fn go_on(&mut self, mut broken: Broken, line: &str) {
        let spoken = nccl_message(line);
        let piece = spoken.unwrap_or(line);
        if spoken.is_none() || !piece.trim().is_empty() {
            match broken.add(piece, &self.section.columns()) {
                Joined::Whole(parsed) => {
                    self.lines.joined += broken.lines.len() as u64 + 1;
                    self.section.row(*parsed, false);
                }
                Joined::More => self.broken = Some(broken),
                Joined::No => {
                    self.give_up(broken);
                    return self.read(line);
                }
            }
        } else {
            self.broken = Some(broken);
        }
        if spoken.is_some() && self.section.take_nccl_line(line) {
            self.lines.nccl += 1;
        }
    }

    /// A row that did not continue is what its first line gave; the lines behind it are read on their own.
    fn give_up(&mut self, broken: Broken) {
        self.section.row(broken.first, broken.torn);
        for line in &broken.lines {
            self.read(line);
        }
    }

    fn read(&mut self, line: &str) {
        let header = self.header.take();
        let line = &*nccl_tests::unmarked(line);
        let line = &*without_bars(line);
        // What NCCL says may stand in the middle of a row: what precedes it is looked at as well.
        let (table, torn) = match nccl_message(line) {
            Some(before) if self.section.take_nccl_line(line) => {
                self.lines.nccl += 1;
                (before, true)
            }
            _ => (line, false),
        };
        if self.row(table, torn) || torn || self.osu_row(line) {
            return;
        }
        if self.osu.is_none()
            && let Some(head_line) = nccl_tests::common(line)
        {
            return self.take(head_line, line);
        }
        let words = Words::of(line);
        if self.osu.is_none() && header.is_none() && !may_be_known(line, words) {
            return self.unrecognised(line);
        }
        if !(self.osu(line, words) || self.head(line, words)) {
            // A version on a line of its own is NCCL's as well.
            if words.has(Word::Version) && self.section.take_nccl_line(line) {
                self.lines.nccl += 1;
                return;
            }
            if let Some(header) = header
                && let Some(columns) = broken::header(&header, line)
            {
                self.section.header(columns);
                self.lines.known += 1;
                return;
            }
            let plain = |plain: String| {
                let words = Words::of(&plain);
                self.row(&plain, false)
                    || self.osu_row(&plain)
                    || self.osu(&plain, words)
                    || self.head(&plain, words)
            };
            if strip_markup(line).is_some_and(plain) {
                return;
            }
            if broken::begins_header(line) {
                self.header = Some(line.to_owned());
            }
            self.mentions |= words.has(Word::Bandwidth);
            self.unrecognised(line);
        }
    }

    fn row(&mut self, table: &str, torn: bool) -> bool {
        let Some(row) = nccl_tests::find(table) else {
            if self.section.waits()
                && let Some(halves) = nccl_tests::continuation(table, &self.section.columns())
            {
                self.section.continued(halves);
                self.lines.joined += 1;
                return true;
            }
            return false;
        };
        self.leave_osu();
        let alone = row.next.is_none().then_some(table);
        let mut row = Some(row);
        // A table that lost its line ends has several.
        while let Some(this) = row {
            self.one_row(&this, alone, torn);
            row = this.next.and_then(nccl_tests::find);
        }
        true
    }

    /// Takes a row, and the line if it has it for itself.
    fn one_row(&mut self, row: &RowText, alone: Option<&str>, torn: bool) {
        let columns = self.section.columns();
        let mut parsed = row.parse(&columns);
        if parsed.cut
            && let Some(plain) = alone.and_then(strip_markup)
            && let Some(plain) = nccl_tests::find(&plain).map(|row| row.parse(&columns))
            && !plain.cut
        {
            parsed = plain;
        }
        if self.section.row_starts_next_run(parsed.row.size) {
            self.next_table();
        }
        self.lines.rows += 1;
        match alone.and_then(|line| Broken::begins(line, &parsed, &columns, torn)) {
            Some(broken) => self.broken = Some(broken),
            None => self.section.row(parsed, torn),
        }
    }

    fn osu_row(&mut self, line: &str) -> bool {
        let Some(row) = self.osu.as_mut().and_then(|table| table.row(line)) else { return false };
        self.section.push(row);
        self.lines.rows += 1;
        true
    }

    fn osu(&mut self, line: &str, words: Words) -> bool {
        if words.has(Word::Title)
            && let Some(title) = osu::title(line)
        {
            self.next_run();
            let (test, version) = title.test();
            self.section.begin();
            self.section.measurement.test = test;
            self.section.measurement.source.form = crate::measurement::Form::Osu;
            self.section.measurement.source.version = version;
            self.section.measurement.ranks = title.ranks();
            self.osu = Some(osu::Table::titled(title));
            self.lines.known += 1;
            return true;
        }
        if words.has(Word::Unit)
            && let Some(header) = osu::header(line)
        {
            if self
                .osu
                .as_ref()
                .is_none_or(|table| table.has_header() && !self.section.measurement.rows.is_empty())
            {
                // The same test again, or a table of which the title is missing.
                let again = self.osu.as_ref().map(osu::Table::again);
                let test = self.section.measurement.test.clone();
                let titled = self.osu.is_some();
                self.next_run();
                self.section.measurement.source.form = crate::measurement::Form::Osu;
                if titled {
                    self.section.measurement.test = test;
                }
                self.osu = Some(again.unwrap_or_default());
            }
            if let Some(table) = &mut self.osu {
                table.header(header, &mut self.section.measurement);
            }
            self.lines.known += 1;
            return true;
        }
        let Some(table) = &self.osu else { return false };
        let known = words.has(Word::Remark) && table.remark(line, &mut self.section.measurement);
        self.lines.known += u64::from(known);
        known
    }

    fn head(&mut self, line: &str, words: Words) -> bool {
        if words.has(Word::Bandwidth)
            && let Some(columns) = Columns::read(line)
        {
            self.leave_osu();
            if self.section.header_starts_next_run() {
                self.next_table();
            }
            self.header = (columns.placements == Some(1)).then(|| line.to_owned());
            self.section.header(columns);
            self.lines.known += 1;
            return true;
        }
        let Some(head_line) = nccl_tests::head(line, words) else { return false };
        self.take(head_line, line);
        true
    }

    fn take(&mut self, head_line: HeadLine, line: &str) {
        if self.section.starts_next_run(&head_line) {
            self.next_run();
        }
        self.section.take(head_line, line);
        self.lines.known += 1;
    }

    fn unrecognised(&mut self, line: &str) {
        self.lines.unrecognised += 1;
        if self.lines.examples.len() < MAX_EXAMPLES {
            self.lines.examples.push(keep(line));
        }
    }

    fn leave_osu(&mut self) {
        if self.osu.take().is_some() {
            self.next_run();
        }
    }

    fn next_run(&mut self) {
        let next = Section::new(&self.name, self.lines.all);
        self.change(next);
        self.osu = None;
    }

    fn next_table(&mut self) {
        let next = self.section.next_with_same_head(self.lines.all);
        self.change(next);
    }

    fn change(&mut self, next: Section) {
        let (measurement, cut) = std::mem::replace(&mut self.section, next).finish();
        self.lines.cut += cut;
        if let Some(measurement) = measurement {
            self.runs += 1;
            (self.each)(measurement);
        }
    }

    /// The counts of lines.
    ///
    /// # Errors
    /// No line was recognised, and why.
    pub fn finish(mut self) -> Result<Lines, ImportError> {
        if let Some(broken) = self.broken.take() {
            self.give_up(broken);
        }
        self.next_run();
        if self.runs > 0 {
            return Ok(self.lines);
        }
        let all = self.lines.all;
        let why = if self.mentions {
            format!("it mentions a bus bandwidth, but none of its {all} lines is a row of a table")
        } else if all == 1 {
            "its only line is not a row of a table".to_owned()
        } else {
            format!("none of its {all} lines is a row of a table")
        };
        Err(ImportError::Strange { name: self.name, why })
    }
}

/// Whether a line that is no row may be of another kind, or a row without its markup.
fn may_be_known(line: &str, words: Words) -> bool {
    let text = line.trim_ascii();
    !words.is_empty() || text.starts_with(['#', '>', '|']) || text.ends_with('#')
}

/// A line of a Markdown table with the bars as blanks, also where they stick to the cells.
fn without_bars(line: &str) -> Cow<'_, str> {
    let table = line.trim_start().starts_with('|') && line.matches('|').count() > 6;
    if table { line.replace('|', " ").into() } else { line.into() }
}

/// The part of a line from a message of NCCL on, if it may have one.
fn nccl_message(line: &str) -> Option<&str> {
    static NCCL: LazyLock<Finder> = LazyLock::new(|| Finder::new("NCCL "));
    let at = NCCL.find_iter(line.as_bytes()).find(|at| {
        let after = line.get(at + "NCCL ".len()..).unwrap_or_default();
        ["INFO", "WARN", "TRACE"].iter().any(|level| after.starts_with(level))
    })?;
    let before = line.get(..at)?;
    // `host:pid:tid [device] file:line (function) `, of which the host may stick to a figure.
    let speaker = |token: &str| {
        if !token.ends_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let mut parts = token.rsplitn(3, ':');
        let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
        number(parts.next()) && number(parts.next()) && parts.next().is_some()
    };
    let host = before.split_ascii_whitespace().rev().take(8).find(|token| speaker(token))?;
    let begins = host.as_ptr() as usize - before.as_ptr() as usize;
    let is_figure = |byte: &u8| byte.is_ascii_digit() || matches!(*byte, b'-' | b'.');
    let figure = host.bytes().take_while(is_figure).count();
    before.get(..begins + figure)
}
