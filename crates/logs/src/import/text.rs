//! A log line by line: which format is asked about each line, and in which order.
//! Not the formats (`FORMATS`, `nccl_tests`), NCCL's log (`busbw_library_logs::nccl`), or the runs (`runs`).
//!
//! | order | asked | about |
//! |---|---|---|
//! | 1 | nccl-tests' broken row | the line behind it |
//! | 2 | NCCL's log | any line; what precedes a message may still be a row |
//! | 3 | nccl-tests' rows | any line: they need no header |
//! | 4 | the open table | any line |
//! | 5 | `FORMATS`, in order | lines that have one of the format's words |
//! | 6 | nccl-tests' heads and feet | lines that have one of its words |
//! | 7 | nccl-tests' broken header | the line behind it |
//! | 8 | 3 to 6 once more | the line without its markup |

use std::borrow::Cow;

use crate::measurement::Measurement;

use super::{
    FORMATS, ImportError, Lines, command,
    markup::strip_markup,
    nccl_message::before_message,
    nccl_tests::{self, Rest, Tables},
    page::Page,
    runs::Runs,
    section::keep,
    words::{Word, Words},
};

/// Maximum of unrecognised lines kept as examples.
const MAX_EXAMPLES: usize = 8;
/// Maximum of bytes of a command line that is joined.
const MAX_JOINED_BYTES: usize = 8 << 10;

/// Reads a text; hands every run on when it is complete.
pub struct Text<'e> {
    runs: Runs<'e>,
    nccl_tests: Tables,
    page: Page,
    /// A command line that goes on behind a backslash.
    command: Option<String>,
    mentions: bool,
}

impl<'e> Text<'e> {
    /// A text of that name, of which nothing was read.
    pub fn new(name: &str, each: &'e mut dyn FnMut(Measurement)) -> Text<'e> {
        Text {
            runs: Runs::new(name, each),
            nccl_tests: Tables::default(),
            page: Page::default(),
            command: None,
            mentions: false,
        }
    }

    /// Reads one line, without its end.
    pub fn line(&mut self, line: &str) {
        self.runs.lines.all += 1;
        if self.command.is_some() || line.ends_with('\\') && command::begins(line) {
            return self.command_line(line);
        }
        self.whole_line(line);
    }

    /// Joins the lines of a command.
    fn command_line(&mut self, line: &str) {
        let joined = self.command.get_or_insert_default();
        let part = line.trim_end().strip_suffix('\\');
        joined.push_str(part.unwrap_or(line).trim());
        joined.push(' ');
        if part.is_some() && joined.len() < MAX_JOINED_BYTES {
            return;
        }
        if let Some(command) = self.command.take() {
            self.whole_line(&command);
        }
    }

    fn whole_line(&mut self, line: &str) {
        match self.nccl_tests.rest(line, &mut self.runs) {
            Rest::Read => {}
            Rest::Other(before) => {
                for line in &before {
                    self.read(line);
                }
                self.read(line);
            }
        }
    }

    fn read(&mut self, line: &str) {
        self.read_line(line);
        self.page.give(&mut self.runs.section);
    }

    fn read_line(&mut self, line: &str) {
        let header = self.nccl_tests.take_header();
        let line = &*nccl_tests::unmarked(line);
        let failure = self.runs.section.take_failure_line(line);
        let line = &*without_bars(line);
        // What NCCL says may stand in the middle of a row: what precedes it is looked at as well.
        let (table, torn) = match before_message(line) {
            Some(before) if self.nccl_line(line) => (before, true),
            _ => (line, false),
        };
        if self.nccl_tests.row(table, torn, &mut self.runs) || torn || self.runs.table_line(line) {
            return;
        }
        let free = !self.runs.has_table();
        if free && nccl_tests::common_head(line, &mut self.runs) {
            return;
        }
        let words = Words::of(line);
        if free && header.is_none() && !may_be_known(line, words) {
            return self.unrecognised(line, failure);
        }
        // A version on a line of its own is NCCL's as well.
        if self.begin(line, words)
            || self.nccl_tests.head(line, words, &mut self.runs)
            || (words.has(Word::Version) && self.nccl_line(line))
            || header.is_some_and(|header| nccl_tests::header_rest(&header, line, &mut self.runs))
            || strip_markup(line).is_some_and(|plain| self.read_plain(&plain))
        {
            return;
        }
        self.nccl_tests.may_begin_header(line);
        self.mentions |= words.has(Word::Bandwidth);
        self.unrecognised(line, failure);
    }

    /// Reads a line without its markup, which was not recognised with it.
    fn read_plain(&mut self, line: &str) -> bool {
        let words = Words::of(line);
        self.nccl_tests.row(line, false, &mut self.runs)
            || self.runs.table_line(line)
            || self.begin(line, words)
            || self.nccl_tests.head(line, words, &mut self.runs)
    }

    /// Begins a table of a listed format, if this line does.
    fn begin(&mut self, line: &str, words: Words) -> bool {
        let mut listed = FORMATS.iter().enumerate().filter(|(at, _)| words.has_format(*at));
        listed.any(|(_, format)| self.runs.begin(format, line))
    }

    /// Reads a line of NCCL's log. Returns whether it was one.
    fn nccl_line(&mut self, line: &str) -> bool {
        let read = self.runs.section.take_nccl_line(line);
        self.runs.lines.nccl += u64::from(read);
        read
    }

    /// Counts a line of no table; `failure` where it tells of one.
    fn unrecognised(&mut self, line: &str, failure: bool) {
        let page = !failure && self.page.line(line, &mut self.runs.section);
        let lines = &mut self.runs.lines;
        if failure || page {
            lines.known += 1;
            return;
        }
        lines.unrecognised += 1;
        if lines.examples.len() < MAX_EXAMPLES {
            lines.examples.push(keep(line));
        }
    }

    /// The counts of lines.
    ///
    /// # Errors
    /// No line was recognised, and why.
    pub fn finish(mut self) -> Result<Lines, ImportError> {
        if let Some(command) = self.command.take() {
            self.whole_line(&command);
        }
        for line in self.nccl_tests.give_up(&mut self.runs) {
            self.read(&line);
        }
        self.runs.next_run();
        let Runs { name, lines, complete, .. } = self.runs;
        if complete > 0 {
            return Ok(lines);
        }
        let all = lines.all;
        let why = if lines.examples.iter().any(|line| is_gin_title(line)) {
            "it is output of a GIN program of nccl-tests 2.20 (ginPutBW_perf and its like), which is not read yet".to_owned()
        } else if self.mentions {
            format!("it mentions a bus bandwidth, but none of its {all} lines is a row of a table")
        } else if all == 1 {
            "its only line is not a row of a table".to_owned()
        } else {
            format!("none of its {all} lines is a row of a table")
        };
        Err(ImportError::Strange { name, why })
    }
}

/// The line above the tables of nccl-tests' GIN programs, such as `# GIN PUT BANDWIDTH/MESSAGE RATE: rsm=gpu, …`
/// (src/device_api/gin/utils/common.cc, commit 28a8caef).
fn is_gin_title(line: &str) -> bool {
    line.contains("# GIN ") && line.contains(": rsm=")
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
