//! Names the processes that have not joined: their ranks, and their hosts as far as the launcher's variables and
//! the processes that have joined tell.
//! Not how long the coordinator waits for them.

use std::{collections::BTreeMap, net::IpAddr, ops::Range};

use crate::naming;

/// Hosts in a row, after the first, from which on they are named together: `ranks 8-39 on node[1-4]`.
const MIN_FOLDED_HOSTS: usize = 2;

/// How messages name a process of the launcher: by the ranks that it runs, or by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessLabel {
    /// "rank", or "process" where no ranks run.
    pub(super) noun: &'static str,
    /// How many of these a process has.
    pub(super) each: usize,
}

impl ProcessLabel {
    /// "rank 2", "ranks 4, 5": all of these processes.
    pub(super) fn name(self, processes: &[usize]) -> String {
        let each = self.each;
        let numbers: Vec<usize> =
            processes.iter().flat_map(|process| process * each..(process + 1) * each).collect();
        let plural = match (numbers.len(), self.noun) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        format!("{}{plural} {}", self.noun, naming::list(&numbers))
    }
}

/// A process that has joined.
#[derive(Debug, Clone)]
pub(super) struct JoinedProcess<'a> {
    pub(super) process: usize,
    pub(super) host: &'a str,
    /// The numbers of all processes of its host, where they are known and consecutive.
    pub(super) processes_of_host: Option<Range<usize>>,
}

/// Names the processes of `size` that have not joined, with their hosts: those of `launcher_hosts`, one a
/// process, or else what the joined processes of the same host know.
pub(super) fn describe_missing(
    size: usize,
    launcher_hosts: &[String],
    present: &[JoinedProcess<'_>],
    label: ProcessLabel,
) -> String {
    let mut joined = vec![None; size];
    for one in present {
        joined[one.process] = Some(one.host);
    }
    let hosts = hosts(&joined, launcher_hosts, present);
    let mut groups: Vec<MissingGroup<'_>> = Vec::new();
    for process in (0..size).filter(|process| joined[*process].is_none()) {
        let host = hosts[process];
        match groups.last_mut() {
            // The same host; or unknown hosts, but consecutive numbers.
            Some(group) if group.host == host && (host.is_some() || group.is_before(process)) => {
                group.processes.push(process);
            }
            _ => groups.push(MissingGroup { host, processes: vec![process] }),
        }
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = groups.as_slice();
    while let [first, ..] = rest {
        let goes_on = |pair: &&[MissingGroup<'_>]| match pair {
            [one, next] => {
                next.host.is_some() && next.is_whole() && one.is_before(next.processes[0])
            }
            _ => false,
        };
        let more = rest.windows(2).take_while(goes_on).count();
        let whole = first.host.is_some() && first.is_whole() && more >= MIN_FOLDED_HOSTS;
        let (run, others) = rest.split_at(if whole { more + 1 } else { 1 });
        let processes: Vec<usize> = run.iter().flat_map(|group| group.processes.clone()).collect();
        words.push(match first.host {
            Some(_) => {
                let hosts = naming::hosts(run.iter().filter_map(|group| group.host));
                format!("{} on {hosts}", label.name(&processes))
            }
            None => label.name(&processes) + &unknown(&processes, &joined, label),
        });
        rest = others;
    }
    words.join(", ")
}

/// Missing processes that are named together.
struct MissingGroup<'a> {
    host: Option<&'a str>,
    processes: Vec<usize>,
}

impl MissingGroup<'_> {
    /// Whether `process` follows its last one.
    fn is_before(&self, process: usize) -> bool {
        self.processes.last().is_some_and(|last| last + 1 == process)
    }

    /// Whether its processes are consecutive.
    fn is_whole(&self) -> bool {
        self.is_before(self.processes[0] + self.processes.len())
    }
}

