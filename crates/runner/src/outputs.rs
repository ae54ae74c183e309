//! Everything that a run writes while it runs: stdout, the JSON report, the record, progress.
//! Not how ranks run: the supervisor passes rows in as they arrive.

mod ended;
mod last_lines;
mod launches;
mod progress;
mod remaining;
mod stream;

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    plan::Plan,
    printable::Printable,
    record::{LibraryFacts, Line, Row, Run},
};

pub use ended::Ended;

use self::{launches::over_launches, progress::Progress, stream::Stream};
use crate::request::{Output, RecordPlace, Request, Summary, Talk};
use busbw_core::exit::ExitError;
use busbw_render as render;
use busbw_render::{Closing, Csv, JsonLines, Render, Totals};
use busbw_store as store;

/// Whether the run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    Continue,
    /// Continue with everything but rows: the reader of stdout has not taken the last one.
    Held,
    /// Nobody reads stdout any more.
    ReaderGone,
}

/// The outputs of one run.
pub struct Outputs {
    stdout: Box<dyn Render>,
    /// Where `stdout` writes.
    table: Stream,
    stderr: Stream,
    talk: Talk,
    report: Option<(Box<dyn Render>, PathBuf)>,
    record: Option<store::Writer>,
    /// Whether the user named the record's path.
    record_is_wanted: bool,
    /// Whether a file that the user named could not be written to its end.
    incomplete: bool,
    progress: Progress,
    preamble: Vec<String>,
    run: Option<Run>,
    /// Rows so far; with `-N 0` those of the last cycle.
    rows: Vec<Row>,
    /// Rows of communicators that arrived before the other communicators' rows of the same index.
    waiting: Vec<Row>,
    totals: Totals,
    warnings: Vec<String>,
    /// The libraries' reports and the devices' counts, for the evidence sentence.
    closing: Closing,
    /// Whether the reason for the end was printed already.
    told: bool,
    /// Whether the rows come from a process that prints its own messages on our stderr.
    relayed: bool,
    /// The libraries' reports, for the last line.
    libraries: Vec<LibraryFacts>,
    /// What says the last line.
    summary: Option<Summary>,
}

/// The files that the user requested, opened before anything is started, so that a bad path fails
/// early.
pub struct Files {
    report: Option<(File, PathBuf)>,
    record: Option<store::Writer>,
    record_is_wanted: bool,
    preamble: Vec<String>,
    warnings: Vec<String>,
}

impl Files {
    /// Opens them for run `id`.
    ///
    /// # Errors
    /// A path that the user named cannot be written. The default path of records only causes a
    /// warning.
    pub fn open(record: &RecordPlace, json_report: Option<&Path>, id: &str) -> Result<Files> {
        let mut warnings = Vec::new();
        let writer = match record {
            RecordPlace::None => None,
            RecordPlace::At(path) => Some(store::Writer::create(path).map_err(unusable)?),
            RecordPlace::Default => {
                match store::new_path(id).and_then(|p| store::Writer::create(&p)) {
                    Ok(writer) => Some(writer),
                    Err(e) => {
                        warnings.push(format!("no record of this run: {e:#}"));
                        None
                    }
                }
            }
        };
        let (mut report, mut preamble) = (None, Vec::new());
        if let Some(path) = json_report {
            let (file, path) = render::open_report(path).map_err(unusable)?;
            preamble.push(format!("# Writing JSON output to {}", path.display()));
            report = Some((file, path));
        }
        let record_is_wanted = matches!(record, RecordPlace::At(_));
        Ok(Files { report, record: writer, record_is_wanted, preamble, warnings })
    }
}

impl Outputs {
    /// Opens everything before anything is measured, so that a bad path fails early.
    ///
    /// # Errors
    /// A path that the user named cannot be written. The default path of records only causes a
    /// warning.
    pub fn open(request: &Request, id: &str) -> Result<Outputs> {
        let files = Files::open(&request.record, request.json_report.as_deref(), id)?;
        let progress = match request.talk {
            Talk::Quiet => Progress::hidden(&request.plan),
            _ => Progress::new(&request.plan),
        };
        let outputs = Outputs::new(files, &request.plan, request.output, request.talk, progress)?;
        Ok(Outputs { summary: request.summary, ..outputs })
    }

