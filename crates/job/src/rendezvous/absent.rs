//! Who has not come to the door: which ranks, and on which host each of them is, as far as the launcher's
//! variables and those who came tell. Not how long they were waited for.

use std::{collections::BTreeMap, net::IpAddr, ops::Range};

use crate::naming;

/// So many steps from host to host without a gap are one: `ranks 8-39 on node[1-4]`.
const FOLDED: usize = 2;

/// What a launcher's process stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    /// "rank", or "process" where nobody holds ranks.
    pub(super) word: &'static str,
    /// How many of these a process holds.
    pub(super) each: usize,
}

impl Holding {
    /// "rank 2", "ranks 4, 5": all of these processes.
    pub(super) fn name(self, processes: &[usize]) -> String {
        let each = self.each;
        let numbers: Vec<usize> =
            processes.iter().flat_map(|process| process * each..(process + 1) * each).collect();
        let plural = match (numbers.len(), self.word) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        format!("{}{plural} {}", self.word, naming::list(&numbers))
    }
}

/// One who came.
#[derive(Debug, Clone)]
pub(super) struct Seen<'a> {
    pub(super) process: usize,
    pub(super) host: &'a str,
    /// All processes of its host, as far as its launcher said.
    pub(super) block: Option<Range<usize>>,
}

/// Names those of `size` processes that are not among `seen`, with their hosts: as `told` for each process by
/// the launcher, else as those say who came from their host.
pub(super) fn describe(
    size: usize,
    told: &[String],
    seen: &[Seen<'_>],
    holding: Holding,
) -> String {
    let mut came = vec![None; size];
    for one in seen {
        came[one.process] = Some(one.host);
    }
    let hosts = hosts(&came, told, seen);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for process in (0..size).filter(|process| came[*process].is_none()) {
        let host = hosts[process];
        match pieces.last_mut() {
            // Of one host; or nobody knows of which, but without a gap.
            Some(piece) if piece.host == host && (host.is_some() || piece.is_before(process)) => {
                piece.processes.push(process);
            }
            _ => pieces.push(Piece { host, processes: vec![process] }),
        }
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = pieces.as_slice();
    while let [first, ..] = rest {
        let goes_on = |pair: &&[Piece<'_>]| match pair {
            [one, next] => {
                next.host.is_some() && next.is_whole() && one.is_before(next.processes[0])
            }
            _ => false,
        };
        let more = rest.windows(2).take_while(goes_on).count();
        let whole = first.host.is_some() && first.is_whole() && more >= FOLDED;
        let (run, others) = rest.split_at(if whole { more + 1 } else { 1 });
        let processes: Vec<usize> = run.iter().flat_map(|piece| piece.processes.clone()).collect();
        words.push(match first.host {
            Some(_) => {
                let hosts = naming::hosts(run.iter().filter_map(|piece| piece.host));
                format!("{} on {hosts}", holding.name(&processes))
            }
            None => holding.name(&processes) + &unknown(&processes, &came, holding),
        });
        rest = others;
    }
    words.join(", ")
}

/// Absent processes that can be named together.
struct Piece<'a> {
    host: Option<&'a str>,
    processes: Vec<usize>,
}

impl Piece<'_> {
    /// Whether `process` is the next after its last one.
    fn is_before(&self, process: usize) -> bool {
        self.processes.last().is_some_and(|last| last + 1 == process)
    }

    /// Whether its processes follow each other.
    fn is_whole(&self) -> bool {
        self.is_before(self.processes[0] + self.processes.len())
    }
}

/// The host of each process, as far as it is known.
fn hosts<'a>(
    came: &[Option<&'a str>],
    told: &'a [String],
    seen: &[Seen<'a>],
) -> Vec<Option<&'a str>> {
    let mut hosts = came.to_vec();
    if told.len() == came.len() && agree(told, seen) {
        for (host, told) in hosts.iter_mut().zip(told) {
            host.get_or_insert(told);
        }
        return hosts;
    }
    for one in seen {
        for process in one.block.clone().unwrap_or_default() {
            match hosts.get_mut(process) {
                Some(host) if host.is_none_or(|host| host == one.host) => *host = Some(one.host),
                // It numbers processes otherwise than host by host.
                _ => return came.to_vec(),
            }
        }
    }
    hosts
}

/// Whether processes came from where the launcher's variables say, or from hosts that it calls otherwise (by
/// an address, or a name of ~/.ssh/config): then one name stands for one other, and for nobody's of its list.
/// Who came from elsewhere shows that its variables do not mean that.
fn agree(told: &[String], seen: &[Seen<'_>]) -> bool {
    let others = |one: &Seen<'_>| {
        let name = &told[one.process];
        is_one(one.host, name) || !told.iter().any(|other| is_one(one.host, other))
    };
    let mut host_of = BTreeMap::new();
    let mut name_of = BTreeMap::new();
    seen.iter().all(|one| {
        let (name, host) = (short(&told[one.process]), short(one.host));
        let is_same = *host_of.entry(name.clone()).or_insert(host.clone()) == host
            && *name_of.entry(host).or_insert(name.clone()) == name;
        is_same && others(one)
    })
}

/// Whether two names are of one host, with or without its domain.
fn is_one(one: &str, other: &str) -> bool {
    short(one) == short(other)
}

/// A name without its domain; an address as it is.
fn short(name: &str) -> String {
    let first = if name.parse::<IpAddr>().is_ok() { Some(name) } else { name.split('.').next() };
    first.unwrap_or_default().to_ascii_lowercase()
}

