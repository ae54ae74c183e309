//! One incident, and all facts of a log about what failed.
//! Not how they are read (`failure`), and not which one is the cause (`cause`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::kind::Kind;

/// The most ranks, hosts and processes of an incident that are kept.
pub(super) const MAX_MEMBERS: usize = 1024;

/// An event of a run: something that failed, or a warning. Equal lines are one incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// What it is.
    pub kind: Kind,
    /// The ranks that met it, by their prefixes or by the launcher; 1024 at most.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ranks: BTreeSet<u32>,
    /// The hosts that met it, as the log names them; 1024 at most.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    /// The processes that met it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pids: BTreeSet<u32>,
    /// NCCL's source position, such as `misc/socket.cc:72`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Lines that say it.
    pub count: u64,
    /// The number of the first such line, from 1.
    pub line: u64,
    /// The first line's time stamp, `MM-DD HH:MM:SS[.fraction]` by the clock of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The first line, word for word.
    pub text: String,
    /// Another incident of the log caused it: the end of a rank, or of the whole job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub consequence: bool,
    /// What the text tells, by kind.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
}

/// What an incident's text tells. Which fields are there depends on the kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The signal that ended a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
    /// A process's exit code, or that of MPI_Abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// What it is about: a program, host, interface, library, path, exception or result code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An environment variable, or an option of a launcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// The reason in the words of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A size as the program prints it, such as `192.00 GiB`, or a number that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What there was instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub there: Option<String>,
    /// The address of a peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A collective or call, such as `all_reduce` or `MPI_Bcast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The collective's sequence number in its process group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// A wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// The other ranks: those that are missing, behind or of another opinion.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub others: BTreeSet<u32>,
    /// Elements of each rank's call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub elements: BTreeMap<u32, u64>,
    /// The collective of each rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ops: BTreeMap<u32, String>,
}

impl Details {
    /// Whether the text tells nothing more than the kind.
    pub fn is_empty(&self) -> bool {
        *self == Details::default()
    }

    /// What makes two lines of one kind different incidents.
    pub(super) fn identity(&self) -> impl PartialEq + use<> {
        let Details { signal, exit_code, name, sequence, op, .. } = self;
        (*signal, *exit_code, name.clone(), *sequence, op.clone())
    }
}

/// The end of a process by torchelastic's summary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessExit {
    /// Its rank.
    pub rank: Option<u32>,
    /// Its host.
    pub host: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Its exit code; below zero, the signal.
    pub code: i64,
    /// torchelastic saw it fail first.
    pub root: bool,
}

/// The number of the last collective that a rank enqueued and completed, by PyTorch's watchdog.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The process group, as PyTorch names it.
    pub group: String,
    /// The rank in it.
    pub rank: u32,
    /// The last one that was enqueued.
    pub enqueued: u64,
    /// The last one that was completed.
    pub completed: u64,
}

/// The facts of a log about what failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FailureFacts {
    /// What failed, and what only looks so, in the order of first lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Incident>,
    /// How torchelastic says that processes ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<ProcessExit>,
    /// How far ranks came.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<Progress>,
    /// The last line that only a run prints which ended well, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_well: Option<u64>,
    /// Incidents that were dropped, because there were too many different ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The run failed.
    Failed,
    /// The log ends while the run still waits.
    Waiting,
    /// The run ended well.
    Well,
    /// The log does not say.
    Unknown,
}

impl FailureFacts {
    /// Whether the log holds nothing of all this.
    pub fn is_empty(&self) -> bool {
        *self == FailureFacts::default()
    }

    /// Warnings that healthy runs print too, most frequent first.
    pub fn harmless(&self) -> Vec<&Incident> {
        let mut harmless: Vec<_> =
            self.incidents.iter().filter(|one| one.kind.is_harmless()).collect();
        harmless.sort_by_key(|one| std::cmp::Reverse(one.count));
        harmless
    }

