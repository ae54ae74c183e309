//! The origin of every element of a rank's buffers, for each collective.
//! Not how it gets there: the algorithms of `busbw-shm` do not use this, so that it can verify them.

use crate::{Collective, alltoallv::Traffic, collective::Counts, pattern::Content};

/// A case as its layout sees it: collective, counts and ranks.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// The collective.
    pub collective: Collective,
    /// Its element counts.
    pub counts: Counts,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// Root rank, where there is one.
    pub root: usize,
    /// Traffic of alltoallv.
    pub traffic: &'a Traffic,
    /// Bytes of one element, for alltoallv's rounding.
    pub element_bytes: usize,
}

/// A stretch of a buffer, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Element offset.
    pub at: usize,
    /// Elements.
    pub len: usize,
    /// Its content.
    pub content: Content,
}

impl Shape<'_> {
    fn total_bytes(&self) -> usize {
        self.counts.param * self.ranks * self.element_bytes
    }

    /// Elements that rank `from` sends to rank `to` in alltoallv.
    pub fn pair(&self, from: usize, to: usize) -> usize {
        self.traffic.elements(from, to, self.ranks, self.total_bytes(), self.element_bytes)
    }

    /// Elements in this rank's own send buffer.
    pub fn send_elements(&self, rank: usize) -> usize {
        match self.collective {
            Collective::AllToAllV => (0..self.ranks).map(|to| self.pair(rank, to)).sum(),
            _ => self.counts.send,
        }
    }

    /// The content of rank `rank`'s send buffer, from its first element on.
    pub fn input(&self, rank: usize) -> Content {
        if self.collective.reduces() {
            Content::Contribution { rank, first: 0 }
        } else {
            Content::Copied { source: rank, first: 0 }
        }
    }

    /// The expected content of rank `rank`'s receive buffer, as stretches from its first element on
    /// that do not overlap. `in_place` matters for ranks that receive nothing: their buffer still
    /// holds what they sent.
    pub fn output(&self, rank: usize, in_place: bool) -> Vec<Stretch> {
        let all = |content| vec![Stretch { at: 0, len: self.counts.recv, content }];
        let chunk = self.counts.param;
        let is_root = rank == self.root;
        match self.collective {
            Collective::AllReduce => all(Content::Reduced { first: 0 }),
            Collective::Reduce if is_root => all(Content::Reduced { first: 0 }),
            Collective::Reduce if in_place => all(Content::Contribution { rank, first: 0 }),
            Collective::Reduce => all(Content::Poison),
            Collective::ReduceScatter => {
                all(Content::Reduced { first: (rank * self.counts.recv) as u64 })
            }
            Collective::Broadcast => all(Content::Copied { source: self.root, first: 0 }),
            Collective::SendRecv => {
                let source = (rank + self.ranks - 1) % self.ranks;
                all(Content::Copied { source, first: 0 })
            }
            Collective::Scatter => {
                all(Content::Copied { source: self.root, first: (rank * chunk) as u64 })
            }
            Collective::AllGather | Collective::HyperCube => self.concatenation(|_| 0),
            Collective::Gather if is_root => self.concatenation(|_| 0),
            Collective::Gather => self.untouched_gather(rank, in_place),
            Collective::AllToAll => self.concatenation(|_| (rank * chunk) as u64),
            Collective::AllToAllV => self.received_alltoallv(rank),
            Collective::Barrier => Vec::new(),
        }
    }

    /// One chunk from every rank, in rank order.
    fn concatenation(&self, first: impl Fn(usize) -> u64) -> Vec<Stretch> {
        let len = self.counts.param;
        (0..self.ranks)
            .map(|source| Stretch {
                at: source * len,
                len,
                content: Content::Copied { source, first: first(source) },
            })
            .collect()
    }

    fn untouched_gather(&self, rank: usize, in_place: bool) -> Vec<Stretch> {
        let (len, all) = (self.counts.param, self.counts.recv);
        if !in_place {
            return vec![Stretch { at: 0, len: all, content: Content::Poison }];
        }
        let own = rank * len;
        vec![
            Stretch { at: 0, len: own, content: Content::Poison },
            Stretch { at: own, len, content: Content::Copied { source: rank, first: 0 } },
            Stretch { at: own + len, len: all - own - len, content: Content::Poison },
        ]
    }

    /// Segments of every source in rank order; the rest of a buffer that is longer than this rank
    /// needs stays untouched.
    fn received_alltoallv(&self, rank: usize) -> Vec<Stretch> {
        let mut at = 0;
        let mut stretches: Vec<Stretch> = (0..self.ranks)
            .map(|source| {
                let first = (0..rank).map(|to| self.pair(source, to)).sum::<usize>() as u64;
                let len = self.pair(source, rank);
                let stretch = Stretch { at, len, content: Content::Copied { source, first } };
                at += len;
                stretch
            })
            .collect();
        stretches.push(Stretch { at, len: self.counts.recv - at, content: Content::Poison });
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every element of the receive buffer is covered exactly once.
        #[test]
        fn outputs_cover_the_buffer(
            which in 0usize..11, ranks in 1usize..18, bytes in 0usize..10_000, root in 0usize..17,
            in_place in any::<bool>(), spread in 0.0f64..1.0,
        ) {
            let collective = Collective::ALL[which];
            let traffic = Traffic::Generated { spread };
            let counts = collective.counts(bytes, 4, ranks, &traffic);
            let shape = Shape { collective, counts, ranks, root: root % ranks, traffic: &traffic, element_bytes: 4 };
            for rank in 0..ranks {
                let mut at = 0;
                for stretch in shape.output(rank, in_place) {
                    prop_assert_eq!(stretch.at, at);
                    at += stretch.len;
                }
                prop_assert_eq!(at, counts.recv);
            }
        }
    }
}
