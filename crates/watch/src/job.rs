//! Which files are of one job, and which ranks of which communicators they hold.
//! Not what the calls say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use busbw_watch_file::{
    Calls, Class, Communicator, End, GpuClock, Heartbeat, Line, OpenCall, Process, Steps, WatchFile,
};

/// A process of a job with all that it wrote.
#[derive(Debug, Clone)]
pub struct Peer {
    /// What it says about itself.
    pub process: Process,
    /// The files, oldest first.
    pub files: Vec<String>,
    /// Its communicators, by their number.
    pub communicators: BTreeMap<u32, Communicator>,
    /// Calls that ended.
    pub calls: Vec<Calls>,
    /// Calls that stood when the last heartbeat was written.
    pub open: Vec<OpenCall>,
    /// Steps of the network.
    pub steps: Vec<Steps>,
    /// Clocks of its GPUs.
    pub clocks: Vec<GpuClock>,
    /// Heartbeats.
    pub heartbeats: Vec<Heartbeat>,
    /// Its end, if it wrote one.
    pub end: Option<End>,
    /// Calls of each class that it has counted, those whose lines are gone included; of a process that has not written it, none.
    pub counted: HashMap<Class, u64>,
    /// Lines that could not be read.
    pub unread: u64,
}

impl Peer {
    fn new(process: Process) -> Self {
        Self {
            process,
            files: Vec::new(),
            communicators: BTreeMap::new(),
            calls: Vec::new(),
            open: Vec::new(),
            steps: Vec::new(),
            clocks: Vec::new(),
            heartbeats: Vec::new(),
            end: None,
            counted: HashMap::new(),
            unread: 0,
        }
    }

    fn take(&mut self, name: String, file: WatchFile) {
        // The origin of the GPU's time is known later than the first line of the first file.
        if self.process.gpu_origin == 0 {
            self.process = file.process;
        }
        self.files.push(name);
        self.unread += file.unread;
        for line in file.lines {
            match line {
                Line::Communicator(one) => drop(self.communicators.insert(one.number, one)),
                Line::Calls(calls) => self.calls.push(calls),
                Line::Open(call) => self.open.push(call),
                Line::Steps(steps) => self.steps.push(steps),
                Line::Clock(clock) => self.clocks.push(clock),
                Line::Heartbeat(beat) => self.heartbeats.push(beat),
                Line::End(end) => self.end = Some(end),
                Line::Totals(totals) => {
                    let calls = self.counted.entry(totals.class).or_default();
                    *calls = totals.calls.max(*calls);
                }
                Line::Process(_) => {}
            }
        }
        // What stood at an earlier heartbeat has ended or is written again.
        let last = self.open.iter().map(|call| call.at).max();
        self.open.retain(|call| Some(call.at) == last);
    }

    /// The last time of which the process wrote anything, ns since it began to write.
    #[must_use]
    pub fn last_word(&self) -> u64 {
        let beat = self.heartbeats.last().map_or(0, |beat| beat.at);
        beat.max(self.end.as_ref().map_or(0, |end| end.at))
    }

    /// Calls that it counted and whose lines are not there: an older file was replaced.
    #[must_use]
    pub fn gone(&self) -> u64 {
        let counted = self.counted.values().copied().fold(0, u64::saturating_add);
        let there = self.calls.iter().map(|line| line.calls.len() as u64).sum();
        counted.saturating_sub(there)
    }

    /// `node3, pid 4711`.
    #[must_use]
    pub fn named(&self) -> String {
        format!("{}, pid {}", self.process.host, self.process.pid)
    }
}

/// A rank of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its process: the place in [`Job::peers`].
    pub peer: usize,
    /// The communicator's number there.
    pub number: u32,
    /// The rank.
    pub rank: u32,
}

/// A communicator with the ranks whose files there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// NCCL's identification. Empty: NCCL did not say it, and the group is that of one process alone.
    pub id: String,
    /// The program's name for it.
    pub name: String,
    /// Ranks that it has. 0: not said.
    pub ranks: u32,
    /// Nodes. 0: not said.
    pub nodes: u32,
    /// The ranks that are there, by rank.
    pub members: Vec<Member>,
    /// Ranks that two files claim, with both: the second one is left out.
    pub twice: Vec<(u32, String)>,
}

