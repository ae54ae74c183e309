//! One run while its lines are read: which lines belong to it, and rows whose rest is still to come.
//! Not how a line is read (`nccl_tests`, `osu`).

use std::collections::HashSet;

use crate::measurement::{self, Device, Form, Known, Measurement, Row, first_group};
use busbw_core::record::Figures;
use busbw_library_logs::{failure, nccl::Parser};

use super::{
    command::Command,
    device_list::{complete, hosts, listed},
    nccl_tests::{Columns, HeadLine, Parsed, collective_in},
};

/// Maximum of rows kept of one run; further rows are counted.
const MAX_ROWS: usize = 1 << 16;
/// Maximum of devices kept of one run.
const MAX_DEVICES: usize = 1 << 14;
/// Maximum of devices that a table inherits from the one before: enough for their names.
const MAX_INHERITED_DEVICES: usize = 64;
/// The same where the devices give the number of ranks of several communicators.
const MAX_INHERITED_DEVICES_OF_GROUPS: usize = 1024;
/// Maximum of settings kept of one run.
const MAX_SETTINGS: usize = 256;
/// Maximum of failures kept, and of bytes of each and of the command line.
const MAX_ERRORS: usize = 16;
const MAX_ERROR_BYTES: usize = 512;
const MAX_COMMAND_BYTES: usize = 4096;

/// A run that is being read.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub measurement: Measurement,
    /// The table's columns, once its header was seen.
    columns: Option<Columns>,
    /// A row whose figures are still to come.
    waiting: Option<Row>,
    nccl: Parser,
    failures: failure::Parser,
    /// Ranks whose devices are listed.
    listed: HashSet<usize>,
    parameters: usize,
    /// Ranks of one process, by its parameters.
    per_process: usize,
    begun: bool,
    foot: bool,
    cut: u64,
}

impl Section {
    pub(super) fn new(name: &str, line: u64) -> Section {
        let mut section = Section::default();
        section.measurement.source.name = name.to_owned();
        section.measurement.source.line = line;
        section
    }

    /// Parses a line of NCCL's log. Returns whether it was one.
    pub(super) fn take_nccl_line(&mut self, line: &str) -> bool {
        let before = self.nccl.messages();
        self.nccl.line(line);
        self.nccl.messages() != before
    }

    /// Parses a line for what failed. Returns whether it says anything about that.
    pub(super) fn take_failure_line(&mut self, line: &str) -> bool {
        self.failures.line(line)
    }

    /// Whether a head line starts the next run.
    pub(super) fn starts_next_run(&self, head_line: &HeadLine) -> bool {
        let used = !self.measurement.rows.is_empty() || self.foot;
        match head_line {
            HeadLine::Version(..)
            | HeadLine::Command(_)
            | HeadLine::Setting(..)
            | HeadLine::Banner(_)
            | HeadLine::Parameters(..) => used || !self.measurement.errors.is_empty(),
            // Copies of a run begin before any of them lists its parameters.
            HeadLine::Starting(_) => {
                used || (self.begun && self.parameters > 0) || !self.measurement.errors.is_empty()
            }
            _ => false,
        }
    }

    /// Whether a header starts the next run. Copies of a run share its text.
    pub(super) fn header_starts_next_run(&self) -> bool {
        !self.measurement.rows.is_empty() && self.measurement.copies < 2
    }

    /// Whether a row starts the next run: behind the foot, or with a smaller size where no header shows that
    /// types or operators follow each other.
    pub(super) fn row_starts_next_run(&self, size: u64) -> bool {
        let Some(last) = self.measurement.rows.last() else { return false };
        self.measurement.copies < 2 && (self.foot || (self.columns.is_none() && size < last.size))
    }

    /// A run with the same head, for a table that follows without one.
    pub(super) fn next_with_same_head(&self, line: u64) -> Section {
        let mut next = Section::new(&self.measurement.source.name, line);
        let this = &self.measurement;
        next.measurement.test = this.test.clone();
        let ranks = this.rank_count().or_else(|| listed(&this.devices, self.per_process));
        next.per_process = self.per_process;
        next.measurement.ranks = ranks.map(Known::stated);
        next.measurement.hosts = this.hosts.or_else(|| hosts(this, ranks));
        let several = first_group(&this.devices).len() < this.devices.len();
        let most = if several { MAX_INHERITED_DEVICES_OF_GROUPS } else { MAX_INHERITED_DEVICES };
        next.measurement.devices = this.devices.iter().take(most).cloned().collect();
        next.measurement.options = this.options.clone();
        next.measurement.nccl = this.nccl.clone();
        next.measurement.source.version = this.source.version.clone();
        next.columns = self.columns.clone();
        next
    }

    pub(super) fn columns(&self) -> Columns {
        self.columns.clone().unwrap_or_default()
    }

