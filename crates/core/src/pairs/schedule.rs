//! The pairs of each round: no rank is in two pairs at once.
//! Not how a pair is measured, and not what the figures mean.
//!
//! The tournament is the circle method: ranks 0 to m-1 (m odd) are on a circle, and x and y are
//! paired in round r where x + y = 2r modulo m. A rank that would be paired with itself is paired
//! with rank m, if there is one, or is idle. Every pair occurs once, in n-1 rounds for even n and n
//! for odd n; no schedule has fewer.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::pattern::derive_seed;

/// Rounds of pairs. A rank is at most once in a round; both directions of a pair belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schedule {
    /// The pairs of each round, the smaller rank first.
    pub rounds: Vec<Vec<[usize; 2]>>,
}

impl Schedule {
    /// Every pair once, in rounds whose pairs are alike: all within hosts, or all between hosts that
    /// are paired for it, so that as many pairs share a host's NICs in every such round. `hosts` are
    /// the ranks of each host. One round more than the fewest where the number of hosts or of ranks a
    /// host is odd and the other is not; hosts of different sizes get the plain tournament.
    pub fn by_hosts(hosts: &[Vec<usize>]) -> Schedule {
        let local = hosts.first().map_or(0, Vec::len);
        if local < 2 || hosts.iter().any(|host| host.len() != local) {
            return Schedule { rounds: tournament(&hosts.concat()) };
        }
        let within: Vec<_> = hosts.iter().map(|host| tournament(host)).collect();
        let numbers: Vec<usize> = (0..hosts.len()).collect();
        let mut rounds = Vec::new();
        if hosts.len().is_multiple_of(2) {
            let inner = within.first().map_or(0, Vec::len);
            rounds.extend((0..inner).map(|round| together(&within, round)));
        }
        for pairing in tournament(&numbers) {
            let resting: Vec<_> = (numbers.iter())
                .filter(|host| !pairing.iter().any(|pair| pair.contains(host)))
                .filter_map(|host| within.get(*host).cloned())
                .collect();
            for shift in 0..local {
                // A host that is idle in this round uses the time for its own pairs.
                let mut round =
                    if hosts.len() > 1 { together(&resting, shift) } else { Vec::new() };
                for [a, b] in &pairing {
                    let there = hosts[*b].iter().cycle().skip(shift);
                    round.extend(hosts[*a].iter().zip(there).map(|(x, y)| in_order(*x, *y)));
                }
                rounds.push(round);
            }
        }
        if hosts.len() == 1 {
            rounds = within.into_iter().next().unwrap_or_default();
        }
        Schedule { rounds }
    }

    /// Rail by rail: only ranks with the same local rank, each pair once. `hosts` are the ranks of
    /// each host in the order of their local ranks.
    pub fn by_rails(hosts: &[Vec<usize>]) -> Schedule {
        let numbers: Vec<usize> = (0..hosts.len()).collect();
        let rounds = tournament(&numbers).into_iter().map(|pairing| {
            let rails = |[a, b]: [usize; 2]| {
                hosts[a].iter().zip(&hosts[b]).map(|(x, y)| in_order(*x, *y)).collect::<Vec<_>>()
            };
            pairing.into_iter().flat_map(rails).collect()
        });
        Schedule { rounds: rounds.collect() }
    }

    /// `peers` peers for each rank, drawn with `seed`, in as many rounds: for rank numbers whose
    /// pairs would take too long. With an odd number of ranks one is idle in each round, another
    /// each time. From two peers on every rank is connected with every other, so that all can be
    /// compared.
    pub fn sample(ranks: usize, peers: usize, seed: u64) -> Schedule {
        let seats = shuffled(ranks, derive_seed(seed, 0));
        let mut rounds = tournament(&seats);
        if peers >= rounds.len() {
            return Schedule { rounds };
        }
        // Two neighbouring rounds of a circle make one ring of all ranks; the others are drawn.
        let first = (derive_seed(seed, 1) % rounds.len() as u64) as usize;
        rounds.rotate_left(first);
        let mut drawn = rounds.split_off(peers.min(2));
        let order = shuffled(drawn.len(), derive_seed(seed, 2));
        rounds.extend(order.iter().take(peers - rounds.len()).map(|at| drawn[*at].split_off(0)));
        Schedule { rounds }
    }

    /// Every pair of it, round by round.
    pub fn pairs(&self) -> impl Iterator<Item = [usize; 2]> + '_ {
        self.rounds.iter().flatten().copied()
    }

    /// Whether no rank is in two pairs of a round, or in a pair with itself, and all are below `ranks`.
    pub fn is_sound(&self, ranks: usize) -> bool {
        self.rounds.iter().all(|round| {
            let mut seen = BTreeSet::new();
            round.iter().flatten().all(|rank| *rank < ranks && seen.insert(*rank))
        })
    }
}