    /// The outputs of rows that another process's record brings. That process prints its own
    /// messages on our stderr.
    ///
    /// # Errors
    /// The thread for stdout cannot be started.
    pub fn relayed(
        files: Files,
        plan: &Plan,
        output: Output,
        talk: Talk,
        summary: Option<Summary>,
    ) -> Result<Outputs> {
        // No progress bar: the other process's messages on our stderr would break it.
        let outputs = Outputs::new(files, plan, output, talk, Progress::hidden(plan))?;
        outputs.warnings.iter().for_each(|warning| outputs.remark(warning));
        Ok(Outputs { relayed: true, summary, ..outputs })
    }

    fn new(
        files: Files,
        plan: &Plan,
        output: Output,
        talk: Talk,
        progress: Progress,
    ) -> Result<Outputs> {
        let Files { report, record, record_is_wanted, preamble, warnings } = files;
        let (table, stderr) = (Stream::new(io::stdout())?, Stream::new(io::stderr())?);
        let stdout: Box<dyn Render> = match output {
            Output::Table(units) => render::table(plan, units, table.clone()),
            Output::Csv => Box::new(Csv::new(table.clone())),
            Output::Json => Box::new(JsonLines(table.clone())),
        };
        let report = report.map(|(file, path)| (render::report(plan, file), path));
        Ok(Outputs {
            stdout,
            table,
            stderr,
            talk,
            report,
            record,
            record_is_wanted,
            incomplete: false,
            progress,
            preamble,
            run: None,
            rows: Vec::new(),
            waiting: Vec::new(),
            totals: Totals::default(),
            warnings,
            closing: Closing::default(),
            told: false,
            relayed: false,
            libraries: Vec::new(),
            summary: None,
        })
    }

