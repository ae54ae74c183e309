//! What NCCL says it will do with each case: algorithm and protocol from its log, its own prediction
//! from ncclGroupSimulateEnd. Found out before anything is timed.
//! Not a measurement.

use std::{collections::HashMap, sync::Arc};

use busbw_core::plan::{Case, Sweep};
use busbw_library_logs::nccl::{NcclFacts, Parser, Way};

use super::{Nccl, log::Log};
use crate::backend::CaseFacts;

/// What is known so far.
pub(super) struct Survey {
    /// The log of our process, where NCCL writes one for us.
    log: Option<Arc<Log>>,
    /// Whether we speak for our process: one driver changes what NCCL says, and reads how it came up.
    speaks: bool,
    /// How far the log was read.
    read: u64,
    listening: bool,
    known: HashMap<(Sweep, usize), CaseFacts>,
    /// How NCCL came up, until it was told.
    came_up: Option<Box<NcclFacts>>,
    told: bool,
}

impl Survey {
    pub(super) fn new(log: Option<Arc<Log>>) -> Survey {
        // Until somebody says otherwise, NCCL says everything from its start on.
        let listening = log.is_some();
        let (known, came_up) = (HashMap::new(), None);
        Survey { log, speaks: false, read: 0, listening, known, came_up, told: false }
    }

    /// Says whether our driver speaks for its process.
    pub(super) fn set_speaker(&mut self, speaks: bool) {
        self.speaks = speaks;
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
    pub(super) fn set_listening(&mut self, on: bool) -> bool {
        let survey = &mut self.survey;
        let Some(log) = &survey.log else { return self.library.predicts() };
        if survey.listening == on {
            survey.read = log.end();
            return true;
        }
        survey.listening = on;
        if !on && !survey.told {
            // What it said so far goes with the next line.
            survey.came_up = survey.speaks.then(|| Box::new(came_up(log)));
            survey.told = true;
        }
        if survey.speaks {
            log.set_listening(on);
            self.library.read_debug_again();
        }
        survey.read = 0;
        true
    }

    /// Notes what was said about a case that has just run, and what NCCL predicts for it.
    pub(super) fn note(&mut self, case: &Case, predicted_us: Option<f64>) {
        let survey = &mut self.survey;
        let mut parser = Parser::new();
        if let Some(log) = &survey.log {
            survey.read = log.lines(survey.read, |line| parser.line(line));
        }
        // One call was made; its first choice is the one.
        let choice = parser.finish().choices.into_iter().next();
        let facts = CaseFacts { algorithm: choice.map(|c| words(&c.way)), predicted_us };
        survey.known.insert(key(case), facts);
    }

    /// How NCCL came up, once it is known; each process tells once.
    pub(super) fn tell(&mut self) -> Option<Box<NcclFacts>> {
        self.survey.came_up.take()
    }
}

/// Everything that was said from the start, without the choices: those are the rows'.
fn came_up(log: &Log) -> NcclFacts {
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
