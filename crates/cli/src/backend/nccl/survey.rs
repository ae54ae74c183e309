//! What NCCL says it will do with each case: algorithm and protocol from its log, its own prediction
//! from ncclGroupSimulateEnd. Found out before anything is timed.
//! Not a measurement.

use std::{collections::HashMap, sync::Arc};

use model::{
    nccl_log::{NcclFacts, Parser, Way},
    plan::{Case, Sweep},
};

use super::{Nccl, log::Log};
use crate::backend::CaseFacts;

/// What is known so far.
pub(super) struct TuningChoices {
    /// The log of our process, where NCCL writes one for us.
    log: Option<Arc<Log>>,
    /// Whether we speak for our process: one driver changes what NCCL says, and reads how it came up.
    leads_process: bool,
    /// How far the log was read.
    read: u64,
    capturing: bool,
    known: HashMap<(Sweep, usize), CaseFacts>,
    /// How NCCL came up, until it was reported.
    init_facts: Option<Box<NcclFacts>>,
    reported: bool,
}

impl TuningChoices {
    pub(super) fn new(log: Option<Arc<Log>>) -> TuningChoices {
        // Until somebody says otherwise, NCCL says everything from its start on.
        let capturing = log.is_some();
        let (known, init_facts) = (HashMap::new(), None);
        TuningChoices { log, leads_process: false, read: 0, capturing, known, init_facts, reported: false }
    }

    /// Says whether our driver leads_process for its process.
    pub(super) fn set_process_leader(&mut self, leads_process: bool) {
        self.leads_process = leads_process;
    }

    pub(super) fn facts(&self, case: &Case) -> CaseFacts {
        self.known.get(&key(case)).cloned().unwrap_or_default()
    }
}

fn key(case: &Case) -> (Sweep, usize) {
    (case.sweep, case.counts.param)
}

impl Nccl<'_> {
    /// Lets NCCL say, or not say, what it does with a call; whether something can be found out.
    pub(super) fn set_log_capture(&mut self, on: bool) -> bool {
        let tuning = &mut self.tuning;
        let Some(log) = &tuning.log else { return self.library.predicts() };
        if tuning.capturing == on {
            tuning.read = log.end();
            return true;
        }
        tuning.capturing = on;
        if !on && !tuning.reported {
            // What it said so far goes with the next line.
            tuning.init_facts = tuning.leads_process.then(|| Box::new(init_facts(log)));
            tuning.reported = true;
        }
        if tuning.leads_process {
            log.set_capture(on);
            self.library.read_debug_again();
        }
        tuning.read = 0;
        true
    }

    /// Notes what was said about a case that has just run, and what NCCL predicts for it.
    pub(super) fn note(&mut self, case: &Case, predicted_us: Option<f64>) {
        let tuning = &mut self.tuning;
        let mut parser = Parser::new();
        if let Some(log) = &tuning.log {
            tuning.read = log.lines(tuning.read, |line| parser.line(line));
        }
        // One call was made; its first choice is the one.
        let choice = parser.finish().choices.into_iter().next();
        let facts = CaseFacts { algorithm: choice.map(|c| words(&c.way)), predicted_us };
        tuning.known.insert(key(case), facts);
    }

    /// How NCCL came up, once it is known; each process tells once.
    pub(super) fn take_init_facts(&mut self) -> Option<Box<NcclFacts>> {
        self.tuning.init_facts.take()
    }
}

/// Everything that was said from the start, without the choices: those are the rows'.
fn init_facts(log: &Log) -> NcclFacts {
    let mut parser = Parser::new();
    log.lines(0, |line| parser.line(line));
    NcclFacts { choices: Vec::new(), ..parser.finish() }
}

/// "RING LL, channels 0-3".
fn words(way: &Way) -> String {
    match way {
        Way::Tuned { algorithm, protocol, channels: Some([first, last]) } => {
            format!("{algorithm} {protocol}, channels {first}-{last}")
        }
        Way::Tuned { algorithm, protocol, channels: None } => format!("{algorithm} {protocol}"),
        Way::Symmetric { kernel, channels, .. } => {
            format!("symmetric {kernel}, channels: {channels}")
        }
        Way::CopyEngine { call } => format!("copy engine {call}"),
        Way::HierarchicalCopyEngine { call } => format!("hierarchical copy engine {call}"),
    }
}