    /// The title of an OSU test was read: there was a run, even if no row follows.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    pub(super) fn header(&mut self, columns: Columns) {
        self.columns = Some(columns);
    }

    /// Takes a parsed head line; failures are kept as the raw `line`.
    pub(super) fn take(&mut self, head_line: HeadLine, line: &str) {
        let this = &mut self.measurement;
        match head_line {
            HeadLine::Version(version, library) => {
                this.source.version = Some(version);
                this.nccl = library.filter(|code| *code > 0).map(measurement::version_text);
            }
            HeadLine::Starting(program) => {
                self.begun = true;
                this.test.collective = collective_in(&program).map(Known::stated);
                this.test.name = Some(program);
            }
            HeadLine::Parameters(per_process, options, announced) => {
                let named = |(name, value): (&str, String)| (name.to_owned(), value);
                this.options.extend(options.into_iter().map(named));
                self.per_process = per_process.unwrap_or(1).max(1);
                self.parameters += 1;
                this.announced = announced;
                this.copies = self.parameters;
            }
            HeadLine::Device(device) => self.device(device),
            HeadLine::OutOfBounds(events) => {
                self.foot = true;
                this.out_of_bounds = Some(this.out_of_bounds.unwrap_or(0).saturating_add(events));
            }
            HeadLine::Average(average) => {
                self.foot = true;
                this.stated_average = this.stated_average.or(average);
            }
            HeadLine::Concluded => self.foot = true,
            // What the GPUs' memory does not hold.
            HeadLine::Reduced => this.announced = None,
            HeadLine::Failure if this.errors.len() < MAX_ERRORS => this.errors.push(keep(line)),
            HeadLine::Command(collective) => {
                this.command = Some(keep_command(line));
                if this.test.collective.is_none() {
                    this.test.collective = collective.map(Known::stated);
                }
            }
            HeadLine::Setting(name, value) => {
                if this.environment.len() < MAX_SETTINGS {
                    this.environment.insert(name, value);
                }
            }
            HeadLine::Banner(settings) => {
                let left = MAX_SETTINGS.saturating_sub(this.environment.len());
                this.environment.extend(settings.into_iter().take(left));
            }
            HeadLine::Failure | HeadLine::Other => {}
        }
    }

    fn device(&mut self, device: Device) {
        if self.measurement.devices.len() < MAX_DEVICES && self.listed.insert(device.rank) {
            self.measurement.devices.push(device);
        }
    }

    /// Takes a row, or the part of it that came so far.
    pub(super) fn row(&mut self, parsed: Parsed, torn: bool) {
        self.settle();
        let Parsed { row, cut, open, figures } = parsed;
        // Of a figure that was torn itself, the rest cannot be told from a figure.
        let torn = torn && row.in_place.is_none() && figures == self.columns().width;
        if open || torn {
            self.waiting = Some(row);
        } else {
            self.cut += u64::from(cut);
            self.push(row);
        }
    }

    /// Whether a placement alone on a line belongs to a row.
    pub(super) fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes a placement that stands alone on a line.
    pub(super) fn continued(&mut self, halves: [Option<Figures>; 2]) {
        let Some(row) = &mut self.waiting else { return };
        for half in halves.into_iter().flatten() {
            if row.out_of_place.is_none() {
                row.out_of_place = Some(half);
            } else {
                row.in_place = Some(half);
            }
        }
        if row.in_place.is_some()
            && let Some(row) = self.waiting.take()
        {
            self.push(row);
        }
    }

    /// Ends the row that was waiting for its rest.
    fn settle(&mut self) {
        if let Some(row) = self.waiting.take() {
            self.cut += 1;
            self.push(row);
        }
    }

    pub(super) fn push(&mut self, row: Row) {
        if self.measurement.rows.len() < MAX_ROWS {
            self.measurement.rows.push(row);
        } else {
            self.measurement.rows_left_out += 1;
        }
    }

    /// The run, if there was one, and how many of its rows were cut.
    pub(super) fn finish(mut self) -> (Option<Measurement>, u64) {
        self.settle();
        let mut this = self.measurement;
        let messages = self.nccl.messages().read;
        let facts = self.nccl.finish();
        this.failure = self.failures.finish(&facts);
        // A foot says that what was announced was measured, whatever a reader left out.
        this.announced = this.announced.filter(|_| !self.foot);
        if messages > 0 {
            let version = facts.versions.first().map(|version| &version.what.text);
            let plain = |text: &String| text.split('+').next().unwrap_or(text).to_owned();
            this.nccl = this.nccl.or(version.map(plain));
            this.library.push(facts);
        }
        if this.copies > 1 && this.devices.iter().all(|device| device.rank == 0) {
            this.ranks = Some(Known::stated(1));
        } else if this.ranks.is_none() {
            this.ranks = listed(&this.devices, self.per_process).map(Known::stated);
        }
        this.hosts = this.hosts.or_else(|| hosts(&this, this.rank_count()));
        this.settle_groups();
        measurement::deduce(&mut this);
        complete(&mut this);
        told(&mut this);
        let headed = self.parameters > 0 || self.begun || self.columns.is_some();
        let failed = headed && !this.errors.is_empty();
        let tells = !this.library.is_empty() || !this.failure.incidents.is_empty();
        let table = !this.rows.is_empty() || headed;
        if tells && !table {
            this.source.form = Form::Log;
        }
        ((table || failed || tells).then_some(this), self.cut)
    }
}

/// Ranks and hosts by the command line and the page, where neither devices nor figures tell.
fn told(this: &mut Measurement) {
    let command = this.command.as_deref().map(Command::read).unwrap_or_default();
    this.environment.extend(command.settings);
    let page = this.page.as_ref();
    if this.ranks.is_none() && !this.rows.is_empty() {
        this.ranks = command.ranks.or(page.and_then(|page| page.ranks)).map(Known::stated);
    }
    if this.hosts.is_none()
        && let Some(ranks) = this.rank_count()
    {
        let by_command = command.hosts.filter(|_| command.ranks == Some(ranks));
        // Of a cluster that is described as a whole, a run may have used a part.
        let whole = |nodes: &usize| {
            let each = page.and_then(|page| page.gpus).unwrap_or(1);
            nodes.checked_mul(each) == Some(ranks)
        };
        this.hosts = by_command.or(page.and_then(|page| page.nodes).filter(whole));
    }
}

pub(super) fn keep(line: &str) -> String {
    cut(line, MAX_ERROR_BYTES)
}

pub(super) fn keep_command(line: &str) -> String {
    cut(line, MAX_COMMAND_BYTES)
}

fn cut(line: &str, most: usize) -> String {
    let line = line.trim();
    line[..line.floor_char_boundary(most)].to_owned()
}
