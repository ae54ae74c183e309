//! kubectl, the user's own, with the user's own context: one command at a time, bounded in time, and what its errors mean.
//! Not what is asked of it.

use std::{
    fmt,
    io::{Read, Write},
    os::unix::process::CommandExt,
    process::Stdio,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::asked::Pods;
use crate::launchers::{command::Command, job::Job, not_started};

/// How long one command may take before the API server counts as silent.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long what an ended command has said may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often it is checked whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How kubectl is called.
#[derive(Debug, Clone)]
pub(super) struct Kubectl {
    words: Vec<String>,
    /// Of `--namespace`, or the context's.
    pub(super) namespace: Option<String>,
    context: Option<String>,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// What that means.
    pub(super) cause: Cause,
    /// For messages.
    pub(super) text: String,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The API server did not answer, or could not be reached.
    Silent,
    /// The user may not do that.
    Forbidden,
    /// The credentials are no longer good, or never were.
    Unauthorized,
    /// The object is not there.
    Missing,
    /// Anything else.
    Other,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Failed> for anyhow::Error {
    fn from(failed: Failed) -> anyhow::Error {
        let exit = match failed.cause {
            Cause::Silent => Exit::Timeout,
            Cause::Forbidden | Cause::Unauthorized | Cause::Missing => Exit::Impossible,
            Cause::Other => Exit::Library,
        };
        ExitError::new(exit, failed.text).into()
    }
}

impl Kubectl {
    /// The one of `--launcher-command`, or the one of PATH.
    pub(super) fn of(job: &Job, pods: &Pods) -> Kubectl {
        let own =
            if job.command.is_empty() { vec!["kubectl".to_owned()] } else { job.command.clone() };
        let context = pods.context.iter().map(|name| format!("--context={name}"));
        let namespace = pods.namespace.iter().map(|name| format!("--namespace={name}"));
        Kubectl {
            words: own.into_iter().chain(context).chain(namespace).collect(),
            namespace: pods.namespace.clone(),
            context: pods.context.clone(),
        }
    }

    /// The command, for messages and to run by hand.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        Command::new(&self.words).with(words)
    }

    /// The same for messages: without what nobody is to read.
    pub(super) fn shown(&self, words: &[&str]) -> String {
        busbw_store::masked(&self.command(words).to_string())
    }

    /// Runs a command with `input` on its stdin; returns its stdout.
    ///
    /// # Errors
    /// There is no kubectl, or it failed; what it said, with what that means.
    pub(super) fn run(&self, words: &[&str], input: &str) -> Result<String, Failed> {
        self.within(words, input, TIMEOUT)
    }

    /// The same, bounded by `limit`.
    pub(super) fn within(
        &self,
        words: &[&str],
        input: &str,
        limit: Duration,
    ) -> Result<String, Failed> {
        let other = |text: String| Failed { cause: Cause::Other, text };
        let timeout = format!("--request-timeout={}s", limit.as_secs().max(1));
        let command = self.command(words).with([timeout.as_str()]);
        // In a process group of its own: Ctrl-C is for this process, which then deletes what it made.
        let started = command
            .to_start()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = not_started(started, command.program())
            .map_err(|why| Failed { cause: Cause::Missing, text: format!("{why:#}") })?;
        let (out, err) = (text_of(child.stdout.take()), text_of(child.stderr.take()));
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_owned();
            // In a thread: a kubectl that does not read must not hold this one. Where it fails kubectl says why.
            std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        }
        let by = Instant::now() + limit + Duration::from_secs(1);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < by => std::thread::sleep(POLL_INTERVAL),
                Ok(None) => {
                    // With the plugin that signs in, which holds the pipes, too.
                    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                    let _ = child.wait();
                    break None;
                }
                Err(why) => return Err(other(format!("kubectl cannot be waited for: {why}"))),
            }
        };
        // A child that outlives kubectl may hold a pipe.
        let text = |of: &Receiver<String>| of.recv_timeout(LAST_WORDS).unwrap_or_default();
        match status {
            Some(status) if status.success() => Ok(text(&out)),
            Some(_) => Err(self.meaning(words, &text(&err))),
            None => Err(Failed {
                cause: Cause::Silent,
                text: format!(
                    "{} has not answered within {} s: the API server does not answer, or a plugin that signs in waits",
                    self.shown(words),
                    limit.as_secs()
                ),
            }),
        }
    }

    /// Runs a command that prints an object as JSON.
    pub(super) fn json(&self, words: &[&str], input: &str) -> Result<Value, Failed> {
        let text = self.run(words, input)?;
        serde_json::from_str(&text).map_err(|why| Failed {
            cause: Cause::Other,
            text: format!("{} printed no JSON: {why}", self.shown(words)),
        })
    }

    /// What kubectl's last words mean, and what to do.
    pub(super) fn meaning(&self, words: &[&str], stderr: &str) -> Failed {
        let said = last_error(stderr);
        let has = |part: &str| stderr.contains(part);
        let in_namespace =
            self.namespace.as_ref().map(|name| format!(" -n {name}")).unwrap_or_default();
        let namespace = self.namespace.as_deref().unwrap_or("of this context");
        let (cause, remedy) = if has("localhost:8080")
            || has("no configuration has been provided")
            || (has("stat ") && has("no such file"))
        {
            (Cause::Missing, "kubectl knows no cluster: set KUBECONFIG, or --launcher-command 'kubectl --kubeconfig FILE'".to_owned())
        } else if has("context") && (has("does not exist") || has("cannot locate")) {
            (
                Cause::Missing,
                "`kubectl config get-contexts` lists what there is; name one with --context"
                    .to_owned(),
            )
        } else if has("Unauthorized") || has("must be logged in") || has("credentials") {
            (
                Cause::Unauthorized,
                "the credentials of this context are refused or have expired: sign in again"
                    .to_owned(),
            )
        } else if has("violates PodSecurity") {
            (
                Cause::Forbidden,
                format!(
                    "the namespace {namespace} enforces a PodSecurity profile: --run-as-user 65532 makes pods that suit `restricted` (RDMA needs IPC_LOCK, which it forbids), or choose another --namespace"
                ),
            )
        } else if has("exceeded quota") {
            (
                Cause::Forbidden,
                format!(
                    "the quota of namespace {namespace} is used up: `kubectl describe quota{in_namespace}` shows by what"
                ),
            )
        } else if has("orbidden") {
            (
                Cause::Forbidden,
                format!(
                    "`busbw all_reduce --launcher kubernetes --kind role --dry-run` prints the least Role that suffices; `kubectl auth can-i --list{in_namespace}` shows what this user may do"
                ),
            )
        } else if has("namespaces") && has("not found") {
            (
                Cause::Missing,
                format!(
                    "create it with `kubectl create namespace {namespace}`, or choose another --namespace"
                ),
            )
        } else if has("NotFound") || has("not found") {
            (Cause::Missing, "it was deleted, or never made".to_owned())
        } else if ["no matches for kind", "ensure CRDs are installed"].iter().any(|part| has(part))
        {
            (Cause::Missing, "the cluster does not have this kind: its operator is not installed; --kind job needs none".to_owned())
        } else if [
            "refused",
            "nable to connect",
            "timed out",
            "i/o timeout",
            "no such host",
            "deadline exceeded",
            "TLS handshake",
            "unable to handle the request",
            "leader changed",
            "InternalError",
            "Internal error",
            "connection lost",
            "ServiceUnavailable",
            "Too Many Requests",
            "EOF",
            "connection reset",
        ]
        .iter()
        .any(|part| has(part))
        {
            (Cause::Silent, "the API server of this context does not answer: check --context, and `kubectl cluster-info`".to_owned())
        } else {
            (Cause::Other, format!("it was {}", self.shown(words)))
        };
        let context = self.context.as_ref().map(|name| format!(" (context {name})"));
        let text = format!("kubectl{}: {said}; {remedy}", context.unwrap_or_default());
        Failed { cause, text }
    }
}