/// The host of each process, where it is known.
fn hosts<'a>(
    joined: &[Option<&'a str>],
    launcher_hosts: &'a [String],
    present: &[JoinedProcess<'a>],
) -> Vec<Option<&'a str>> {
    let mut hosts = joined.to_vec();
    if launcher_hosts.len() == joined.len() && agree(launcher_hosts, present) {
        for (host, launcher_hosts) in hosts.iter_mut().zip(launcher_hosts) {
            host.get_or_insert(launcher_hosts);
        }
        return hosts;
    }
    for one in present {
        for process in one.processes_of_host.clone().unwrap_or_default() {
            match hosts.get_mut(process) {
                Some(host) if host.is_none_or(|host| host == one.host) => *host = Some(one.host),
                // The launcher does not number processes host by host.
                _ => return joined.to_vec(),
            }
        }
    }
    hosts
}

/// Whether the joined processes agree with the launcher's list of hosts. The list may use other names (an
/// address, a name of ~/.ssh/config): then each name stands for exactly one host, and for no other of the list.
/// A process on another host shows that the list means something else.
fn agree(launcher_hosts: &[String], present: &[JoinedProcess<'_>]) -> bool {
    let others = |one: &JoinedProcess<'_>| {
        let name = &launcher_hosts[one.process];
        is_one(one.host, name) || !launcher_hosts.iter().any(|other| is_one(one.host, other))
    };
    let mut host_of = BTreeMap::new();
    let mut name_of = BTreeMap::new();
    present.iter().all(|one| {
        let (name, host) = (short(&launcher_hosts[one.process]), short(one.host));
        let is_same = *host_of.entry(name.clone()).or_insert(host.clone()) == host
            && *name_of.entry(host).or_insert(name.clone()) == name;
        is_same && others(one)
    })
}

/// Whether two names mean one host, with or without its domain.
fn is_one(one: &str, other: &str) -> bool {
    short(one) == short(other)
}

/// A name without its domain; an address as it is.
fn short(name: &str) -> String {
    let first = if name.parse::<IpAddr>().is_ok() { Some(name) } else { name.split('.').next() };
    first.unwrap_or_default().to_ascii_lowercase()
}

