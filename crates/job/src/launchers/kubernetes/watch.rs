//! Follows a run's pods: a thread that asks the API server, tells the first pod's address to all, says what changes, and
//! decides when waiting cannot help.
//! Not the output of the first pod (`output`), and not the end of the run (`running`).

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use busbw_core::exit::Exit;
use serde_json::Value;

use super::{
    asked::Pods,
    kubectl::{Cause, Failed, Kubectl},
    manifest::{COORDINATOR, INSTANCE},
    pod::{Pod, State},
};
use crate::launchers::Loss;

/// How often pods are looked at until all run, and after that.
const LOOKS: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(2)];
/// How long the API server may be silent before the run is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// How long the API server may refuse before the run is given up: a look may meet a restart of it.
const REFUSALS: Duration = Duration::from_secs(6);
/// How long a Job may have no pods before its events are read.
const NO_PODS: Duration = Duration::from_secs(3);
/// How long an image may fail to be pulled: registries have moments, too.
const PULL_LIMIT: Duration = Duration::from_secs(45);
/// How long a pod may make its container before its events are read.
const SLOW_START: Duration = Duration::from_secs(20);

/// What is known of the run's pods.
#[derive(Debug)]
pub(super) struct Known {
    /// The pods, by index.
    pub(super) pods: Vec<Pod>,
    /// Lines that nobody has printed yet.
    pub(super) news: Vec<String>,
    /// Why the run is over, if that is known here.
    pub(super) loss: Option<Loss>,
    /// When the API server answered last.
    pub(super) answered: Instant,
    /// Whether the thread is to end.
    pub(super) is_over: bool,
    /// Whether the objects were deleted from here: pods that go are no news then.
    pub(super) is_deleted: bool,
    /// What ended a pod from outside, first of all.
    pub(super) first_loss: Option<String>,
}

/// The thread's and everybody's view of a run.
#[derive(Debug)]
pub(super) struct Watch {
    /// The run's name.
    pub(super) name: String,
    /// How it is asked.
    pub(super) kubectl: Kubectl,
    /// What was asked.
    pub(super) pods: Pods,
    /// GPUs of a pod.
    pub(super) gpus: u32,
    /// Whether the pods are an MPIJob's.
    pub(super) is_mpi: bool,
    known: Mutex<Known>,
    changed: Condvar,
}

/// What the thread remembers from look to look.
struct Looks {
    begun: Instant,
    /// The last line of each pod.
    lines: BTreeMap<String, String>,
    /// Since when a pod has waited for the same thing.
    since: BTreeMap<String, (String, Instant)>,
    /// Pods that were told the coordinator's address.
    told: Vec<String>,
    /// Since when the API server refuses.
    refused: Option<Instant>,
    /// Whether all pods ran at once.
    all_ran: bool,
    /// Whether a silence was said.
    is_silent: bool,
}

impl Watch {
    /// Of a run that is being made.
    pub(super) fn new(
        name: String,
        kubectl: Kubectl,
        pods: Pods,
        gpus: u32,
        is_mpi: bool,
    ) -> Watch {
        let known = Known {
            pods: Vec::new(),
            news: Vec::new(),
            loss: None,
            answered: Instant::now(),
            is_over: false,
            is_deleted: false,
            first_loss: None,
        };
        let (known, changed) = (Mutex::new(known), Condvar::new());
        Watch { name, kubectl, pods, gpus, is_mpi, known, changed }
    }