    /// How the log ends.
    pub fn ending(&self) -> Ending {
        match self.cause() {
            Some(cause) if cause.kind == Kind::InitHang => Ending::Waiting,
            Some(_) => Ending::Failed,
            None if self.ended_well.is_some() => Ending::Well,
            None => Ending::Unknown,
        }
    }

    /// Whether the log ends while the run still waits.
    pub fn hung(&self) -> bool {
        self.ending() == Ending::Waiting
    }

    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Incident> {
        self.incidents.iter().filter(move |one| one.kind == kind)
    }
}

impl Incident {
    /// An incident of a line.
    pub(super) fn at(kind: Kind, line: &super::line::Line<'_>) -> Incident {
        let mut incident = Incident {
            kind,
            ranks: BTreeSet::new(),
            hosts: BTreeSet::new(),
            pids: BTreeSet::new(),
            place: line.place.map(short),
            count: 1,
            line: line.number,
            time: line.time(),
            text: super::rule::keep(line.text),
            consequence: false,
            details: Details::default(),
        };
        incident.rank(line.rank);
        incident.host(line.host.unwrap_or_default());
        incident.pid(line.pid);
        incident
    }

    pub(super) fn rank(&mut self, rank: Option<u32>) {
        if self.ranks.len() < MAX_MEMBERS {
            self.ranks.extend(rank);
        }
    }

    pub(super) fn pid(&mut self, pid: Option<u32>) {
        if self.pids.len() < MAX_MEMBERS {
            self.pids.extend(pid);
        }
    }

    /// Adds a host; a name that is none is passed over.
    pub(super) fn host(&mut self, host: &str) {
        let named = (1..=255).contains(&host.len()) && host != "localhost";
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if named && host.bytes().all(plain) && self.hosts.len() < MAX_MEMBERS {
            self.hosts.insert(host.to_owned());
        }
    }

    /// Takes in another line that says the same.
    pub(super) fn merge(&mut self, other: Incident) {
        other.ranks.into_iter().for_each(|rank| self.rank(Some(rank)));
        other.pids.into_iter().for_each(|pid| self.pid(Some(pid)));
        other.hosts.iter().for_each(|host| self.host(host));
        self.count += other.count;
        self.place = self.place.take().or(other.place);
        let (mine, new) = (&mut self.details, other.details);
        if mine.elements.len() < MAX_MEMBERS {
            mine.elements.extend(new.elements);
        }
        if mine.others.len() < MAX_MEMBERS {
            mine.others.extend(new.others);
        }
        mine.reason = mine.reason.take().or(new.reason);
        mine.asked = mine.asked.take().or(new.asked);
        mine.there = mine.there.take().or(new.there);
        mine.address = mine.address.take().or(new.address);
        mine.variable = mine.variable.take().or(new.variable);
        mine.milliseconds = mine.milliseconds.or(new.milliseconds);
        if other.line < self.line {
            (self.line, self.time, self.text) = (other.line, other.time, other.text);
        }
    }
}

/// A source position without the folders of the machine that built the library.
fn short(place: &str) -> String {
    let within = place.rsplit_once("/src/").filter(|_| place.starts_with('/'));
    super::rule::keep(within.map_or(place, |(_, within)| within))
}

/// Incidents by kind and identity: a bounded number of them.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    all: Vec<Incident>,
    by_kind: BTreeMap<Kind, Vec<usize>>,
    pub left_out: u64,
}

/// The most different incidents of a kind that are kept.
const MAX_OF_KIND: usize = 32;

impl Incidents {
    pub(super) fn add(&mut self, incident: Incident) {
        let known = self.by_kind.entry(incident.kind).or_default();
        let identity = incident.details.identity();
        match known.iter().find(|at| self.all[**at].details.identity() == identity) {
            Some(at) => self.all[*at].merge(incident),
            None if known.len() < MAX_OF_KIND => {
                known.push(self.all.len());
                self.all.push(incident);
            }
            None => self.left_out += 1,
        }
    }

    /// In the order of their first lines.
    pub(super) fn finish(self) -> Vec<Incident> {
        let mut all = self.all;
        all.sort_by_key(|one| one.line);
        all
    }
}
