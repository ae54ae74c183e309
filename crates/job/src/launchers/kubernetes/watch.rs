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
    judge::condition,
    kubectl::{Cause, Failed, Kubectl},
    manifest::{COORDINATOR, INSTANCE},
    pod::{Pod, State},
    same_nodes,
};
use crate::launchers::Loss;

/// How often pods are looked at until all run, and after that.
const LOOKS: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(2)];
/// How long the API server may be silent before the run is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// Pods that are told the address with one command, which asks the API server for each.
const AT_ONCE: usize = 64;
/// How long the API server may refuse before the run is given up: a look may meet a restart of it.
const REFUSALS: Duration = Duration::from_secs(6);

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
    /// When it was asked last, and answered, what the pods do.
    pub(super) looked: Instant,
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
pub(super) struct Looks {
    /// When the first look was.
    pub(super) begun: Instant,
    /// The last line of each pod.
    pub(super) lines: BTreeMap<String, String>,
    /// Since when a pod has waited for the same thing.
    pub(super) since: BTreeMap<String, (String, Instant)>,
    /// Pods that were told the coordinator's address.
    told: Vec<String>,
    /// Since when the API server refuses.
    refused: Option<Instant>,
    /// Whether all pods ran at once.
    pub(super) all_ran: bool,
    /// Since when the first pod of a failed Job is gone.
    pub(super) first_gone: Option<Instant>,
    /// When events were read last.
    pub(super) events: Option<Instant>,
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
            looked: Instant::now(),
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

    /// Whether the pod is there whose log is the record.
    pub(super) fn has_first(&self) -> bool {
        self.first(&self.known()).is_some_and(|pod| !pod.is_gone)
    }

    /// Pods of the run: an MPIJob has one for mpirun.
    pub(super) fn expected(&self) -> usize {
        self.pods.nodes as usize + usize::from(self.is_mpi)
    }

    /// Waits until the API server was asked once more, at most `limit`.
    pub(super) fn ask_again(&self, limit: Duration) {
        let begun = Instant::now();
        self.changed.notify_all();
        while begun.elapsed() < limit && self.known().looked < begun && self.known().loss.is_none()
        {
            self.wait(Duration::from_millis(100));
        }
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
            first_gone: None,
            events: None,
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
        if since.elapsed() >= REFUSALS && silence >= REFUSALS {
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
            known.looked = known.answered;
            if known.first_loss.is_none() && !known.is_deleted {
                let is_gone = |old: &&Pod| !pods.iter().any(|new| new.name == old.name);
                // Once one has ended the Job deletes the others.
                let is_over = job.as_ref().is_none_or(|job| {
                    let is_set = |kind: &&str| condition(job, kind).is_some();
                    ["Failed", "FailureTarget", "Complete"].iter().any(is_set)
                        || !job["metadata"]["deletionTimestamp"].is_null()
                });
                let is_first = !is_over && !pods.iter().chain(&known.pods).any(Pod::has_ended);
                let gone = known.pods.iter().find(|old| is_first && is_gone(old));
                let gone = gone.map(|pod| {
                    format!("{} ({}) was deleted by somebody else", pod.label(), pod.name)
                });
                known.first_loss = pods.iter().find_map(Pod::loss).or(gone);
            }
            let old = std::mem::take(&mut known.pods).into_iter();
            let gone = old.filter(|old| !pods.iter().any(|new| new.name == old.name));
            known.pods = pods.iter().cloned().chain(gone.map(Pod::gone)).collect();
            known.is_deleted
        };
        let ran = looks.all_ran;
        looks.all_ran |= pods.len() >= self.expected()
            && pods.iter().all(|pod| !matches!(pod.state, State::Waits { .. }));
        if looks.all_ran && !ran {
            same_nodes::keep(&pods);
        }
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
        let untold = pods.iter().filter(|pod| !pod.has_ended() && !looks.told.contains(&pod.name));
        let untold: Vec<String> = untold.map(|pod| pod.name.clone()).take(AT_ONCE).collect();
        if untold.is_empty() {
            return;
        }
        let value = format!("{COORDINATOR}={address}");
        let names = untold.iter().map(String::as_str);
        let words =
            ["annotate", "--overwrite", "pods"].into_iter().chain(names).chain([value.as_str()]);
        let words: Vec<&str> = words.collect();
        // Where that fails names may do; if not, the rendezvous says so.
        if self.kubectl.run(&words, "").is_ok() {
            looks.told.extend(untold);
        }
    }

    pub(super) fn say(&self, line: String) {
        self.known().news.push(line);
    }

    pub(super) fn lose(&self, exit: Exit, text: String) {
        self.known().loss.get_or_insert(Loss { text, exit, may_be_stopped: false });
    }
}