    /// What is known now.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod whose log is the record: the first one, or an MPIJob's launcher.
    pub(super) fn first<'a>(&self, known: &'a Known) -> Option<&'a Pod> {
        let is_first = |pod: &&Pod| {
            if self.is_mpi { pod.name.contains("-launcher-") } else { pod.index == Some(0) }
        };
        known.pods.iter().find(is_first)
    }

    /// Waits for the next change, at most `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let known = self.known();
        drop(self.changed.wait_timeout(known, limit).unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.known().is_over = true;
        self.changed.notify_all();
    }

    /// Starts the thread.
    pub(super) fn start(watch: &Arc<Watch>) -> std::io::Result<()> {
        let watch = Arc::clone(watch);
        std::thread::Builder::new().name("pods".to_owned()).spawn(move || watch.follow()).map(drop)
    }

    fn follow(&self) {
        let mut looks = Looks {
            begun: Instant::now(),
            lines: BTreeMap::new(),
            since: BTreeMap::new(),
            told: Vec::new(),
            refused: None,
            all_ran: false,
            is_silent: false,
        };
        while !self.known().is_over {
            self.look(&mut looks);
            self.changed.notify_all();
            let known = self.known();
            if !known.is_over {
                let pause = LOOKS[usize::from(looks.all_ran)];
                drop(
                    self.changed.wait_timeout(known, pause).unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    fn look(&self, looks: &mut Looks) {
        let selector = format!("--selector={INSTANCE}={}", self.name);
        let kinds = if self.is_mpi { "pods" } else { "jobs.batch,pods" };
        match self.kubectl.within(
            &["get", kinds, &selector, "-o", "json"],
            "",
            Duration::from_secs(5),
        ) {
            Ok(text) => match serde_json::from_str::<Value>(&text) {
                Ok(objects) => self.take(looks, &objects),
                Err(why) => self.lose(Exit::Library, format!("kubectl printed no JSON: {why}")),
            },
            Err(failed) => self.no_answer(looks, &failed),
        }
    }

    /// The API server does not answer, or refuses.
    fn no_answer(&self, looks: &mut Looks, failed: &Failed) {
        let silence = self.known().answered.elapsed();
        let deadline = format!(
            "the pods of job {} go on until their deadline, {} s after their start",
            self.name,
            self.pods.deadline.as_secs()
        );
        if failed.cause == Cause::Silent {
            if !std::mem::replace(&mut looks.is_silent, true) {
                self.say(format!(
                    "the API server does not answer; waiting up to {} s ({failed})",
                    SILENCE.as_secs()
                ));
            }
            if silence >= SILENCE {
                self.lose(
                    Exit::Timeout,
                    format!(
                        "the API server has not answered for {} s: {failed}; {deadline}",
                        silence.as_secs()
                    ),
                );
            }
            return;
        }
        let since = *looks.refused.get_or_insert_with(Instant::now);
        if since.elapsed() >= REFUSALS {
            let exit = if failed.cause == Cause::Other { Exit::Library } else { Exit::Impossible };
            self.lose(exit, format!("the pods cannot be followed any more: {failed}; {deadline}"));
        }
    }

    fn take(&self, looks: &mut Looks, objects: &Value) {
        (looks.refused, looks.is_silent) = (None, false);
        let items = objects["items"].as_array().map_or(&[][..], Vec::as_slice);
        let of_kind =
            |kind: &str| items.iter().filter(move |item| item["kind"] == kind).collect::<Vec<_>>();
        let mut pods: Vec<Pod> = of_kind("Pod").into_iter().map(Pod::of).collect();
        pods.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
        self.say_changes(looks, &pods);
        self.tell_address(looks, &pods);
        let job = of_kind("Job").first().copied().cloned();
        let is_deleted = {
            let mut known = self.known();
            known.answered = Instant::now();
            if known.first_loss.is_none() {
                known.first_loss = pods.iter().find_map(Pod::loss);
            }
            // A pod that is gone keeps its last state.
            known
                .pods
                .retain(|old| !pods.iter().any(|new| new.name == old.name) && old.has_ended());
            known.pods.extend(pods.iter().cloned());
            known.is_deleted
        };
        looks.all_ran |= pods.len() >= self.pods.nodes as usize
            && pods.iter().all(|pod| !matches!(pod.state, State::Waits { .. }));
        if !is_deleted {
            self.judge(looks, &pods, job.as_ref());
        }
    }

    /// A line for each pod that does something else than before.
    fn say_changes(&self, looks: &mut Looks, pods: &[Pod]) {
        for pod in pods {
            let line = pod.line();
            let old = looks.lines.insert(pod.name.clone(), line.clone());
            let is_new = old.as_ref() != Some(&line);
            // The end of a run is no news, but what ended a pod from outside is.
            let is_end = pod.has_ended() && pod.loss().is_none();
            if is_new && !is_end {
                self.say(line);
            }
            let State::Waits { why, .. } = &pod.state else {
                looks.since.remove(&pod.name);
                continue;
            };
            let entry = looks.since.entry(pod.name.clone());
            let since = entry.or_insert_with(|| (why.clone(), Instant::now()));
            // ErrImagePull and ImagePullBackOff take turns.
            if since.0.get(..12) != why.get(..12) {
                *since = (why.clone(), Instant::now());
            }
        }
    }

    /// The first pod's address goes to all of them as an annotation: a cluster need not have DNS.
    fn tell_address(&self, looks: &mut Looks, pods: &[Pod]) {
        if self.is_mpi {
            return;
        }
        let first = pods.iter().find(|pod| pod.index == Some(0));
        let Some(address) = first.and_then(|pod| pod.address.as_ref()) else { return };
        let untold = pods.iter().any(|pod| !pod.has_ended() && !looks.told.contains(&pod.name));
        if !untold {
            return;
        }
        let (selector, value) =
            (format!("--selector={INSTANCE}={}", self.name), format!("{COORDINATOR}={address}"));
        // Where that fails names may do; if not, the rendezvous says so.
        if self.kubectl.run(&["annotate", "pods", &selector, &value, "--overwrite"], "").is_ok() {
            looks.told = pods.iter().map(|pod| pod.name.clone()).collect();
        }
    }

    /// Whether waiting cannot help any more.
    fn judge(&self, looks: &mut Looks, pods: &[Pod], job: Option<&Value>) {
        if let Some(job) = job {
            let failed = condition(job, "Failed");
            if failed.is_some_and(|failed| failed["reason"] == "DeadlineExceeded") {
                let text = format!(
                    "the cluster has ended job {} at its deadline of {} s: --deadline",
                    self.name,
                    self.pods.deadline.as_secs()
                );
                return self.lose(Exit::Timeout, text);
            }
        } else if !self.is_mpi && looks.begun.elapsed() > NO_PODS {
            return self
                .lose(Exit::RankLost, format!("job {} was deleted by somebody else", self.name));
        }
        if looks.all_ran {
            return;
        }
        if pods.is_empty() && looks.begun.elapsed() > NO_PODS && self.cannot_be_made() {
            return;
        }
        for pod in pods {
            let State::Waits { why, is_final } = &pod.state else { continue };
            let waited =
                looks.since.get(&pod.name).map_or(Duration::ZERO, |(_, since)| since.elapsed());
            let is_pulling = why.starts_with("cannot pull");
            if *is_final || (is_pulling && waited >= PULL_LIMIT) {
                return self.lose(Exit::Impossible, format!("pod {} {why}", pod.name));
            }
            if why.starts_with("makes its container") && waited >= SLOW_START {
                self.say_events(looks, pod);
            }
        }
        let waited = looks.begun.elapsed();
        if waited >= self.pods.wait {
            self.lose(Exit::Impossible, self.never_all(pods, job, waited));
        }
    }

    /// The events of a Job without pods tell why there are none. True if that ends the run.
    fn cannot_be_made(&self) -> bool {
        let Some(text) = self.events(&self.name, "FailedCreate").pop() else { return false };
        let failed = self.kubectl.meaning(&["get", "events"], &text);
        self.lose(Exit::Impossible, format!("no pod can be made: {failed}"));
        true
    }

    /// What the node says about a pod that does not start.
    fn say_events(&self, looks: &mut Looks, pod: &Pod) {
        let Some(text) = self.events(&pod.name, "").pop() else { return };
        let line = format!("{}: {text}", pod.label());
        let key = format!("{} events", pod.name);
        if looks.lines.insert(key, line.clone()).as_ref() != Some(&line) {
            self.say(line);
        }
    }

    /// Messages of an object's warnings, oldest first.
    fn events(&self, object: &str, reason: &str) -> Vec<String> {
        let mut selector = format!("--field-selector=type=Warning,involvedObject.name={object}");
        if !reason.is_empty() {
            selector.push_str(&format!(",reason={reason}"));
        }
        let words = ["get", "events", &selector, "-o", "json"];
        // Without them the state of the pods has to do.
        let Ok(events) = self.kubectl.json(&words, "") else { return Vec::new() };
        let items = events["items"].as_array().into_iter().flatten();
        items.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
    }

    /// The time for pods to start is over.
    fn never_all(&self, pods: &[Pod], job: Option<&Value>, waited: Duration) -> String {
        let waited = waited.as_secs();
        let is_suspended = job.and_then(|job| condition(job, "Suspended")).is_some();
        if is_suspended && pods.is_empty() {
            return format!(
                "job {} is suspended after {waited} s: Kueue or another queue has not admitted it (`kubectl get workloads`); --wait gives it longer",
                self.name
            );
        }
        let waits = |pod: &&Pod| matches!(pod.state, State::Waits { .. });
        let waiting: Vec<&Pod> = pods.iter().filter(waits).collect();
        let why = waiting.first().map_or("no pod was made".to_owned(), |pod| pod.line());
        let held = u64::from(self.gpus) * (pods.len() - waiting.len()) as u64;
        let held = match held {
            0 => String::new(),
            gpus => format!(" and hold {gpus} GPUs"),
        };
        format!(
            "{} of {} pods run{held} after {waited} s, which is not enough for a run: {why}; --wait gives them longer",
            pods.len() - waiting.len(),
            self.pods.nodes
        )
    }

    fn say(&self, line: String) {
        self.known().news.push(line);
    }

    fn lose(&self, exit: Exit, text: String) {
        self.known().loss.get_or_insert(Loss { text, exit, may_be_stopped: false });
    }
}

/// A condition of an object that holds.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
}
