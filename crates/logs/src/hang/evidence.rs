//! The evidence: processes, communicators, and how far each member came.
//! Not how it is read.

use std::collections::{BTreeMap, HashMap};

/// The most ranks of all communicators together that are kept.
const MAX_MEMBERS: usize = 1 << 20;
/// The most remarks that are kept.
const MAX_REMARKS: usize = 64;
/// Calls that are over and kept of each rank of a communicator: to compare them with the other ranks'.
pub(super) const KEPT_CALLS: usize = 1024;
/// As [`KEPT_CALLS`], once [`MAX_KEPT_CALLS`] are kept.
const KEPT_CALLS_OF_MANY: usize = 64;
/// Calls that are over and kept of all ranks, some 250 bytes each, before fewer are kept of those that come.
const MAX_KEPT_CALLS: usize = 1 << 18;

/// All that is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Processes; members refer to them by their place here.
    pub processes: Vec<Process>,
    /// Communicators, each as one source sees it.
    pub groups: Vec<Group>,
    /// What could not be used, and what does not fit together, a sentence each.
    pub remarks: Vec<String>,
    by_rank: HashMap<u32, usize>,
    by_pid: HashMap<(String, u32), usize>,
    by_member: HashMap<(String, u32), usize>,
    members: usize,
    kept_calls: usize,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its rank in the job.
    pub rank: Option<u32>,
    /// Its host, as the source names it.
    pub host: Option<String>,
    /// Its number there.
    pub pid: Option<u32>,
    /// Files that it wrote.
    pub files: Vec<String>,
    /// The boot of its host, and the namespace in which `pid` counts, where the source says them.
    pub boot: Option<String>,
    /// See `boot`.
    pub pid_namespace: Option<u64>,
    /// What became of it.
    pub condition: Condition,
    /// When it began to write, ns since 1970 by its host's clock.
    pub began: Option<u64>,
}

/// What became of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing says more.
    #[default]
    Unknown,
    /// It wrote until the end of what is known of the job.
    Alive,
    /// It ended in order.
    Finished,
    /// It wrote nothing for so long, milliseconds, while others went on: it died, or it is stopped.
    Silent(u64),
    /// It is there and does not run, or does not answer; how that is known.
    Stopped(String),
    /// It ended; how that is known.
    Died(String),
}

/// Who tells of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Dumps of PyTorch's flight recorder.
    FlightRecorder,
    /// Files of busbw's profiler.
    Watch,
    /// NCCL's RAS: it counts what was launched, and not what is over.
    Ras,
    /// PyTorch's watchdog in a log.
    Log,
}

impl Source {
    /// In a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Source::FlightRecorder => "PyTorch's flight recorder",
            Source::Watch => "busbw's profiler",
            Source::Ras => "NCCL's RAS",
            Source::Log => "PyTorch's watchdog in the log",
        }
    }
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Who tells of it.
    pub source: Source,
    /// What tells it from others of this source.
    pub id: String,
    /// For people: PyTorch's name, else NCCL's hash.
    pub name: String,
    /// Its ranks, where that is known.
    pub ranks: Option<u32>,
    /// Its members by their rank in it: all of them where the source lists them, else those who reported.
    pub members: BTreeMap<u32, Member>,
    /// The place of the first group that is the same communicator by another source; its own where none is before it.
    pub communicator: usize,
    /// Whether it was seen twice and a member had launched more by then. None: it was seen once.
    pub progressed: Option<bool>,
}

/// A member of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its process: a place in [`Evidence::processes`].
    pub process: usize,
    /// How far it came; none where nothing tells.
    pub progress: Option<Progress>,
}

/// How far a member came in a communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Calls of collectives that it made: the number of the newest.
    pub entered: u64,
    /// Those that are not over, by number. Empty where the source does not know (`counts_only`).
    pub open: BTreeMap<u64, Call>,
    /// Those that are over, as far as they are kept, by number.
    pub over: BTreeMap<u64, Call>,
    /// The source has lost calls: what has the same number on two ranks may be two calls.
    pub has_gaps: bool,
    /// The source knows what was launched, and not what is over.
    pub counts_only: bool,
    /// Calls by operation, where the source counts each for itself.
    pub by_operation: BTreeMap<String, u64>,
    /// Sends and receives that are not over, in their order.
    pub messages: Vec<Message>,
    /// All messages from the first one on are known.
    pub has_all_messages: bool,
    /// How many were made by peer and direction (`true`: to it), those that are over among them.
    pub messages_made: BTreeMap<(u32, bool), u64>,
}

