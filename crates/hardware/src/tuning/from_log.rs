//! A communicator from NCCL's log; facts that the log lacks are inferred.
//! Not the log's parser (`busbw_library_logs::nccl`).

use super::communicator::{Graph, Version};
use super::inference::{Inferred, infer};
use crate::limits::RankPlacement;
use crate::machine::Machine;
use crate::topology::NcclPath;
use busbw_library_logs::{nccl as nccl_log, nccl::NcclFacts};

const UNKNOWN_RELEASE: &str = "a release of NCCL whose model is known, 2.18 to 2.30";

/// The communicator of a run with a log. Graphs in the log (GRAPH) and channels (INIT) replace inferred
/// ones. Where ranks found different graphs the slowest counts, as in NCCL.
///
/// # Errors
/// The names of the facts that are missing.
pub fn from_log(
    facts: &NcclFacts,
    machine: &Machine,
    placement: &RankPlacement,
) -> Result<Inferred, Vec<String>> {
    let version = facts.versions.first().and_then(|said| Version::from_text(&said.what.text));
    let version = version.ok_or_else(|| vec![UNKNOWN_RELEASE.to_owned()])?;
    let mut inferred = infer(machine, placement, version)?;
    inferred.apply_log(facts);
    Ok(inferred)
}

impl Inferred {
    /// Replaces inferred facts by those of a log.
    pub fn apply_log(&mut self, facts: &NcclFacts) {
        let slowest = |patterns: &[u32]| {
            let found = facts.graphs.iter().map(|said| &said.what);
            found
                .filter(|graph| patterns.contains(&graph.pattern))
                .min_by(|a, b| a.bw_inter.total_cmp(&b.bw_inter))
        };
        let comm = &mut self.communicator;
        let mut ring_is_known = false;
        if let Some(graph) = slowest(&[4]).and_then(|said| graph(said, comm.graphs.ring)) {
            comm.graphs.ring = graph;
            ring_is_known = true;
        }
        if let Some(said) = slowest(&[1, 2, 3])
            && let Some(graph) = graph(said, comm.graphs.tree)
        {
            comm.graphs.tree = graph;
            comm.graphs.plain_tree = said.pattern == 3;
        }
        if let Some(graph) = slowest(&[5]).and_then(|said| graph(said, comm.graphs.nvls)) {
            comm.graphs.nvls = graph;
        }
        if let Some(said) = facts.channels.iter().max_by_key(|said| said.said) {
            comm.channels = said.what.coll;
            comm.nvls_channels = said.what.nvls;
            comm.nvls = said.what.nvls > 0;
        }
        if ring_is_known {
            self.guessed.clear();
        }
    }
}

fn graph(said: &nccl_log::Graph, before: Graph) -> Option<Graph> {
    Some(Graph {
        channels: said.channels,
        bw_intra: said.bw_intra as f32,
        bw_inter: said.bw_inter as f32,
        type_intra: NcclPath::from_name(&said.type_intra)?,
        type_inter: NcclPath::from_name(&said.type_inter)?,
        ..before
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ready;
    use busbw_library_logs::nccl::Parser;

    /// Lines of a public log of 2.27.7 on two A100.
    #[test]
    fn a_log_replaces_guesses() {
        let mut parser = Parser::new();
        for line in [
            "mew0:1:1 [0] NCCL INFO NCCL version 2.27.7+cuda13.0",
            "mew0:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 11, bw 20.000000/18.000000, type NVL/PIX, sameChannels 1",
            "mew0:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",
            "mew0:1:1 [0] NCCL INFO Pattern 3, crossNic 0, nChannels 12, bw 40.000000/40.000000, type NVL/PIX, sameChannels 0",
            "mew0:1:1 [0] NCCL INFO 22 coll channels, 22 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
        ] {
            parser.line(line);
        }
        let facts = parser.finish();
        let machine = ready("dgx-a100").expect("ready");
        let got = from_log(&facts, &machine, &RankPlacement::new(1, 2)).expect("known");
        let comm = got.communicator;
        assert_eq!(comm.version.minor, 27);
        assert_eq!((comm.graphs.ring.channels, comm.graphs.ring.bw_inter), (11, 18.0));
        assert_eq!((comm.graphs.tree.bw_intra, comm.graphs.plain_tree), (40.0, true));
        assert_eq!(comm.channels, 22);
        assert!(got.guessed.is_empty());
        let silent = from_log(&NcclFacts::default(), &machine, &RankPlacement::new(1, 2));
        assert_eq!(silent, Err(vec![UNKNOWN_RELEASE.to_owned()]));
    }
}