    /// A function that writes a heartbeat's line to stdout, between other lines; it leaves out those that the reader
    /// would take late.
    pub fn heartbeats(&self) -> impl Fn(Vec<u8>) + Send + 'static {
        let stdout = self.table.clone();
        move |line| stdout.offer(line)
    }

    /// The path of the record.
    pub fn record_path(&self) -> Option<PathBuf> {
        self.record.as_ref().map(|writer| writer.path().to_owned())
    }

    /// Prints a message on stderr, around the progress bar.
    pub fn say(&self, text: &str) {
        self.progress.suspend(|| {
            // If stderr is closed, the message is lost.
            // Libraries' and other hosts' words are among it.
            let mut stderr = Printable::new(self.stderr.clone(), false);
            let _ = stderr.write_all(format!("busbw: {text}\n").as_bytes());
            let _ = stderr.flush();
        });
    }

    /// Prints what is no error, unless the run is to be quiet.
    pub fn remark(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.say(text);
        }
    }

    /// Prints what `-v` asks for. The process whose rows are relayed prints its own.
    fn details(&self, lines: impl IntoIterator<Item = String>) {
        if self.talk == Talk::Verbose && !self.relayed {
            lines.into_iter().for_each(|line| self.say(&line));
        }
    }

    /// Prints why the run is about to end, before this process may be killed.
    pub fn say_early(&mut self, message: &str) {
        self.say(message);
        self.told = true;
    }

    /// The process whose rows these are has printed why the run ended.
    pub fn was_told(&mut self) {
        self.told = true;
    }

    /// Begins the run: its line goes to every output. Later launches of it begin silently.
    ///
    /// # Errors
    /// Outputs that cannot be written.
    pub fn begin(&mut self, mut run: Run) -> Result<Flow> {
        if self.run.is_some() {
            return Ok(Flow::Continue);
        }
        run.preamble.splice(0..0, std::mem::take(&mut self.preamble));
        self.record_line(&Line::Run(Box::new(run.clone())));
        self.details(render::run_details(&run));
        self.details(self.record_path().map(|path| format!("record: {}", path.display())));
        self.run = Some(run.clone());
        self.progress.ranks_are_ready();
        self.print(|output| output.run(&run))
    }

    /// Shows that a row is being measured.
    pub fn progress(&self, bytes: u64, launch: u32) {
        self.progress.row(bytes, launch);
    }

    /// Shows that this share of the current row is measured.
    pub fn progress_within(&self, share: f64) {
        self.progress.within(share);
    }

    /// Shows the progress of a pass over all pairs.
    pub fn progress_of_passes(&self, matrix: u64, bytes: u64, done: u64, all: u64) {
        self.progress.pairs_pass(matrix, bytes, done, all);
    }

    /// A library's report from one process.
    ///
    /// # Errors
    /// Outputs that cannot be written.
    pub fn library(&mut self, said: LibraryFacts) -> Result<Flow> {
        self.closing.library(&said);
        if self.summary.is_some() {
            self.libraries.push(said.clone());
        }
        let line = said.into();
        self.record_line(&line);
        self.print(|output| output.library(&line))
    }

    /// A row is complete. Communicators run at the same time: their rows of one index appear
    /// together, in the order of the communicators.
    ///
    /// # Errors
    /// Outputs that cannot be written.
    pub fn row(&mut self, row: Row) -> Result<Flow> {
        let Some(run) = &self.run else { return Ok(Flow::Continue) };
        let groups: Vec<u64> = run.plan.groups().iter().map(|g| run.plan.colour(g[0])).collect();
        self.waiting.push(row);
        if self.waiting.len() < groups.len() {
            return Ok(Flow::Continue);
        }
        let place = |row: &Row| groups.iter().position(|g| *g == row.group);
        self.waiting.sort_by_key(|row| (row.index, place(row)));
        let mut flow = Flow::Continue;
        for row in std::mem::take(&mut self.waiting) {
            flow = self.complete_row(row)?;
        }
        Ok(flow)
    }

    /// Waits for a reader that pauses, for `limit` at most.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn settle(&mut self, limit: Duration) -> Result<Flow> {
        match self.table.settle(limit) {
            Ok(true) => Ok(Flow::Continue),
            Ok(false) => Ok(Flow::Held),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Flow::ReaderGone),
            Err(e) => Err(e).context("cannot write to stdout"),
        }
    }

    fn complete_row(&mut self, row: Row) -> Result<Flow> {
        let Some(run) = &self.run else { return Ok(Flow::Continue) };
        let forever = run.plan.cycles == 0;
        let first_group = run.plan.colour(0);
        let several = run.plan.sampling.launches > 1;
        let row = if row.shown && several { over_launches(row, &self.rows) } else { row };
        self.record_line(&Line::Row(Box::new(row.clone())));
        self.totals.add_checks(&row);
        self.closing.row(&row);
        if row.shown && row.group == first_group {
            self.totals.add(&row);
        }
        if !self.relayed {
            render::row_warnings(&row).iter().for_each(|warning| self.say(warning));
        }
        let flow = self.print(|output| output.row(&row))?;
        self.details(render::row_details(&row).filter(|_| row.shown));
        if forever {
            let case = |row: &Row| {
                let given = row.variant.as_ref().map(|variant| variant.given.clone());
                (row.size, row.group, row.datatype, row.redop.clone(), row.root, given)
            };
            self.rows.retain(|earlier| case(earlier) != case(&row));
        }
        self.rows.push(row);
        Ok(flow)
    }

    /// Success only if every file that the user named is complete.
    fn or_incomplete(&self, exit: Exit) -> Exit {
        if exit == Exit::Ok && self.incomplete { Exit::Internal } else { exit }
    }

    fn record_line(&mut self, line: &Line) {
        let Some(writer) = &mut self.record else { return };
        if let Err(e) = writer.write(line) {
            // The run's figures still go to stdout: a full disk loses the record, not the run.
            self.record = None;
            let wanted = self.record_is_wanted;
            self.give_up(&format!("{e:#}"), "a record", wanted);
        }
    }

    /// Continues without a file. If the user named it, the exit code reports that at the end.
    fn give_up(&mut self, why: &str, what: &str, wanted: bool) {
        let text = format!("{why}; the run continues without {what}");
        self.say(&text);
        self.warnings.push(text);
        self.incomplete |= wanted;
    }

    /// Writes to stdout and the report, around the progress bar.
    fn print(&mut self, write: impl Fn(&mut dyn Render) -> io::Result<()>) -> Result<Flow> {
        if let Some((report, path)) = &mut self.report
            && let Err(e) = write(report.as_mut())
        {
            let why = format!("cannot write the JSON report {} (-J): {e}", path.display());
            self.report = None;
            self.give_up(&why, "it, and the file is incomplete", true);
        }
        let stdout = &mut self.stdout;
        match self.progress.suspend(|| write(stdout.as_mut())) {
            Ok(()) => self.settle(Duration::ZERO),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Flow::ReaderGone),
            Err(e) => Err(e).context("cannot write to stdout"),
        }
    }
}

/// The error for a path of the user's that cannot be written: a mistake in an option.
fn unusable(error: anyhow::Error) -> anyhow::Error {
    ExitError::new(Exit::Usage, format!("{error:#}")).into()
}

/// A name for a run that sorts by time: date, time, program, process.
pub fn run_id(program: &str) -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    format!("{now}-{program}-{}", std::process::id())
}
