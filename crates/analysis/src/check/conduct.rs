//! The order of a check's stages, what each may take of the time, and what is measured a second time.
//! Not how a stage is run ([`Stages`] is implemented where processes are started), and not the decision (`gate`).

use busbw_core::messages::Messages;
use busbw_stats::compare::MIN_LAUNCHES;

use super::{
    baseline::{self, Said},
    collective::{self, CollectiveFigures, CollectiveLaunch, Failure},
    limit,
    pairs::{self, PairsLaunch},
    report::{Check, CheckLine, TWICE, Verdict},
    settings::{self, Survey},
    transports::{self, NamedTransport, TransportLaunch, Tried},
};
use crate::comparison::Side;

/// Launches of the collective: three medians show which one is unlike the others.
const LAUNCHES: usize = 3;
/// From this much time on pairs are measured even where the collective is as fast as it should be, and transports, too.
const AMPLE_TIME_S: f64 = 300.0;
/// The least time that a stage is begun with.
const MIN_STAGE_S: f64 = 2.0;
/// What one reading of the hosts may take, as a share of the time.
const SURVEY_SHARE: f64 = 0.4;
/// What launches of the collective beyond the second may take, as a share of the time: pairs come after them.
const COLLECTIVE_SHARE: f64 = 0.4;
/// Launches of pairs that are judged: of three, two decide.
const MAX_JUDGED: usize = 3;
/// Launches of pairs until one is judged: of a disturbed one nothing can be said.
const MAX_DISTURBED: usize = 3;
/// How much longer than the last launch the next one may take.
const MARGIN: f64 = 1.3;

/// What reads hosts and starts benchmarks. Every `limit_s` is in seconds; a stage that is not over by then ends, and says
/// that its time was over.
pub trait Stages {
    /// Seconds since the check began.
    fn elapsed_s(&self) -> f64;
    /// Whether the user ended it.
    fn is_interrupted(&self) -> bool;
    /// Reads all hosts.
    ///
    /// # Errors
    /// They cannot be read; no host is at fault.
    fn survey(&mut self, limit_s: f64) -> Result<Survey, Unable>;
    /// Whether the network and the GPUs may be loaded.
    ///
    /// # Errors
    /// Why not.
    fn may_load(&mut self, survey: Option<&Survey>) -> Result<(), String>;
    /// Launches the collective.
    fn collective(&mut self, limit_s: f64) -> CollectiveLaunch;
    /// Launches pairs: both tests, or one alone where that suffices.
    fn pairs(&mut self, only: Option<Messages>, limit_s: f64) -> PairsLaunch;
    /// The transports between the hosts that were read, each by itself; none on one host.
    fn transports(&self) -> Vec<NamedTransport>;
    /// Launches the collective over one of them.
    fn transport(&mut self, name: &str, limit_s: f64) -> TransportLaunch;
}

/// A stage could not run, and no host is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unable(
    /// Why.
    pub String,
);

/// What a check is to do.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Seconds for all of it.
    pub within_s: f64,
    /// The earlier run.
    pub baseline: Option<Side>,
    /// Percent of the limit that the collective must reach.
    pub least_percent: Option<f64>,
    /// Whether records are kept, so that a later check may take them for its baseline.
    pub keeps_records: bool,
    /// The checks to make; empty for all.
    pub only: Vec<Check>,
}

impl Asked {
    fn wants(&self, check: Check) -> bool {
        self.only.is_empty() || self.only.contains(&check)
    }
}

/// Runs all stages, and returns the lines in the order of the checks.
pub fn conduct(stages: &mut dyn Stages, asked: &Asked) -> Vec<CheckLine> {
    let mut conductor = Conductor { stages, asked, lines: Vec::new(), own: Vec::new() };
    let survey = conductor.survey();
    conductor.measure(survey.as_ref());
    let left_out = |check: &Check| !asked.only.is_empty() && !asked.only.contains(check);
    for check in Check::ALL.into_iter().filter(left_out) {
        let known = conductor.lines.iter().any(|line| line.check == check);
        let unasked = matches!(check, Check::Baseline | Check::Limit | Check::Transports);
        if !known && !unasked {
            conductor.lines.push(CheckLine::new(check, Verdict::Waived, "left out by --only"));
        }
    }
    let mut lines = conductor.lines;
    lines.sort_by_key(|line| line.check);
    lines
}

struct Conductor<'a> {
    stages: &'a mut dyn Stages,
    asked: &'a Asked,
    lines: Vec<CheckLine>,
    /// The first launches of the collective, over whatever NCCL chooses.
    own: Vec<CollectiveLaunch>,
}

