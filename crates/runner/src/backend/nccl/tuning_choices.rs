//! NCCL's choice for each case: algorithm and protocol from its log, its own time prediction from
//! ncclGroupSimulateEnd. Recorded in the tuning pass, before anything is timed.
//! Not a measurement.

use std::{collections::HashMap, sync::Arc};

use busbw_core::plan::{Case, Sweep};
use busbw_library_logs::nccl::{Execution, NcclFacts, Parser};

use super::{Nccl, log::Log, variants};
use crate::backend::CaseFacts;

/// NCCL's choices known so far, and how far its log has been read.
pub(super) struct TuningChoices {
    /// The log of this process, where NCCL writes one for us.
    log: Option<Arc<Log>>,
    /// Whether this thread is the first of its process: that one alone sets NCCL's log level, and reads
    /// the log of NCCL's initialisation.
    leads_process: bool,
    /// Bytes of the log that have been read.
    read: u64,
    /// By sweep, count and variant.
    known: HashMap<(Sweep, usize, usize), CaseFacts>,
    /// Facts from NCCL's initialisation, until they are reported.
    init_facts: Option<Box<NcclFacts>>,
}

impl TuningChoices {
    pub(super) fn new(log: Option<Arc<Log>>) -> TuningChoices {
        let (known, init_facts) = (HashMap::new(), None);
        TuningChoices { log, leads_process: false, read: 0, known, init_facts }
    }

    /// Sets whether this thread is the first of its process.
    pub(super) fn set_process_leader(&mut self, leads_process: bool) {
        self.leads_process = leads_process;
    }

    pub(super) fn facts(&self, case: &Case) -> CaseFacts {
        self.known.get(&key(case)).cloned().unwrap_or_default()
    }
}

fn key(case: &Case) -> (Sweep, usize, usize) {
    (case.sweep, case.counts.param, case.variant)
}

impl Nccl<'_> {
    /// Makes NCCL log, or not log, its choice for each call. Returns whether its choices or its
    /// predictions can be read.
    pub(super) fn set_log_capture(&mut self, on: bool) -> bool {
        let tuning = &mut self.tuning;
        let Some(log) = &tuning.log else { return self.library.predicts() };
        // Of the process, which may have several communicators: each has a backend.
        if log.is_capturing() == on {
            tuning.read = log.end();
            return true;
        }
        if tuning.leads_process {
            if !on && log.is_new() {
                // `set_capture` empties the log: read it first.
                tuning.init_facts = Some(Box::new(init_facts(log)));
            }
            log.set_capture(on);
            self.library.read_debug_again();
        }
        tuning.read = 0;
        true
    }

    /// Keeps what NCCL logged about the case that has just run, and the time in microseconds that it
    /// predicts for it.
    pub(super) fn keep_choice(&mut self, case: &Case, predicted_us: Option<f64>) {
        let tuning = &mut self.tuning;
        let (mut parser, mut picked) = (Parser::new(), None);
        if let Some(log) = &tuning.log {
            tuning.read = log.lines(tuning.read, |line| {
                parser.line(line);
                picked = picked.take().or_else(|| variants::picked(line).map(str::to_owned));
            });
        }
        // One call was made: the first choice in the log is its own.
        let choice = parser.finish().choices.into_iter().next();
        let algorithm = choice.map(|choice| words(&choice.execution)).or(picked);
        let facts = CaseFacts { algorithm, predicted_us };
        tuning.known.insert(key(case), facts);
    }

    /// Facts from NCCL's initialisation, once they are known; each process returns them once.
    pub(super) fn take_init_facts(&mut self) -> Option<Box<NcclFacts>> {
        self.tuning.init_facts.take()
    }
}

/// All facts in the log so far but for the choices, which belong to the rows.
fn init_facts(log: &Log) -> NcclFacts {
    let mut parser = Parser::new();
    log.lines(0, |line| parser.line(line));
    NcclFacts { choices: Vec::new(), ..parser.finish() }
}

/// "RING LL, channels 0-3".
fn words(execution: &Execution) -> String {
    match execution {
        Execution::Tuned { algorithm, protocol, channels: Some([first, last]), .. } => {
            format!("{algorithm} {protocol}, channels {first}-{last}")
        }
        Execution::Tuned { algorithm, protocol, channels: None, .. } => {
            format!("{algorithm} {protocol}")
        }
        Execution::Symmetric { kernel, channels, .. } => {
            format!("symmetric {kernel}, channels: {channels}")
        }
        Execution::CopyEngine { call } => format!("copy engine {call}"),
        Execution::HierarchicalCopyEngine { call } => format!("hierarchical copy engine {call}"),
    }
}