/// What is said on a pipe until its end, read by a thread.
pub(super) fn text_of(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}

/// The last line that is an error: before it client-go repeats itself, with the time and its source file.
fn last_error(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines.iter().rev().find(|line| !line.starts_with('E') || line.starts_with("Error"));
    let line = told.or(lines.last()).copied().unwrap_or("it failed without a word");
    let line = line.strip_prefix("Error from server ").unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn meaning(stderr: &str) -> Failed {
        let kubectl = Kubectl {
            words: vec!["kubectl".to_owned()],
            namespace: Some("bench".to_owned()),
            context: None,
        };
        kubectl.meaning(&["get", "pods"], stderr)
    }

    #[test]
    fn what_kubectl_says_has_a_remedy() {
        for (stderr, cause, part) in [
            ("error: context \"prod\" does not exist\n", Cause::Missing, "get-contexts"),
            (
                "error: You must be logged in to the server (Unauthorized)\n",
                Cause::Unauthorized,
                "have expired",
            ),
            (
                "Error from server (Forbidden): jobs.batch is forbidden: User \"u\" cannot create resource \"jobs\" in API group \"batch\" in the namespace \"bench\"\n",
                Cause::Forbidden,
                "least Role",
            ),
            (
                "Error from server (NotFound): error when creating \"STDIN\": namespaces \"bench\" not found\n",
                Cause::Missing,
                "kubectl create namespace bench",
            ),
            (
                "E1125 10:00:00.1 7 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list: dial tcp 127.0.0.1:1: connect: connection refused\"\nThe connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n",
                Cause::Silent,
                "does not answer",
            ),
            (
                "error: stat /x/config: no such file or directory\n",
                Cause::Missing,
                "set KUBECONFIG",
            ),
            ("error: something new\n", Cause::Other, "it was kubectl get pods"),
        ] {
            let failed = meaning(stderr);
            assert_eq!(failed.cause, cause, "{failed}");
            assert!(failed.text.contains(part), "{failed}");
        }
        let refused = meaning("E1125 memcache.go] x\nThe connection to the server was refused\n");
        assert!(
            refused.text.contains("kubectl: The connection to the server was refused;"),
            "{refused}"
        );
    }
}