impl Group {
    /// The ranks of which there is no file; none where the number of ranks is not known.
    #[must_use]
    pub fn missing(&self) -> Vec<u32> {
        // Both in order.
        let mut there = self.members.iter().map(|member| member.rank).peekable();
        (0..self.ranks).filter(|rank| there.next_if_eq(rank).is_none()).collect()
    }
}

/// A job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The launcher's name for it, where all processes have the same.
    pub name: Option<String>,
    /// Its processes, by host and pid.
    pub peers: Vec<Peer>,
    /// Its communicators, the largest first.
    pub groups: Vec<Group>,
}

impl Job {
    /// The jobs of which files are: those whose processes share a communicator, or the launcher's name, are one.
    #[must_use]
    pub fn of(files: Vec<(String, WatchFile)>) -> Vec<Job> {
        let mut by_process: BTreeMap<(String, u32, u64), Peer> = BTreeMap::new();
        let mut files = files;
        // The older file of a process first: its lines are older.
        files.sort_by_key(|(name, _)| (!name.ends_with(".old.jsonl"), name.clone()));
        for (name, file) in files {
            let Process { host, pid, began, .. } = &file.process;
            let key = (host.clone(), *pid, *began);
            let process = file.process.clone();
            by_process.entry(key).or_insert_with(|| Peer::new(process)).take(name, file);
        }
        let peers: Vec<Peer> = by_process.into_values().collect();
        let jobs = together(&peers);
        let mut peers: Vec<Option<Peer>> = peers.into_iter().map(Some).collect();
        jobs.into_iter()
            .map(|members| {
                Job::new(members.into_iter().filter_map(|at| peers[at].take()).collect())
            })
            .collect()
    }

    fn new(peers: Vec<Peer>) -> Job {
        let first = peers.first().and_then(|peer| peer.process.job.clone());
        let name =
            first.filter(|name| peers.iter().all(|one| one.process.job.as_ref() == Some(name)));
        let groups = groups(&peers);
        Job { name, peers, groups }
    }

    /// The nodes of a communicator; where NCCL does not say it, the hosts of those ranks that are there.
    #[must_use]
    pub fn hosts_of(&self, group: &Group) -> usize {
        if group.nodes > 0 {
            return group.nodes as usize;
        }
        let hosts = group.members.iter().map(|one| self.peers[one.peer].process.host.as_str());
        hosts.collect::<BTreeSet<_>>().len()
    }
}

/// Processes that belong together, as places; each set in order, and the sets by their first.
fn together(peers: &[Peer]) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..peers.len()).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    let mut seen: HashMap<(bool, &str), usize> = HashMap::new();
    for (at, peer) in peers.iter().enumerate() {
        let ids = peer.communicators.values().map(|one| (false, one.id.as_str()));
        let names = peer.process.job.iter().map(|name| (true, name.as_str()));
        for mark in ids.chain(names).filter(|(_, text)| !text.is_empty()) {
            let other = *seen.entry(mark).or_insert(at);
            let (one, two) = (root(&mut parent, other), root(&mut parent, at));
            parent[one.max(two)] = one.min(two);
        }
    }
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in 0..peers.len() {
        sets.entry(root(&mut parent, at)).or_default().push(at);
    }
    sets.into_values().collect()
}

fn groups(peers: &[Peer]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    // The process of each rank of each communicator.
    let mut claimed: HashMap<(usize, u32), usize> = HashMap::new();
    for (at, peer) in peers.iter().enumerate() {
        for one in peer.communicators.values() {
            let new = groups.len();
            let place = match one.id.is_empty() {
                true => new,
                false => *known.entry(one.id.clone()).or_insert(new),
            };
            if place == new {
                groups.push(Group {
                    id: one.id.clone(),
                    name: one.name.clone(),
                    ranks: one.ranks,
                    nodes: one.nodes,
                    members: Vec::new(),
                    twice: Vec::new(),
                });
            }
            let group = &mut groups[place];
            let member = Member { peer: at, number: one.number, rank: one.rank };
            match claimed.insert((place, one.rank), at) {
                Some(other) => {
                    let both = format!("{} and {}", peers[other].named(), peer.named());
                    group.twice.push((one.rank, both));
                }
                None => group.members.push(member),
            }
        }
    }
    for group in &mut groups {
        group.members.sort_by_key(|member| member.rank);
    }
    groups.sort_by(|a, b| b.ranks.cmp(&a.ranks).then(a.id.cmp(&b.id)));
    groups
}