/// A call of a collective as one rank made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// `all_reduce`.
    pub operation: String,
    /// Its number among all calls of collectives of the communicator, from 1; of a message among those to or from this peer.
    pub number: u64,
    /// Its number among those of its operation, from 1, where the source counts each operation for itself.
    pub nth: Option<u64>,
    /// Elements that this rank gives, where all ranks must give the same number.
    pub elements: Option<u64>,
    /// The type as the source names it. Empty: not said.
    pub datatype: String,
    /// How long it has stood when its source was written, milliseconds.
    pub waited_ms: Option<u64>,
    /// When it was called, ns since 1970 by the clock of its host.
    pub since: Option<u64>,
    /// Whether it began on the GPU; none where that is not known.
    pub started: Option<bool>,
    /// Where the program called it.
    pub place: Option<String>,
    /// Its source does not know whether it is over: its kernel was not timed.
    pub end_unknown: bool,
}

/// A send or a receive that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The other rank of the communicator.
    pub peer: u32,
    /// To the peer; else from it.
    pub is_send: bool,
    /// Its number among those to or from this peer, from 1: its other end has the same. None: the source has not kept all.
    pub nth: Option<u64>,
    /// The call.
    pub call: Call,
}

impl Evidence {
    /// Whether nothing tells how far a rank came, or what became of it.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.processes.is_empty()
    }

    /// Adds a remark, once.
    pub(super) fn remark(&mut self, text: String) {
        if self.remarks.len() < MAX_REMARKS && !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// The process of a rank of the job.
    pub(super) fn of_rank(&mut self, rank: u32) -> usize {
        if let Some(&at) = self.by_rank.get(&rank) {
            return at;
        }
        let at = self.add(Process { rank: Some(rank), ..Process::default() });
        self.by_rank.insert(rank, at);
        at
    }

    /// The process of this number on a host; a rank of the job where it is known.
    pub(super) fn of_pid(&mut self, host: &str, pid: u32, rank: Option<u32>) -> usize {
        let key = (host.to_owned(), pid);
        let known = self.by_pid.get(&key).copied();
        let ranked = rank.and_then(|rank| self.by_rank.get(&rank).copied()).filter(|at| {
            // Another process of the same rank: of another job, or of a restart.
            self.processes.get(*at).is_some_and(|one| one.pid.is_none_or(|other| other == pid))
        });
        let at = known.or(ranked).unwrap_or_else(|| self.add(Process::default()));
        if let Some(process) = self.processes.get_mut(at) {
            process.host.get_or_insert_with(|| host.to_owned());
            process.pid.get_or_insert(pid);
            if let Some(rank) = rank {
                process.rank.get_or_insert(rank);
                self.by_rank.entry(rank).or_insert(at);
            }
        }
        self.by_pid.insert(key, at);
        at
    }

    /// A process of which nothing is known but that it is there.
    pub(super) fn of_nobody(&mut self) -> usize {
        self.add(Process::default())
    }

    /// The process of this number on a host, if one said so.
    pub(super) fn known_pid(&self, host: &str, pid: u32) -> Option<usize> {
        self.by_pid.get(&(host.to_owned(), pid)).copied()
    }

    /// The process of this rank of the job, if one said so.
    pub(super) fn known_rank(&self, rank: u32) -> Option<usize> {
        self.by_rank.get(&rank).copied()
    }

    /// The process that is rank `rank` of the communicator `hash` of NCCL, if one said so.
    pub(super) fn of_member(&self, hash: &str, rank: u32) -> Option<usize> {
        self.by_member.get(&(hash.to_owned(), rank)).copied()
    }

    /// Notes who is rank `rank` of the communicator `hash` of NCCL.
    pub(super) fn is_member(&mut self, hash: &str, rank: u32, process: usize) {
        self.by_member.entry((hash.to_owned(), rank)).or_insert(process);
    }

    /// How many calls that are over may be kept of one more rank of a communicator.
    pub(super) fn room_for_calls(&self) -> usize {
        match self.kept_calls < MAX_KEPT_CALLS {
            true => KEPT_CALLS,
            false => KEPT_CALLS_OF_MANY,
        }
    }

    /// So many more are kept.
    pub(super) fn keeps_calls(&mut self, calls: usize) {
        self.kept_calls = self.kept_calls.saturating_add(calls);
    }

    fn add(&mut self, process: Process) -> usize {
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// Whether there is room for a member more.
    pub(super) fn has_room(&mut self) -> bool {
        self.members += 1;
        if self.members > MAX_MEMBERS {
            self.remark(format!("ranks of communicators beyond {MAX_MEMBERS} are left out"));
        }
        self.members <= MAX_MEMBERS
    }
}

impl Process {
    /// Takes what is worse: a death over a silence over nothing.
    pub fn becomes(&mut self, condition: Condition) {
        let weight = |one: &Condition| match one {
            Condition::Unknown => 0,
            Condition::Alive => 1,
            Condition::Silent(_) => 2,
            Condition::Finished => 3,
            Condition::Stopped(_) => 4,
            Condition::Died(_) => 5,
        };
        if weight(&condition) > weight(&self.condition) {
            self.condition = condition;
        }
    }
}
