//! The origin of every element of a rank's buffers, for each collective.
//! Not how it gets there: the engine's algorithms do not use this, so that it can verify them.

use super::{BufferShape, Collective, Counts};
use crate::{alltoallv::Traffic, pattern::Content};

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
        match self.collective.spec().buffers {
            BufferShape::Uneven => (0..self.ranks).map(|to| self.pair(rank, to)).sum(),
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
        (self.collective.spec().output)(self, rank, in_place)
    }

    /// The same content in the whole receive buffer.
    pub(super) fn all(&self, content: Content) -> Vec<Stretch> {
        vec![Stretch { at: 0, len: self.counts.recv, content }]
    }

    /// One chunk from every rank, in rank order, from an element of its send buffer on.
    pub(super) fn chunks(&self, first: u64) -> Vec<Stretch> {
        let len = self.counts.param;
        (0..self.ranks)
            .map(|source| Stretch {
                at: source * len,
                len,
                content: Content::Copied { source, first },
            })
            .collect()
    }
}

/// Every rank has the reduction.
pub(super) fn reduced(shape: &Shape<'_>, _: usize, _: bool) -> Vec<Stretch> {
    shape.all(Content::Reduced { first: 0 })
}

/// The root has the reduction; in place the others still have what they gave.
pub(super) fn reduced_at_root(shape: &Shape<'_>, rank: usize, in_place: bool) -> Vec<Stretch> {
    shape.all(match rank == shape.root {
        true => Content::Reduced { first: 0 },
        false if in_place => Content::Contribution { rank, first: 0 },
        false => Content::Poison,
    })
}

/// Every rank has its chunk of the reduction.
pub(super) fn reduced_chunk(shape: &Shape<'_>, rank: usize, _: bool) -> Vec<Stretch> {
    shape.all(Content::Reduced { first: (rank * shape.counts.recv) as u64 })
}

/// Every rank has the root's buffer.
pub(super) fn of_root(shape: &Shape<'_>, _: usize, _: bool) -> Vec<Stretch> {
    shape.all(Content::Copied { source: shape.root, first: 0 })
}

/// Every rank has its chunk of the root's buffer.
pub(super) fn chunk_of_root(shape: &Shape<'_>, rank: usize, _: bool) -> Vec<Stretch> {
    let first = (rank * shape.counts.param) as u64;
    shape.all(Content::Copied { source: shape.root, first })
}

/// Every rank has the buffer of the rank before it.
pub(super) fn of_previous(shape: &Shape<'_>, rank: usize, _: bool) -> Vec<Stretch> {
    let source = (rank + shape.ranks - 1) % shape.ranks;
    shape.all(Content::Copied { source, first: 0 })
}

/// Every rank has the buffers of all, one behind the other.
pub(super) fn gathered(shape: &Shape<'_>, _: usize, _: bool) -> Vec<Stretch> {
    shape.chunks(0)
}

/// The root has them; in place the others still have their own chunk.
pub(super) fn gathered_at_root(shape: &Shape<'_>, rank: usize, in_place: bool) -> Vec<Stretch> {
    if rank == shape.root {
        return shape.chunks(0);
    }
    if !in_place {
        return shape.all(Content::Poison);
    }
    let (len, all) = (shape.counts.param, shape.counts.recv);
    let own = rank * len;
    vec![
        Stretch { at: 0, len: own, content: Content::Poison },
        Stretch { at: own, len, content: Content::Copied { source: rank, first: 0 } },
        Stretch { at: own + len, len: all - own - len, content: Content::Poison },
    ]
}

/// Every rank has its chunk of every rank's buffer.
pub(super) fn exchanged(shape: &Shape<'_>, rank: usize, _: bool) -> Vec<Stretch> {
    shape.chunks((rank * shape.counts.param) as u64)
}

/// Segments of every source in rank order; the rest of a buffer that is longer than this rank needs stays
/// untouched.
pub(super) fn exchanged_unevenly(shape: &Shape<'_>, rank: usize, _: bool) -> Vec<Stretch> {
    let mut at = 0;
    let mut stretches: Vec<Stretch> = (0..shape.ranks)
        .map(|source| {
            let first = (0..rank).map(|to| shape.pair(source, to)).sum::<usize>() as u64;
            let len = shape.pair(source, rank);
            let stretch = Stretch { at, len, content: Content::Copied { source, first } };
            at += len;
            stretch
        })
        .collect();
    stretches.push(Stretch { at, len: shape.counts.recv - at, content: Content::Poison });
    stretches
}

/// There is no data.
pub(super) fn nothing(_: &Shape<'_>, _: usize, _: bool) -> Vec<Stretch> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every element of the receive buffer is covered exactly once.
        #[test]
        fn outputs_cover_the_buffer(
            which in 0..Collective::ALL.len(), ranks in 1usize..18, bytes in 0usize..10_000, root in 0usize..17,
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
