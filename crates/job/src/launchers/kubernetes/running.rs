//! A run in the cluster from its first object to the last: followed, interrupted, ended, deleted.
//! Not how it is followed (`watch`, `output`).

use std::{
    collections::BTreeSet,
    io::{PipeReader, Read},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use serde_json::Value;

use super::{
    kubectl::{Cause, Failed, Kubectl},
    manifest::INSTANCE,
    output::{self, Follower},
    pod::{Pod, State},
    watch::Watch,
};
use crate::launchers::{Carrier, JobEnd, Loss, RunningJob};

/// How long the pods may take to end once the first one's log has.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a pod's end may take beyond that of a process: its own grace, and the node's and the API server's work.
const GRACE: Duration = Duration::from_secs(25);
/// How long the API server may take to answer once more, after the first one's log has ended.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// How long deleted pods may take to go: their grace, and the node's and the API server's work.
const DELETE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// A run.
pub(super) struct Run {
    watch: Arc<Watch>,
    /// Whether everything was deleted, or is kept.
    is_ended: bool,
    /// Kind and name of the object that owns all others.
    object: String,
    stdout: Option<PipeReader>,
    follower: Follower,
    is_abandoned: bool,
}

impl Run {
    /// Follows the pods of a run whose objects are made, all owned by `object`.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn follow(watch: Watch, object: String) -> Result<Run> {
        let watch = Arc::new(watch);
        Watch::start(&watch).context("cannot start a thread that follows the pods")?;
        let (stdout, follower) =
            output::follow(&watch).context("cannot follow the log of the first pod")?;
        Ok(Run {
            watch,
            object,
            stdout: Some(stdout),
            follower,
            is_abandoned: false,
            is_ended: false,
        })
    }

    /// Waits until all pods have ended, or `limit`.
    fn wait(&self, limit: Duration) {
        let by = Instant::now() + limit;
        loop {
            let known = self.watch.known();
            let all = known.pods.iter().all(Pod::has_ended);
            if all || known.loss.is_some() || Instant::now() >= by {
                return;
            }
            drop(known);
            self.watch.wait(LOOK);
        }
    }

    /// The command that deletes everything.
    fn by_hand(&self) -> String {
        self.watch.kubectl.shown(&["delete", &self.object])
    }

    /// Deletes everything and waits until the pods are gone; what may be left otherwise.
    fn delete(&self) -> Option<String> {
        self.watch.known().is_deleted = true;
        let kubectl = &self.watch.kubectl;
        let left = |why: String| {
            let name = &self.watch.name;
            let after = self.watch.pods.deadline.as_secs();
            let then = match self.watch.is_mpi {
                true => "the MPIJob itself stays".to_owned(),
                false => {
                    format!("what is left then goes {} s later", self.watch.pods.ttl.as_secs())
                }
            };
            Some(format!(
                "job {name} is left in the cluster ({why}): its deadline ends it {after} s after its start, and {then}; by hand: {}",
                self.by_hand()
            ))
        };
        if let Err(failed) = delete(kubectl, &self.object) {
            return left(failed.text);
        }
        let selector = format!("--selector={INSTANCE}={}", self.watch.name);
        if self.is_abandoned {
            // Nobody waits for their last words. A short grace, not none: a pod that is forgotten may still run. What
            // fails here the deletion of the job does, later.
            let words = [
                "delete",
                "pods",
                &selector,
                "--ignore-not-found",
                "--wait=false",
                "--grace-period=1",
            ];
            let _ = kubectl.run(&words, "");
        }
        let by = Instant::now() + DELETE_TIMEOUT;
        loop {
            let answer = kubectl.json(&["get", "pods", &selector, "-o", "json"], "");
            let count = |list: &Value| list["items"].as_array().map_or(0, Vec::len);
            match answer {
                Ok(list) if count(&list) == 0 => return None,
                Ok(list) if Instant::now() >= by => {
                    let stay = count(&list);
                    return left(format!(
                        "{stay} of its pods do not end on {}: a node that is lost looks like that (`kubectl get nodes`)",
                        nodes(&list)
                    ));
                }
                Err(failed) if failed.cause != Cause::Silent || Instant::now() >= by => {
                    return left(failed.text);
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }
}

/// The nodes of pods, for people.
fn nodes(pods: &Value) -> String {
    let items = pods["items"].as_array().map_or(&[][..], Vec::as_slice);
    let names: BTreeSet<&str> =
        items.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    match names.len() {
        0 => "no node".to_owned(),
        1..=4 => names.into_iter().collect::<Vec<_>>().join(", "),
        many => format!("{many} nodes"),
    }
}

/// Deletes an object, and with it what it owns.
fn delete(kubectl: &Kubectl, object: &str) -> Result<(), Failed> {
    kubectl.run(&["delete", "--ignore-not-found", "--wait=false", object], "").map(drop)
}

impl Drop for Run {
    /// An error on the way to its end: nothing is left in the cluster all the same.
    fn drop(&mut self) {
        if !self.is_ended {
            self.watch.end();
            let _ = delete(&self.watch.kubectl, &self.object);
        }
    }
}

impl RunningJob for Run {
    fn stdout(&mut self) -> Box<dyn Read + Send> {
        match self.stdout.take() {
            Some(stdout) => Box::new(stdout),
            None => Box::new(std::io::empty()),
        }
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.watch.known().news)
    }

    fn lost(&mut self) -> Option<Loss> {
        self.watch.known().loss.clone()
    }

    fn carrier(&self) -> Carrier {
        let silence = self.watch.known().answered.elapsed();
        Carrier {
            grace: GRACE,
            name: format!("kubectl, which follows job {}", self.watch.name),
            silence: Some(silence),
        }
    }

    fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    fn interruption(&self) -> Box<dyn Fn() + Send> {
        let (watch, object) = (Arc::clone(&self.watch), self.object.clone());
        Box::new(move || {
            watch.known().is_deleted = true;
            let (watch, object) = (Arc::clone(&watch), object.clone());
            // Pods get SIGTERM, and the first one's last lines are read. What fails is tried again, and said, at the end.
            std::thread::spawn(move || delete(&watch.kubectl, &object));
        })
    }

    fn end(mut self: Box<Self>) -> JobEnd {
        let was_deleted = self.watch.known().is_deleted;
        if !self.is_abandoned && !was_deleted {
            // What ended a pod is known a moment after its log has ended.
            self.watch.ask_again(LAST_LOOK);
            self.wait(END_TIMEOUT);
        }
        let (code, why, text) = {
            let known = self.watch.known();
            let first = self.watch.first(&known);
            let loss = known.loss.clone();
            let code = loss.as_ref().map(|loss| i32::from(loss.exit.code()));
            let said = known.pods.iter().find_map(|pod| match &pod.state {
                State::Ended { code: Some(code), message: Some(message), .. } if *code != 0 => {
                    Some(format!(
                        "{} ended with exit code {code}: {}",
                        pod.label(),
                        shortened(message)
                    ))
                }
                _ => None,
            });
            // mpirun fails where somebody deletes an MPIJob; the pods of one that fails by itself stay.
            let is_deleted =
                |pod: &&Pod| (pod.deleted.is_some() || pod.is_gone) && pod.code() != Some(0);
            let deleted = first.filter(is_deleted).filter(|_| self.watch.is_mpi && !was_deleted);
            let deleted =
                deleted.map(|pod| format!("{} was deleted by somebody else", pod.label()));
            let first_loss = known.first_loss.clone().or(deleted);
            let text = first_loss.clone().or_else(|| said.clone());
            let text = text.or_else(|| first.map(|pod| pod.line()));
            let text = text.unwrap_or_else(|| format!("job {} has no first pod", self.watch.name));
            let interrupted = i32::from(Exit::Interrupted.code());
            let was_told = first.and_then(Pod::code).is_none_or(|code| code == interrupted);
            // Process 0 was told to end, and not by us: another pod has failed, or pods were deleted.
            let lost =
                first_loss.or_else(|| was_told.then(|| ended_elsewhere(&known.pods, said))?);
            let lost = lost.map(|text| Loss { text, exit: Exit::RankLost, may_be_stopped: false });
            (code.or_else(|| first.and_then(Pod::code)), loss.or(lost), text)
        };
        self.watch.end();
        if let Some(child) = self.follower.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = child.kill();
        }
        let keeps = self.watch.pods.keep && !was_deleted;
        let left = match keeps {
            true => Some(format!(
                "job {} is kept, with its pods and their logs; to delete it: {}",
                self.watch.name,
                self.by_hand()
            )),
            false => self.delete(),
        };
        self.is_ended = true;
        JobEnd { code, text, left, why: why.filter(|_| !was_deleted) }
    }
}

/// What ended process 0 from outside: `failed` is the sentence about a pod whose program failed.
fn ended_elsewhere(pods: &[Pod], failed: Option<String>) -> Option<String> {
    if pods.iter().any(Pod::has_failed) {
        return failed;
    }
    // The Job deletes the others later.
    let first = pods.iter().filter_map(|pod| pod.deleted.as_ref()).min()?;
    let deleted = pods.iter().filter(|pod| pod.deleted.as_ref() == Some(first));
    let names: Vec<String> = deleted.map(|pod| format!("{} ({})", pod.label(), pod.name)).collect();
    Some(match &names[..] {
        [name] => format!("{name} was deleted by somebody else"),
        all => format!("pods were deleted, at least one by somebody else: {}", all.join(", ")),
    })
}

/// The last lines of a message: what ended a program comes last.
fn shortened(message: &str) -> String {
    const LINES: usize = 3;
    let lines: Vec<&str> = message.trim().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join(" / ")
}
