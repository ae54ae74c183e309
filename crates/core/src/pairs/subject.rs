//! The subjects that can be slow: a rank as sender or receiver, a host, the path between two of
//! either; and the cells that each would slow.
//! Not whether it is slow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::Figures;

/// A subject. The narrower ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Subject {
    /// A cell: from a rank to another.
    Cell {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// Both directions between two ranks.
    Link {
        /// The ranks, the smaller first.
        between: [usize; 2],
    },
    /// All pairs from a host to another.
    Path {
        /// Number of the sending host.
        from: usize,
        /// Number of the receiving host.
        to: usize,
    },
    /// Both directions between two hosts.
    Paths {
        /// The hosts, the smaller first.
        between: [usize; 2],
    },
    /// A row: a rank as sender.
    Sender {
        /// The rank.
        rank: usize,
    },
    /// A column: a rank as receiver.
    Receiver {
        /// The rank.
        rank: usize,
    },
    /// A rank, in both roles.
    Rank {
        /// The rank.
        rank: usize,
    },
    /// A host as sender to others.
    HostSends {
        /// Its number.
        host: usize,
    },
    /// A host as receiver from others.
    HostReceives {
        /// Its number.
        host: usize,
    },
    /// A host, in both roles.
    Host {
        /// Its number.
        host: usize,
    },
}

impl Subject {
    /// Every subject that slows a pair's figure; hosts only where one has several ranks.
    fn of(from: usize, to: usize, hosts: &[usize], by_host: bool) -> Vec<Subject> {
        let between = [from.min(to), from.max(to)];
        let mut all = vec![
            Subject::Cell { from, to },
            Subject::Link { between },
            Subject::Sender { rank: from },
            Subject::Receiver { rank: to },
            Subject::Rank { rank: from },
            Subject::Rank { rank: to },
        ];
        let (Some(&a), Some(&b)) = (hosts.get(from), hosts.get(to)) else { return all };
        if by_host {
            all.push(Subject::Host { host: a });
        }
        if by_host && a != b {
            all.extend([
                Subject::Path { from: a, to: b },
                Subject::Paths { between: [a.min(b), a.max(b)] },
                Subject::HostSends { host: a },
                Subject::HostReceives { host: b },
                Subject::Host { host: b },
            ]);
        }
        all
    }

    /// Whether a cell belongs to it.
    pub fn slows(&self, from: usize, to: usize, hosts: &[usize]) -> bool {
        let host = |rank: usize| hosts.get(rank).copied();
        let (a, b) = (host(from), host(to));
        match *self {
            Subject::Cell { from: x, to: y } => (from, to) == (x, y),
            Subject::Link { between } => [from.min(to), from.max(to)] == between,
            Subject::Path { from: x, to: y } => (a, b) == (Some(x), Some(y)),
            Subject::Paths { between: [x, y] } => {
                (a, b) == (Some(x), Some(y)) || (a, b) == (Some(y), Some(x))
            }
            Subject::Sender { rank } => from == rank,
            Subject::Receiver { rank } => to == rank,
            Subject::Rank { rank } => from == rank || to == rank,
            Subject::HostSends { host } => a == Some(host) && b != a,
            Subject::HostReceives { host } => b == Some(host) && a != b,
            Subject::Host { host } => a == Some(host) || b == Some(host),
        }
    }

    /// Its ranks.
    pub fn ranks(&self, hosts: &[usize]) -> Vec<usize> {
        let of = |wanted: &[usize]| {
            let at = hosts.iter().enumerate().filter(|(_, host)| wanted.contains(host));
            at.map(|(rank, _)| rank).collect()
        };
        match *self {
            Subject::Cell { from, to } => vec![from, to],
            Subject::Link { between } => between.to_vec(),
            Subject::Sender { rank } | Subject::Receiver { rank } | Subject::Rank { rank } => {
                vec![rank]
            }
            Subject::Path { from, to } => of(&[from, to]),
            Subject::Paths { between } => of(&between),
            Subject::HostSends { host }
            | Subject::HostReceives { host }
            | Subject::Host { host } => of(&[host]),
        }
    }
}

/// Subjects that would slow the same cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// The narrowest of them.
    pub subject: Subject,
    /// The only class in which it is slow, where it has cells of other classes too.
    pub only: Option<usize>,
    /// The others.
    pub alike: Vec<Subject>,
    /// Indices of their cells, by class, ascending.
    pub cells: Vec<(usize, Vec<usize>)>,
}

impl Candidate {
    /// Indices of its cells.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.cells.iter().flat_map(|(_, cells)| cells).copied()
    }
}

/// Every subject that could explain slow cells: each in each class, and in all classes at once.
pub(super) fn candidates(figures: &Figures) -> Vec<Candidate> {
    let hosts = figures.hosts();
    let mut ranks_of = BTreeMap::<usize, usize>::new();
    hosts.iter().for_each(|host| *ranks_of.entry(*host).or_default() += 1);
    let by_host = ranks_of.len() > 1 && ranks_of.values().any(|ranks| *ranks > 1);
    let mut subjects = BTreeMap::<Subject, BTreeMap<usize, Vec<usize>>>::new();
    for (place, cell) in figures.cells().iter().enumerate() {
        for subject in Subject::of(cell.from, cell.to, hosts, by_host) {
            subjects.entry(subject).or_default().entry(cell.class).or_default().push(place);
        }
    }
    // The narrowest subject comes first, and keeps the cells.
    let mut known =
        BTreeMap::<Vec<(usize, Vec<usize>)>, (Subject, Option<usize>, Vec<Subject>)>::new();
    let mut note = |subject: Subject, only: Option<usize>, cells: Vec<(usize, Vec<usize>)>| {
        let (first, _, alike) = known.entry(cells).or_insert((subject, only, Vec::new()));
        if *first != subject && !alike.contains(&subject) {
            alike.push(subject);
        }
    };
    for (subject, classes) in subjects {
        let all: Vec<_> = classes.into_iter().collect();
        if all.len() > 1 {
            for (class, cells) in &all {
                note(subject, Some(*class), vec![(*class, cells.clone())]);
            }
        }
        note(subject, None, all);
    }
    let candidate = |(cells, (subject, only, alike))| Candidate { subject, only, alike, cells };
    known.into_iter().map(candidate).collect()
}