/// What is said of processes whose host nobody knows: where the nearest ones are that came.
fn unknown(processes: &[usize], came: &[Option<&str>], holding: Holding) -> String {
    let [first, ..] = processes else { return String::new() };
    let at = |process: usize| Some((process, (*came.get(process)?)?));
    let before = (0..*first).rev().find_map(at);
    let after = (first + processes.len()..came.len()).find_map(at);
    let is = if holding.each == 1 { "is" } else { "are" };
    let near: Vec<String> = before
        .into_iter()
        .chain(after)
        .map(|(process, host)| format!("{} {is} on {host}", holding.name(&[process])))
        .collect();
    format!(" on a host that the launcher does not name ({})", near.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RANKS: Holding = Holding { word: "rank", each: 1 };

    fn seen(process: usize, host: &str, block: Option<Range<usize>>) -> Seen<'_> {
        Seen { process, host, block }
    }

    /// 1,000 ranks on 125 hosts, of which those of 50 hosts and one more are missing.
    #[test]
    fn many_are_folded() {
        let names: Vec<String> = (0..125).map(|host| format!("node{host}")).collect();
        let came = |process: &usize| !(400..800).contains(process) && *process != 24;
        let block = |process: usize| Some(process / 8 * 8..process / 8 * 8 + 8);
        let seen: Vec<Seen<'_>> = (0..1000)
            .filter(came)
            .map(|process| seen(process, &names[process / 8], block(process)))
            .collect();
        let told: Vec<String> = (0..1000).map(|process| names[process / 8].clone()).collect();
        assert_eq!(
            describe(1000, &told, &seen, RANKS),
            "rank 24 on node3, ranks 400-799 on node[50-99]"
        );
        assert_eq!(
            describe(1000, &[], &seen, RANKS),
            "rank 24 on node3, ranks 400-799 on a host that the launcher does not name (rank 399 is on node49, rank 800 is on node100)"
        );
    }

    #[test]
    fn of_a_host_of_which_some_came() {
        let both = [seen(0, "a", Some(0..4)), seen(6, "b", Some(4..8))];
        assert_eq!(describe(8, &[], &both, RANKS), "ranks 1-3 on a, ranks 4, 5, 7 on b");
        let two = Holding { word: "rank", each: 2 };
        assert_eq!(describe(4, &[], &both[..1], two), "ranks 2-7 on a");
        let other = "ranks 2, 3 on a host that the launcher does not name (ranks 0, 1 are on a)";
        assert_eq!(describe(2, &[], &[seen(0, "a", None)], two), other);
        let doctor = Holding { word: "process", each: 1 };
        assert_eq!(doctor.name(&[1, 2]), "processes 1, 2");
    }

    #[test]
    fn whoever_contradicts_is_believed() {
        // mpirun --map-by node: 0 and 2 on a, 1 and 3 on b.
        let round = [seen(0, "a", Some(0..2)), seen(1, "b", Some(1..3))];
        assert_eq!(
            describe(4, &[], &round, RANKS),
            "ranks 2, 3 on a host that the launcher does not name (rank 1 is on b)"
        );
        let told = ["a", "a", "b.example.org", "b"].map(str::to_owned);
        assert!(describe(4, &told, &round, RANKS).contains("does not name"));
        let right = [seen(0, "A.example.org", None), seen(2, "b", None)];
        assert_eq!(describe(4, &told, &right, RANKS), "rank 1 on a, rank 3 on b");
    }

    /// -H names addresses, and hosts their own names.
    #[test]
    fn other_names_of_the_same_hosts() {
        let told = ["10.77.0.1", "10.77.0.1", "10.77.0.2", "10.77.0.2"].map(str::to_owned);
        let right = [seen(0, "node1", None), seen(2, "node2", None)];
        let named = "rank 1 on 10.77.0.1, rank 3 on 10.77.0.2";
        assert_eq!(describe(4, &told, &right, RANKS), named);
        for wrong in [[(0, "node1"), (2, "node1")], [(0, "node1"), (1, "node2")]] {
            let wrong = wrong.map(|(process, host)| seen(process, host, None));
            assert!(describe(4, &told, &wrong, RANKS).contains("does not name"));
        }
    }

    proptest! {
        /// Whatever is said by whom, those who did not come are named, and nobody else.
        #[test]
        fn nobody_who_came_is_missing(
            came in prop::collection::btree_map(1usize..20, ("[ab]", 0usize..20, 0usize..9), 0..20),
        ) {
            let seen: Vec<Seen<'_>> = std::iter::once(seen(0, "a", None))
                .chain(came.iter().map(|(process, (host, first, count))| {
                    seen(*process, host, Some(*first..first + count))
                }))
                .collect();
            let text = describe(20, &[], &seen, RANKS);
            let named = regex::Regex::new(r"ranks? ([0-9, -]+) on").unwrap();
            let mut missing = Vec::new();
            for (_, [numbers]) in named.captures_iter(&text).map(|found| found.extract()) {
                for word in numbers.split(", ") {
                    let (low, high) = word.split_once('-').unwrap_or((word, word));
                    missing.extend(low.parse::<usize>().unwrap()..=high.parse::<usize>().unwrap());
                }
            }
            let want: Vec<usize> = (1..20).filter(|process| !came.contains_key(process)).collect();
            prop_assert_eq!(missing, want, "{}", text);
        }
    }
}