impl Conductor<'_> {
    fn left_s(&self) -> f64 {
        self.asked.within_s - self.stages.elapsed_s()
    }

    /// Whether a stage that may take as long as `last_s` can begin.
    fn has_time(&self, last_s: f64) -> bool {
        !self.stages.is_interrupted() && self.left_s() >= (MARGIN * last_s).max(MIN_STAGE_S)
    }

    fn say(&mut self, check: Check, verdict: Verdict, text: impl Into<String>) {
        self.lines.push(CheckLine::new(check, verdict, text));
    }

    /// Reads the hosts; what is wrong with one is read again.
    fn survey(&mut self) -> Option<Survey> {
        let wanted = [Check::Doctor, Check::Settings].map(|check| self.asked.wants(check));
        if wanted == [false, false] && !self.asked.only.contains(&Check::Transports) {
            return None;
        }
        let begun = self.stages.elapsed_s();
        let limit_s = (SURVEY_SHARE * self.asked.within_s).min(self.left_s());
        let first = match self.stages.survey(limit_s) {
            Ok(survey) => survey,
            Err(Unable(why)) => {
                for (check, wanted) in [Check::Doctor, Check::Settings].into_iter().zip(wanted) {
                    if wanted {
                        self.say(check, Verdict::CannotTell, why.clone());
                    }
                }
                return None;
            }
        };
        let took_s = self.stages.elapsed_s() - begun;
        let again = settings::has_faults(&first) && self.has_time(took_s);
        let second = again.then(|| self.stages.survey(limit_s.min(self.left_s())));
        let second = second.and_then(Result::ok);
        let mut lines = settings::lines(&first, second.as_ref());
        lines.retain(|line| self.asked.wants(line.check));
        if let Some(line) = lines.first_mut() {
            line.took_s = self.stages.elapsed_s() - begun;
        }
        self.lines.extend(lines);
        Some(first)
    }

    /// The stages that load the network.
    fn measure(&mut self, survey: Option<&Survey>) {
        let loads =
            [Check::Collective, Check::Limit, Check::Baseline, Check::Pairs, Check::Transports];
        if !loads.into_iter().any(|check| self.asked.wants(check)) {
            return;
        }
        if let Err(why) = self.stages.may_load(survey) {
            for check in [Check::Collective, Check::Pairs, Check::Transports] {
                // On one host there are none, unless they are asked for.
                let none = check == Check::Transports && self.stages.transports().is_empty();
                if self.asked.wants(check) && !none {
                    self.say(check, Verdict::CannotTell, why.clone());
                }
            }
            return;
        }
        let needs_pairs = match self.asked.only.as_slice() {
            [Check::Pairs] => Some("it is asked for"),
            _ => self.collective(),
        };
        if self.asked.wants(Check::Pairs) {
            self.pairs(needs_pairs);
        }
        if self.asked.wants(Check::Transports) {
            self.transports();
        }
    }

    /// Measures the collective and holds it against its limit and the baseline. Returns why pairs are needed.
    fn collective(&mut self) -> Option<&'static str> {
        let compared = self.asked.baseline.is_some() || self.asked.keeps_records;
        let wanted = if compared { MIN_LAUNCHES } else { LAUNCHES };
        let launches = self.launches(wanted);
        self.lines.push(collective::line(&launches));
        self.own.clone_from(&launches);
        let figures = completed(&launches);
        if figures.is_empty() {
            return Some("no collective completed");
        }
        let mut known = false;
        let mut slow = false;
        if let Some(mut line) = limit::line(&figures, self.asked.least_percent) {
            if line.blocks() {
                // As many launches once more: one disturbance of the cluster may last for some seconds.
                let begun = self.stages.elapsed_s();
                let again = self.launches(launches.len());
                let all: Vec<&CollectiveFigures> =
                    figures.iter().copied().chain(completed(&again)).collect();
                line = limit::line(&all, self.asked.least_percent).unwrap_or(line);
                line.took_s = self.stages.elapsed_s() - begun;
            }
            known |= self.asked.least_percent.is_some() && line.verdict == Verdict::Pass;
            slow |= line.measured > 0;
            self.lines.push(line);
        }
        if let Some(baseline) = &self.asked.baseline {
            let begun = self.stages.elapsed_s();
            let again = match baseline::compared(baseline, &figures).0 {
                Said::Slower => self.launches(MIN_LAUNCHES),
                _ => Vec::new(),
            };
            let mut line = baseline::line(baseline, &figures, &completed(&again));
            line.took_s = self.stages.elapsed_s() - begun;
            known |= line.verdict == Verdict::Pass;
            slow |= line.measured > 0;
            self.lines.push(line);
        }
        match (slow, known) {
            (true, _) => Some("the collective is slow"),
            (false, false) => Some("nothing tells how fast the collective should be"),
            (false, true) => None,
        }
    }

    /// Launches the collective up to `wanted` times, as long as there is time.
    fn launches(&mut self, wanted: usize) -> Vec<CollectiveLaunch> {
        let begun = self.stages.elapsed_s();
        let mut launches: Vec<CollectiveLaunch> = Vec::new();
        let (mut lost, mut failed) = (0, 0);
        while launches.len() < wanted + lost {
            let last_s = launches.last().map_or(0.0, |launch| launch.took_s);
            let spent_s = self.stages.elapsed_s() - begun + last_s;
            let enough = launches.len() >= 2
                && wanted == LAUNCHES
                && spent_s > COLLECTIVE_SHARE * self.asked.within_s;
            if !self.has_time(last_s) || enough || lost >= 2 || failed >= TWICE {
                break;
            }
            let launch = self.stages.collective(self.left_s());
            match launch.outcome {
                Ok(_) => {}
                Err(Failure::Tool(_)) => lost += 1,
                Err(Failure::Job { .. }) => failed += 1,
            }
            launches.push(launch);
        }
        launches
    }

    /// Measures pairs, once more where somebody is named, and a third time where those two disagree.
    fn pairs(&mut self, why: Option<&'static str>) {
        if why.is_none() && self.asked.within_s < AMPLE_TIME_S {
            let text = format!(
                "not needed: the collective is as fast as it should be; --within {:.0}m measures pairs always",
                AMPLE_TIME_S / 60.0
            );
            return self.say(Check::Pairs, Verdict::Waived, text);
        }
        if !self.has_time(0.0) {
            return self.say(Check::Pairs, Verdict::CannotTell, "there was no time left for pairs");
        }
        let (first, mut last_s) = self.judged_pairs(None);
        let only = first.only_suspect();
        let mut launches = vec![first];
        // Without a margin: a launch that is cut off tells no less than none.
        while launches.len() < MAX_JUDGED
            && pairs::is_open(&launches)
            && self.has_time(last_s / MARGIN)
        {
            let (launch, took_s) = self.judged_pairs(only);
            last_s = took_s;
            launches.push(launch);
        }
        self.lines.extend(pairs::lines(&launches));
    }

    /// Launches pairs until a launch is judged: what disturbs one may be over in the next. Returns the last launch, with the
    /// seconds of all, and its own seconds.
    fn judged_pairs(&mut self, only: Option<Messages>) -> (PairsLaunch, f64) {
        let mut launch = self.stages.pairs(only, self.left_s());
        let (mut last_s, mut spent_s) = (launch.took_s, 0.0);
        for _ in 1..MAX_DISTURBED {
            if !launch.is_disturbed() || !self.has_time(last_s / MARGIN) {
                break;
            }
            spent_s += last_s;
            launch = self.stages.pairs(only, self.left_s());
            last_s = launch.took_s;
        }
        launch.took_s += spent_s;
        (launch, last_s)
    }

    /// Measures the collective over each network between hosts, and once more over those that a fault rests on.
    fn transports(&mut self) {
        let named = self.stages.transports();
        let is_asked = !self.asked.only.is_empty();
        if named.is_empty() {
            if is_asked {
                let text = "one host: there is no network between hosts";
                self.say(Check::Transports, Verdict::Waived, text);
            }
            return;
        }
        if !is_asked && self.asked.within_s < AMPLE_TIME_S {
            let text = format!(
                "--within {:.0}m or --only transports measures each network; `busbw transports` measures several sizes",
                AMPLE_TIME_S / 60.0
            );
            return self.say(Check::Transports, Verdict::Waived, text);
        }
        let mut tried: Vec<Tried> =
            named.into_iter().map(|transport| Tried { transport, launches: Vec::new() }).collect();
        let all = 0..tried.len();
        self.over(&mut tried, all.collect());
        let own = self.own.clone();
        if let Some(fault) = transports::fault(&completed(&own), &tried) {
            self.over(&mut tried, fault.places());
        }
        let line = transports::line(&completed(&own), &tried);
        self.lines.push(line);
    }

    /// Launches the collective over each of these transports, as long as there is time.
    fn over(&mut self, tried: &mut [Tried], places: Vec<usize>) {
        let mut last_s = self.own.last().map_or(0.0, |launch| launch.took_s);
        for place in places {
            let of = &mut tried[place];
            if of.transport.waived.is_some() || !self.has_time(last_s) {
                continue;
            }
            let launch = self.stages.transport(&of.transport.name, self.left_s());
            last_s = last_s.max(launch.took_s);
            of.launches.push(launch);
        }
    }
}

fn completed(launches: &[CollectiveLaunch]) -> Vec<&CollectiveFigures> {
    launches.iter().filter_map(|launch| launch.outcome.as_ref().ok()).collect()
}
