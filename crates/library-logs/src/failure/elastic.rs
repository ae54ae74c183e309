//! torchelastic's summary of a failed job: which processes ended how, and which one first.
//! Not what the processes print themselves.
//!
//! Source: torch/distributed/elastic/multiprocessing/errors/__init__.py and api.py, 1.9 to 2.11.

use super::{
    incident::{Incident, MAX_MEMBERS, ProcessExit},
    kind::Kind,
    line::{Line, between, number},
};

/// What a line of the summary tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Failures,
    RootCause,
    Rank,
    Host,
    ExitCode,
    /// `failed (exitcode: -9) local_rank: 1 (pid: 842) of binary: …`, before the summary.
    Failed,
}

/// The words of each line.
pub(super) const MARKS: [(&str, Mark); 6] = [
    ("Failures:", Mark::Failures),
    ("Root Cause (first observed failure)", Mark::RootCause),
    ("(local_rank: ", Mark::Rank),
    ("host      : ", Mark::Host),
    ("exitcode  : ", Mark::ExitCode),
    ("failed (exitcode: ", Mark::Failed),
];

/// The summary read so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    root: bool,
    now: ProcessExit,
    exits: Vec<ProcessExit>,
}

impl Summary {
    /// Reads a line; the incident is how the process ended.
    pub(super) fn read(&mut self, mark: Mark, line: &Line<'_>) -> Option<Incident> {
        let value = || line.text.split_once(" : ").map(|(_, value)| value.trim());
        match mark {
            Mark::Failures => self.root = false,
            Mark::RootCause => self.root = true,
            Mark::Rank => self.now.rank = value().and_then(number),
            Mark::Host => self.now.host = value().map(super::rule::keep),
            Mark::ExitCode => {
                let code = value()?.split(' ').next()?.parse().ok()?;
                let pid = between(line.text, "(pid: ", ")").and_then(number);
                let exit =
                    ProcessExit { code, pid, root: self.root, ..std::mem::take(&mut self.now) };
                let incident = ended(line, &exit);
                if self.exits.len() < MAX_MEMBERS {
                    self.exits.push(exit);
                }
                return Some(incident);
            }
            Mark::Failed => {
                let code = between(line.text, "(exitcode: ", ")")?.parse().ok()?;
                let pid = between(line.text, "(pid: ", ")").and_then(number);
                return Some(ended(
                    line,
                    &ProcessExit { code, pid, root: true, ..ProcessExit::default() },
                ));
            }
        }
        None
    }

    pub(super) fn finish(self) -> Vec<ProcessExit> {
        self.exits
    }
}

/// torchelastic ends the other processes by SIGTERM, and by SIGKILL those that stay: only its root cause
/// ended by itself.
fn ended(line: &Line<'_>, exit: &ProcessExit) -> Incident {
    let mut incident = Incident::at(Kind::ProcessEnd, line);
    incident.ranks.clear();
    incident.rank(exit.rank);
    incident.pid(exit.pid);
    incident.host(exit.host.as_deref().unwrap_or_default());
    match u32::try_from(-exit.code) {
        Ok(signal) if signal > 0 => incident.details.signal = Some(signal),
        _ => incident.details.exit_code = Some(exit.code),
    }
    if !exit.root && exit.code < 0 {
        incident.kind = Kind::Ended;
    }
    incident
}
