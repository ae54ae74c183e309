//! The end of a run in its outputs: last rows, totals, advice, the exit code, and the wait for a
//! reader who pauses.
//! Not why the run ended (`ended`).

use std::{io, time::Duration};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    printable::printable,
    record::{End, Folded, LibraryFacts, Line, Row, Run, SCHEMA, Status},
};

use super::{Ended, Outputs};
use busbw_host::termination_message;
use busbw_render as render;

/// How long a reader gets for the last lines after an interruption.
const LAST_LINES_TIMEOUT: Duration = Duration::from_millis(200);
/// Time between two checks for a second interruption, while a reader pauses at the very end.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Outputs {
    /// Ends the run: writes last lines and advice, and returns the exit code. Waits for a reader
    /// that pauses, unless the run was `interrupted` or is interrupted during the wait.
    ///
    /// # Errors
    /// Outputs cannot be written.
    pub fn end(mut self, ended: &Ended, interrupted: impl Fn() -> bool) -> Result<Exit> {
        if let (Some(message), true) = (&ended.message, ended.exit != Exit::Ok) {
            termination_message::write(&format!("busbw: {message}"));
        }
        let exit = self.last_lines(ended)?;
        let mut patience = LAST_LINES_TIMEOUT;
        loop {
            let read = self.table.settle(INTERRUPT_POLL_INTERVAL);
            // If stderr is closed, the message is lost.
            let told = self.stderr.settle(INTERRUPT_POLL_INTERVAL).unwrap_or(true);
            match read {
                Err(e) if ended.status == Status::Complete => {
                    let gone = e.kind() == io::ErrorKind::BrokenPipe;
                    return if gone { Ok(exit) } else { Err(e).context("cannot write to stdout") };
                }
                Ok(false) => {}
                _ if told => return Ok(exit),
                _ => {}
            }
            if interrupted() {
                patience = patience.saturating_sub(INTERRUPT_POLL_INTERVAL);
                if patience.is_zero() {
                    let complete = ended.status == Status::Complete;
                    return Ok(if complete { Exit::Interrupted } else { exit });
                }
            }
        }
    }

    fn last_lines(&mut self, ended: &Ended) -> Result<Exit> {
        let complete = ended.status == Status::Complete;
        for row in std::mem::take(&mut self.waiting) {
            let completed = self.complete_row(row);
            // A failure of stdout was reported before, unless the run is complete.
            if complete {
                completed?;
            }
        }
        if matches!(ended.status, Status::Interrupted | Status::Failed) {
            let _ = self.show_unfinished_launches();
        }
        self.progress.clear();
        let Some(run) = self.run.take() else {
            if let Some(message) = ended.message.as_ref().filter(|_| !self.told) {
                self.say(message);
            }
            return Ok(ended.exit);
        };
        let first_group = run.plan.colour(0);
        let ranks = run.devices.iter().filter(|device| device.group == first_group).count();
        let average_busbw = self.totals.average_busbw(ranks);
        let min_bandwidth_held =
            run.plan.min_bandwidth.map(|gate| render::gate_held(average_busbw, gate));
        // Wrong data is wrong even when the reader has left; a gate needs the complete run.
        let missed = complete && min_bandwidth_held == Some(false);
        let wrong = self.totals.out_of_bounds > 0 || missed;
        let exit = if ended.exit == Exit::Ok && wrong { Exit::WrongData } else { ended.exit };
        let pairing = run.plan.pairing.as_ref();
        let strict = pairing.is_some_and(|pairing| pairing.strict);
        // Of no pair is anything known then: that is no "nobody is slower".
        let unmeasured = pairing.is_some()
            && complete
            && !self.rows.is_empty()
            && self.rows.iter().all(|row| row.waived.is_some());
        let exit = match exit {
            Exit::Ok if strict && self.rows.iter().any(render::somebody_is_slow) => Exit::Internal,
            Exit::Ok if unmeasured => Exit::Impossible,
            exit => exit,
        };
        // Advice is about all samples, which a run without end does not keep.
        let advised = |row: &&Row| row.shown && run.plan.cycles != 0;
        let shown: Vec<Row> = self.rows.iter().filter(advised).cloned().collect();
        self.warnings.extend(render::run_warnings(&run, &shown));
        if ranks == 1 && complete {
            let average = self.totals.average_algbw();
            self.warnings.push(format!(
                "one rank: no bytes cross a bus, so there is no average bus bandwidth; the average algorithm bandwidth is {average:.4} GB/s"
            ));
        }
        let mut end = End {
            schema: SCHEMA,
            status: ended.status,
            exit: self.or_incomplete(exit),
            message: ended.message.clone(),
            out_of_bounds: self.totals.out_of_bounds,
            average_busbw,
            average_algbw: self.totals.average_algbw(),
            min_bandwidth_held,
            finished: busbw_store::local_time::now(),
            peak_rank_bytes: ended.peak_rank_bytes,
            gpu_memory: ended.gpu_memory,
            warnings: self.warnings.clone(),
        };
        let printed = self.print(|output| output.end(&end));
        // The report may have failed in its last line.
        end.exit = self.or_incomplete(exit);
        self.record_line(&Line::End(Box::new(end.clone())));
        if !self.relayed {
            if let Some(sentence) = self.closing.sentence(run.counted.as_ref()) {
                self.remark(&sentence);
            }
            self.warnings.iter().for_each(|warning| self.remark(warning));
        }
        let record = self.record_path();
        let rows =
            record.map(|path| format!("rows measured so far: busbw show {}", path.display()));
        match (&ended.message, rows) {
            (Some(_), Some(rows)) if self.told => self.say(&rows),
            (Some(_), None) if self.told => {}
            (Some(message), Some(rows)) => self.say(&format!("{message}; {rows}")),
            (Some(message), None) => self.say(message),
            (None, _) => {}
        }
        self.sum_up(run, end);
        if complete {
            printed?;
        }
        Ok(self.or_incomplete(exit))
    }
    /// The last line: what the run says, and what to do next.
    fn sum_up(&mut self, run: Run, end: End) {
        let Some(summary) = self.summary else { return };
        let name = self.record_path().map(|path| match self.record_is_wanted {
            true => path.display().to_string(),
            false => run.id.clone(),
        });
        let rows = std::mem::take(&mut self.rows);
        let mut record = Folded {
            run,
            library: Vec::new(),
            mpi: Vec::new(),
            net: Vec::new(),
            paths: Vec::new(),
            verbs: Vec::new(),
            rows,
            end: Some(end),
        };
        for facts in std::mem::take(&mut self.libraries) {
            match facts {
                LibraryFacts::Nccl(facts) => record.library.push(*facts),
                LibraryFacts::Mpi(facts) => {
                    record.mpi.retain(|earlier| earlier.rank != facts.rank);
                    record.mpi.push(*facts);
                }
                LibraryFacts::Net(facts) => record.net.push(*facts),
                LibraryFacts::Paths(stats) => record.paths.push(*stats),
                LibraryFacts::Verbs(facts) => record.verbs.push(*facts),
            }
        }
        self.remark(&printable(&summary(record, name.as_deref())));
    }
}
