//! NCCL's double binary tree between nodes, as far as it says how much a node sends.
//! Not which node is whose parent in a run: the log tells that.

/// Bytes that the busiest node sends per byte of an all_reduce of S over two trees of S/2 each: a
/// node sends S/2 over each of its edges, up or down. Two nodes have one edge in each tree (S),
/// three at most three in both (1.5 S), more at most four: inner in one tree, leaf in the other (2 S).
/// NCCL's src/graph/trees.cc, `ncclGetDtree`.
pub fn sent_by_busiest_node(nodes: usize) -> f64 {
    match nodes {
        0 | 1 => 0.0,
        2 => 1.0,
        3 => 1.5,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parent in the binary tree that alternates leaves and inner nodes, with root 0.
    fn parent(nodes: usize, node: usize) -> usize {
        let bit = 1 << node.trailing_zeros();
        let up = (node ^ bit) | (bit << 1);
        if up >= nodes { node ^ bit } else { up }
    }

    /// Edges of each node in both trees: the second is mirrored, or shifted by one where odd.
    fn edges(nodes: usize) -> Vec<usize> {
        let mut edges = vec![0; nodes];
        let second = |node: usize| {
            if nodes % 2 == 1 { (node + 1) % nodes } else { nodes - 1 - node }
        };
        for node in 1..nodes {
            let up = parent(nodes, node);
            for end in [node, up, second(node), second(up)] {
                edges[end] += 1;
            }
        }
        edges
    }

    #[test]
    fn the_busiest_node_of_real_trees() {
        for nodes in 1..300 {
            let most = edges(nodes).into_iter().max().unwrap_or(0);
            assert_eq!(most as f64 / 2.0, sent_by_busiest_node(nodes), "{nodes} nodes");
        }
    }
}
