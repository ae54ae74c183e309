//! `Pattern …` of the GRAPH subsystem: the graphs that NCCL found, their bandwidth and worst path.
//! Not the rings and trees themselves, and not a measurement.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::{Counted, keep};

/// The most distinct graphs that are kept.
const MAX_GRAPHS: usize = 256;

/// A graph that NCCL found by search (NCCL's src/graph/search.cc, `ncclTopoPrintGraph`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// NCCL_TOPO_PATTERN: 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNetDirect.
    pub pattern: u32,
    /// Whether a ring or tree may use different NICs on different nodes: 0 no, 1 yes, 2 alternating.
    pub cross_nic: u32,
    /// Channels.
    pub channels: u32,
    /// GB/s of a channel within a node.
    pub bw_intra: f64,
    /// GB/s of a channel between nodes.
    pub bw_inter: f64,
    /// The longest path within a node: LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS.
    pub type_intra: String,
    /// The longest path to a NIC.
    pub type_inter: String,
}

/// The graphs read so far.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    all: Vec<Counted<Graph>>,
    left_out: u64,
}

impl Graphs {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, cursor: Cursor<'_>) -> Option<()> {
        let graph = graph(cursor)?;
        if let Some(known) = self.all.iter_mut().find(|known| known.what == graph) {
            known.said += 1;
        } else if self.all.len() < MAX_GRAPHS {
            self.all.push(Counted { what: graph, said: 1 });
        } else {
            self.left_out += 1;
        }
        Some(())
    }

    /// In the order of their first mention.
    pub(super) fn finish(self, left_out: &mut u64) -> Vec<Counted<Graph>> {
        *left_out += self.left_out;
        self.all
    }
}

fn graph(mut at: Cursor<'_>) -> Option<Graph> {
    let pattern = at.field("Pattern ")?;
    let cross_nic = at.field(", crossNic ")?;
    let channels = at.field(", nChannels ")?;
    // `speed` until 2.11.
    at.one_of(&[", bw ", ", speed "])?;
    let bw_intra = at.decimal()?;
    at.literal("/")?;
    let bw_inter = at.decimal()?;
    at.literal(", type ")?;
    let type_intra = keep(at.until("/")?);
    let type_inter = keep(at.until(", sameChannels ")?);
    at.one_of(&["0", "1"])?;
    at.end()?;
    Some(Graph { pattern, cross_nic, channels, bw_intra, bw_inter, type_intra, type_inter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_kept_once_and_counted() {
        let mut graphs = Graphs::default();
        let line = "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/12.500000, type NVL/PIX, sameChannels 1";
        let old = "Pattern 4, crossNic 0, nChannels 12, speed 20.000000/20.000000, type NVL/PIX, sameChannels 1";
        for text in [line, line, old] {
            assert!(graphs.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        for text in [
            "Pattern 4",
            "Pattern 4, crossNic 0, nChannels 12, bw 1.2.3/1, type a/b, sameChannels 1",
        ] {
            assert_eq!(graphs.read(Cursor::new(text, false)), None, "{text}");
        }
        let all = graphs.finish(&mut 0);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].said, all[0].what.channels, all[0].what.bw_inter), (2, 12, 12.5));
        assert_eq!(
            (all[0].what.type_intra.as_str(), all[0].what.type_inter.as_str()),
            ("NVL", "PIX")
        );
    }
}