/// The circle method over `members`.
fn tournament(members: &[usize]) -> Vec<Vec<[usize; 2]>> {
    let n = members.len();
    if n < 2 {
        return Vec::new();
    }
    let circle = if n.is_multiple_of(2) { n - 1 } else { n };
    let meet = |round: usize, x: usize| {
        let y = (2 * round + circle - x) % circle;
        let other = if y == x { circle } else { y };
        (other > x && other < n).then(|| in_order(members[x], members[other]))
    };
    (0..circle).map(|round| (0..circle).filter_map(|x| meet(round, x)).collect()).collect()
}

fn together(hosts: &[Vec<Vec<[usize; 2]>>], round: usize) -> Vec<[usize; 2]> {
    hosts.iter().filter_map(|rounds| rounds.get(round)).flatten().copied().collect()
}

pub(super) fn in_order(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

/// 0 to `count`-1 in an order drawn by `seed` (Fisher and Yates).
pub(super) fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = derive_seed(seed, last as u64) % (last as u64 + 1);
        order.swap(last, other as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(count: usize, local: usize) -> Vec<Vec<usize>> {
        (0..count).map(|host| (host * local..(host + 1) * local).collect()).collect()
    }

    fn distinct(schedule: &Schedule) -> usize {
        let pairs: BTreeSet<_> = schedule.pairs().collect();
        assert_eq!(pairs.len(), schedule.pairs().count(), "a pair meets twice");
        pairs.len()
    }

    #[test]
    fn tournaments_are_whole_disjoint_and_as_short_as_can_be() {
        let of = |n| Schedule { rounds: tournament(&(0..n).collect::<Vec<_>>()) };
        for n in 2..=65 {
            let schedule = of(n);
            assert!(schedule.is_sound(n), "{n}");
            assert_eq!(distinct(&schedule), n * (n - 1) / 2, "{n}");
            assert_eq!(schedule.rounds.len(), n - 1 + n % 2, "{n}");
        }
        assert!(of(1).rounds.is_empty());
        assert_eq!(of(4).rounds[1], [[0, 2], [1, 3]]);
    }

    #[test]
    fn rounds_by_hosts_are_alike() {
        for (count, local) in (1..9).flat_map(|h| (1..9).map(move |l| (h, l))) {
            let (n, schedule) = (count * local, Schedule::by_hosts(&hosts(count, local)));
            assert!(schedule.is_sound(n), "{count} x {local}");
            assert_eq!(distinct(&schedule), n * (n - 1) / 2, "{count} x {local}");
            let fewest = if n < 2 { 0 } else { n - 1 + n % 2 };
            assert!(schedule.rounds.len() <= fewest + 1, "{count} x {local}");
            let crossing = |round: &Vec<[usize; 2]>| {
                round.iter().filter(|[a, b]| a / local != b / local).count()
            };
            let full = count / 2 * local;
            assert!(schedule.rounds.iter().map(crossing).all(|c| c == 0 || c == full));
        }
        let uneven = Schedule::by_hosts(&[vec![0, 1], vec![2]]);
        assert_eq!(distinct(&uneven), 3);
    }

    #[test]
    fn rails_stay_apart() {
        for (count, local) in [(2, 8), (4, 8), (5, 3), (1, 4)] {
            let schedule = Schedule::by_rails(&hosts(count, local));
            assert!(schedule.is_sound(count * local));
            assert_eq!(distinct(&schedule), local * count * (count - 1) / 2);
            assert!(schedule.pairs().all(|[a, b]| a % local == b % local));
            assert_eq!(schedule.rounds.len(), if count < 2 { 0 } else { count - 1 + count % 2 });
        }
    }

    proptest! {
        #[test]
        fn samples_are_even_and_connected(n in 2_usize..200, peers in 2_usize..12, seed: u64) {
            let schedule = Schedule::sample(n, peers, seed);
            prop_assert!(schedule.is_sound(n));
            prop_assert_eq!(&schedule, &Schedule::sample(n, peers, seed));
            distinct(&schedule);
            let rounds = peers.min(n - 1 + n % 2);
            prop_assert_eq!(schedule.rounds.len(), rounds);
            let mut met = vec![Vec::new(); n];
            for [a, b] in schedule.pairs() {
                met[a].push(b);
                met[b].push(a);
            }
            prop_assert!(met.iter().all(|peers| peers.len() + n % 2 >= rounds));
            let (mut reached, mut next) = (BTreeSet::from([0]), vec![0]);
            while let Some(rank) = next.pop() {
                next.extend(met[rank].iter().filter(|peer| reached.insert(**peer)));
            }
            prop_assert_eq!(reached.len(), n);
        }
    }
}
