//! The rendezvous of a launcher's processes. Process 0 is the coordinator: it authenticates the workers, sends
//! each its rank assignment, and broadcasts the exit code. It starts one process for its own ranks.
//! Not what ranks do and not what a lost rank means (both: `busbw-runner`).

mod accept;
pub mod address;
mod authentication;
mod connect;
mod coordinator_endpoints;
pub mod framed_stream;
mod heartbeats;
mod hello;
pub mod interface;
mod join;
mod join_request;
mod missing_workers;
mod server;
mod token;
mod worker_events;
mod workers;

pub use authentication::hashed_name;
pub use server::RendezvousServer;
pub use token::token;
pub use worker_events::WorkerEvent;
pub use workers::Worker;

use std::{ffi::OsString, net::SocketAddr, ops::Range, path::Path, time::Duration};

use busbw_core::{
    environment::RENDEZVOUS_TIMEOUT as RENDEZVOUS_SECONDS, exit::Exit, record::HostCounters,
};
use rustix::process::{Pid, Signal, getppid};
use serde::{Deserialize, Serialize};

use crate::{heartbeat::Heartbeat, stopped_parent::StoppedParent};

/// Least time for all workers to join; a longer -T extends it.
const RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(30);

/// How long either side of a handshake waits for the other.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the rendezvous may take, given -T in seconds. A launcher whose processes start far apart says so.
pub fn rendezvous_timeout(timeout_s: Option<u64>) -> Duration {
    let told = std::env::var(RENDEZVOUS_SECONDS).ok().and_then(|text| text.trim().parse().ok());
    RENDEZVOUS_TIMEOUT.max(Duration::from_secs(timeout_s.max(told).unwrap_or(0)))
}

/// What a worker sends to join: what must be equal in all processes of a run, and what identifies this one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The process's number in the job.
    pub process: usize,
    /// Processes in the job.
    pub size: usize,
    /// Its process ID.
    pub pid: u32,
    /// Its host's name.
    pub host: String,
    /// Version of busbw.
    pub version: String,
    /// The program's name and its arguments.
    pub arguments: Vec<String>,
    /// The backend that its arguments and its machine lead to; empty where it runs no ranks.
    pub backend: String,
    /// What its ranks' tuner chooses by, as variables; empty where none is asked for.
    pub tuner: String,
    /// The numbers of all processes of its host, where the launcher's variables tell and they are
    /// consecutive.
    pub processes_of_host: Option<Range<usize>>,
    /// The text that it contributes to a gather; empty where it runs ranks.
    pub statement: String,
    /// Processors that its launcher allows it.
    pub cores: Vec<usize>,
    /// Why it cannot run its ranks, with the exit code.
    pub failure: Option<(Exit, String)>,
}

/// From a worker to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// Last message of the handshake: the worker's authentication tag, and its request to join.
    Join {
        /// Over the coordinator's nonce.
        auth_tag: String,
        /// What the worker is.
        request: Box<JoinRequest>,
    },
    /// The worker received a terminating signal.
    Signalled(i32),
    /// The worker answers.
    Heartbeat,
    /// Its ranks have exited. Whether they succeeded, each has reported to the hub.
    Ended,
    /// The counters of its host, as they were asked for.
    Counters {
        /// The question that this answers.
        question: u64,
        /// What was counted.
        counters: Box<HostCounters>,
    },
}

/// From the coordinator to a worker; `A` is its rank assignment, which belongs to `busbw-runner`.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker<A> {
    /// Part of the handshake: the coordinator's authentication tag; the endpoints to use instead, if any.
    Authentication {
        /// Over the worker's nonce.
        auth_tag: String,
        /// Where to connect instead; empty if here.
        redirect: Vec<SocketAddr>,
    },
    /// The rank assignment; this many descriptors follow.
    Assign {
        /// What to run.
        assignment: A,
        /// How many descriptors follow.
        descriptors: usize,
    },
    /// The counters of its host are to be read, before a row or after it.
    ReadCounters {
        /// PCI addresses of the host's GPUs; none where GPUs have no counters that busbw reads.
        gpus: Option<Vec<String>>,
        /// Its number in this run.
        question: u64,
        /// Whether the row is over.
        after: bool,
    },
    /// The coordinator answers.
    Heartbeat(Heartbeat),
    /// Waits are to be aborted.
    Abort,
    /// What the job's end means, in a sentence, before its exit code.
    Conclusion(String),
    /// The run has ended: the exit code of every process.
    Exit(Exit),
}

/// The program's name without its folder, and its arguments.
fn program_and_arguments(args: &[OsString]) -> Vec<String> {
    let name = |path: &OsString| Path::new(path).file_name().map(ToOwned::to_owned);
    let program = args.first().and_then(name).unwrap_or_default();
    let words = std::iter::once(&program).chain(args.iter().skip(1));
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Sends SIGTERM to this process when its parent exits. Not SIGHUP: nohup makes processes ignore that.
pub fn end_with_parent() {
    watch_parent(|| {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    });
}

/// Calls `gone` once, when the parent process exits. An agent that is this process's parent takes it along.
pub fn watch_parent(gone: impl FnOnce() + Send + 'static) {
    let parent = getppid();
    let mut stopped = StoppedParent::tie();
    // Without a thread this process ends only when the launcher ends it.
    let _ = std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        while is_parent(parent) {
            if let Some(parent) = &mut stopped {
                parent.check();
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        gone();
    });
}

/// Whether `parent` is still the parent process: an orphan gets another one.
pub fn is_parent(parent: Option<Pid>) -> bool {
    getppid() == parent
}
