//! When waiting for pods cannot help any more, and the sentence for it.
//! Not how pods are followed (`watch`).

use std::time::{Duration, Instant};

use busbw_core::exit::Exit;
use serde_json::Value;

use super::{
    capacity,
    pod::{Pod, State, UNDECIDED, short_resources, warning},
    watch::{Looks, Watch},
};

/// How long a Job may have no pods before its events are read.
const NO_PODS: Duration = Duration::from_secs(3);
/// How long an image may fail to be pulled: registries have moments, too.
const PULL_LIMIT: Duration = Duration::from_secs(45);
/// How long a pod may make its container before its events are read.
const SLOW_START: Duration = Duration::from_secs(20);
/// How long the last lines of a first pod that is gone may take to be read.
const LAST_LINES: Duration = Duration::from_secs(4);
/// How often events are read.
const EVENTS_INTERVAL: Duration = Duration::from_secs(5);

impl Watch {
    /// Whether waiting cannot help any more.
    pub(super) fn judge(&self, looks: &mut Looks, pods: &[Pod], job: Option<&Value>) {
        let waited = looks.begun.elapsed();
        if let Some(job) = job {
            // While pods still end the condition has another name.
            let failed = condition(job, "Failed").or_else(|| condition(job, "FailureTarget"));
            let Some(failed) = failed else {
                return self.judge_start(looks, pods, Some(job), waited);
            };
            if failed["reason"] == "DeadlineExceeded" {
                let deadline = self.pods.deadline.as_secs();
                let text = format!(
                    "the cluster has ended job {} at its deadline of {deadline} s: --deadline gives it longer",
                    self.name
                );
                return self.lose(Exit::Timeout, text);
            }
            // The log of a first pod tells how its run ended.
            let is_gone = !self.has_first()
                && looks.first_gone.get_or_insert_with(Instant::now).elapsed() >= LAST_LINES;
            if is_gone {
                let message = failed["message"].as_str().unwrap_or("no reason is given");
                let known = self.known().first_loss.clone();
                let text =
                    known.unwrap_or_else(|| format!("job {} has failed: {message}", self.name));
                self.lose(Exit::RankLost, text);
            }
        } else if self.is_mpi {
            self.judge_start(looks, pods, None, waited);
        } else if waited > NO_PODS {
            self.lose(Exit::RankLost, format!("job {} was deleted by somebody else", self.name));
        }
    }

    /// The same until all pods ran at once.
    fn judge_start(&self, looks: &mut Looks, pods: &[Pod], job: Option<&Value>, waited: Duration) {
        if looks.all_ran {
            return;
        }
        let lacks_some = pods.len() < self.expected() && !self.is_mpi;
        if lacks_some && waited > NO_PODS && self.cannot_be_made(looks) {
            return;
        }
        for pod in pods {
            let State::Waits { why, is_final } = &pod.state else { continue };
            let since = looks.since.get(&pod.name);
            let waits = since.map_or(Duration::ZERO, |(_, since)| since.elapsed());
            if *is_final || (why.starts_with("cannot pull") && waits >= PULL_LIMIT) {
                return self.lose(Exit::Impossible, format!("{}: {why}", pod.label()));
            }
            let patience = match why.as_str() {
                UNDECIDED => NO_PODS,
                _ => SLOW_START,
            };
            let may_have_events = why == UNDECIDED || why.starts_with("makes its container");
            if may_have_events && waits >= patience {
                self.say_events(looks, pod);
            }
        }
        if waited >= self.pods.wait {
            let text = self.never_all(looks, pods, job, waited);
            self.lose(Exit::Impossible, text);
        }
    }

    /// The events of a Job without pods tell why there are none. True if that ends the run.
    fn cannot_be_made(&self, looks: &mut Looks) -> bool {
        let name = self.name.clone();
        let Some(text) = self.events(looks, &name, "FailedCreate") else { return false };
        let failed = self.kubectl.meaning(&["get", "events"], &text);
        self.lose(Exit::Impossible, format!("no pod can be made: {failed}"));
        true
    }

    /// What the node says about a pod that does not start.
    fn say_events(&self, looks: &mut Looks, pod: &Pod) {
        let Some(text) = self.events(looks, &pod.name, "") else { return };
        let line = format!("{}: {}", pod.label(), warning(&text));
        if looks.lines.insert(events_of(pod), line.clone()).as_ref() != Some(&line) {
            self.say(line);
        }
    }

    /// The last warning about an object.
    fn events(&self, looks: &mut Looks, object: &str, reason: &str) -> Option<String> {
        if looks.events.is_some_and(|last| last.elapsed() < EVENTS_INTERVAL) {
            return None;
        }
        looks.events = Some(Instant::now());
        let reason = if reason.is_empty() { String::new() } else { format!(",reason={reason}") };
        let selector =
            format!("--field-selector=type=Warning,involvedObject.name={object}{reason}");
        // Without them the state of the pods has to do.
        let events = self.kubectl.json(&["get", "events", &selector, "-o", "json"], "").ok()?;
        let items = events["items"].as_array()?;
        items.iter().rev().find_map(|event| event["message"].as_str().map(str::to_owned))
    }

    /// The time for pods to start is over.
    fn never_all(
        &self,
        looks: &Looks,
        pods: &[Pod],
        job: Option<&Value>,
        waited: Duration,
    ) -> String {
        let waited = waited.as_secs();
        let is_suspended = job.and_then(|job| condition(job, "Suspended")).is_some();
        if is_suspended && pods.is_empty() {
            return format!(
                "job {} is suspended after {waited} s: Kueue or another queue has not admitted it (`kubectl get workloads`); --wait gives it longer",
                self.name
            );
        }
        if self.is_mpi && pods.is_empty() {
            return format!(
                "no pod was made for MPIJob {} in {waited} s: mpi-operator does not run, or not for this namespace (`kubectl describe mpijob {}` while it is there; its own log); --kind job needs no operator",
                self.name, self.name
            );
        }
        let waits = |pod: &&Pod| matches!(pod.state, State::Waits { .. });
        let waiting: Vec<&Pod> = pods.iter().filter(waits).collect();
        let event = |pod: &&Pod| looks.lines.get(&events_of(pod)).cloned();
        let why = waiting
            .first()
            .map_or("no pod was made".to_owned(), |pod| event(pod).unwrap_or_else(|| pod.line()));
        let short = short_resources(&why);
        // Memory and processors have words of their own: how much of them is free says more than how much there is.
        let short = short.iter().filter(|name| name.contains('/'));
        let offered = short.filter_map(|name| capacity::offered(&self.kubectl, &self.pods, name));
        let offered: String = offered.map(|text| format!("; {text}")).collect();
        let running = pods.len() - waiting.len();
        let held = match u64::from(self.gpus) * running as u64 {
            0 => String::new(),
            gpus => format!(" and hold {gpus} GPUs"),
        };
        format!(
            "{running} of {} pods run{held} after {waited} s, which is not enough for a run: {why}{offered}; --wait gives them longer",
            self.expected()
        )
    }
}

/// The key of a pod's last event among its lines.
fn events_of(pod: &Pod) -> String {
    format!("{} events", pod.name)
}

/// A condition of an object that holds.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
}