/// For processes on an unknown host: the hosts of the nearest processes that have joined.
fn unknown(processes: &[usize], joined: &[Option<&str>], label: ProcessLabel) -> String {
    let [first, ..] = processes else { return String::new() };
    let at = |process: usize| Some((process, (*joined.get(process)?)?));
    let before = (0..*first).rev().find_map(at);
    let after = (first + processes.len()..joined.len()).find_map(at);
    let is = if label.each == 1 { "is" } else { "are" };
    let near: Vec<String> = before
        .into_iter()
        .chain(after)
        .map(|(process, host)| format!("{} {is} on {host}", label.name(&[process])))
        .collect();
    format!(" on a host that the launcher does not name ({})", near.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RANKS: ProcessLabel = ProcessLabel { noun: "rank", each: 1 };

    fn present(
        process: usize,
        host: &str,
        processes_of_host: Option<Range<usize>>,
    ) -> JoinedProcess<'_> {
        JoinedProcess { process, host, processes_of_host }
    }

    /// 1,000 ranks on 125 hosts, of which those of 50 hosts and one more are missing.
    #[test]
    fn many_are_folded() {
        let names: Vec<String> = (0..125).map(|host| format!("node{host}")).collect();
        let joined = |process: &usize| !(400..800).contains(process) && *process != 24;
        let processes_of_host = |process: usize| Some(process / 8 * 8..process / 8 * 8 + 8);
        let present: Vec<JoinedProcess<'_>> = (0..1000)
            .filter(joined)
            .map(|process| present(process, &names[process / 8], processes_of_host(process)))
            .collect();
        let launcher_hosts: Vec<String> =
            (0..1000).map(|process| names[process / 8].clone()).collect();
        assert_eq!(
            describe_missing(1000, &launcher_hosts, &present, RANKS),
            "rank 24 on node3, ranks 400-799 on node[50-99]"
        );
        assert_eq!(
            describe_missing(1000, &[], &present, RANKS),
            "rank 24 on node3, ranks 400-799 on a host that the launcher does not name (rank 399 is on node49, rank 800 is on node100)"
        );
    }

    #[test]
    fn of_a_host_of_which_some_joined() {
        let both = [present(0, "a", Some(0..4)), present(6, "b", Some(4..8))];
        assert_eq!(describe_missing(8, &[], &both, RANKS), "ranks 1-3 on a, ranks 4, 5, 7 on b");
        let two = ProcessLabel { noun: "rank", each: 2 };
        assert_eq!(describe_missing(4, &[], &both[..1], two), "ranks 2-7 on a");
        let other = "ranks 2, 3 on a host that the launcher does not name (ranks 0, 1 are on a)";
        assert_eq!(describe_missing(2, &[], &[present(0, "a", None)], two), other);
        let doctor = ProcessLabel { noun: "process", each: 1 };
        assert_eq!(doctor.name(&[1, 2]), "processes 1, 2");
    }

    #[test]
    fn a_joined_process_overrides_the_list() {
        // mpirun --map-by node: 0 and 2 on a, 1 and 3 on b.
        let round = [present(0, "a", Some(0..2)), present(1, "b", Some(1..3))];
        assert_eq!(
            describe_missing(4, &[], &round, RANKS),
            "ranks 2, 3 on a host that the launcher does not name (rank 1 is on b)"
        );
        let launcher_hosts = ["a", "a", "b.example.org", "b"].map(str::to_owned);
        assert!(describe_missing(4, &launcher_hosts, &round, RANKS).contains("does not name"));
        let right = [present(0, "A.example.org", None), present(2, "b", None)];
        assert_eq!(describe_missing(4, &launcher_hosts, &right, RANKS), "rank 1 on a, rank 3 on b");
    }

    /// -H names addresses, and hosts their own names.
    #[test]
    fn other_names_of_the_same_hosts() {
        let launcher_hosts =
            ["10.77.0.1", "10.77.0.1", "10.77.0.2", "10.77.0.2"].map(str::to_owned);
        let right = [present(0, "node1", None), present(2, "node2", None)];
        let named = "rank 1 on 10.77.0.1, rank 3 on 10.77.0.2";
        assert_eq!(describe_missing(4, &launcher_hosts, &right, RANKS), named);
        for wrong in [[(0, "node1"), (2, "node1")], [(0, "node1"), (1, "node2")]] {
            let wrong = wrong.map(|(process, host)| present(process, host, None));
            assert!(describe_missing(4, &launcher_hosts, &wrong, RANKS).contains("does not name"));
        }
    }

    proptest! {
        /// Whatever processes report, exactly those that have not joined are named.
        #[test]
        fn exactly_the_missing_are_named(
            joined in prop::collection::btree_map(1usize..20, ("[ab]", 0usize..20, 0usize..9), 0..20),
        ) {
            let present: Vec<JoinedProcess<'_>> = std::iter::once(present(0, "a", None))
                .chain(joined.iter().map(|(process, (host, first, count))| {
                    present(*process, host, Some(*first..first + count))
                }))
                .collect();
            let text = describe_missing(20, &[], &present, RANKS);
            let named = regex::Regex::new(r"ranks? ([0-9, -]+) on").unwrap();
            let mut missing = Vec::new();
            for (_, [numbers]) in named.captures_iter(&text).map(|found| found.extract()) {
                for word in numbers.split(", ") {
                    let (low, high) = word.split_once('-').unwrap_or((word, word));
                    missing.extend(low.parse::<usize>().unwrap()..=high.parse::<usize>().unwrap());
                }
            }
            let want: Vec<usize> = (1..20).filter(|process| !joined.contains_key(process)).collect();
            prop_assert_eq!(missing, want, "{}", text);
        }
    }
}
