//! How the bytes that cross links grow with the number of hosts, by algorithm.
//! Not rates, and not a bound (`bound`): without a machine only ratios are known.

use busbw_core::Collective;

use super::algorithm::Algorithm;
use super::traffic::{Ranks, crossing};

/// Bytes per byte of the size column, in the busier direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossed {
    /// What a GPU sends to others, wherever they are.
    pub gpu: f64,
    /// What leaves the busiest host.
    pub host: f64,
}

/// The bytes that cross with `per_node` ranks on each of `nodes` hosts. NVLink is taken to end at a host.
///
/// # Errors
/// Why they are not known.
pub fn crossed(
    collective: Collective,
    algorithm: Algorithm,
    nodes: usize,
    per_node: usize,
) -> Result<Crossed, String> {
    let Some(all) = nodes.checked_mul(per_node).filter(|all| *all > 1) else {
        return Err("two ranks at least".to_owned());
    };
    let crossing =
        crossing(collective, algorithm, Ranks { all, island: per_node, islands: nodes })?;
    Ok(Crossed { gpu: crossing.gpu, host: crossing.outside })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/limits.md: a ring sends 2(n−1)/n of S, two hosts of a tree S and four 2 S, alltoall (n−g)/n of each rank's S.
    #[test]
    fn by_hand() {
        let of = |collective, algorithm, nodes| {
            crossed(collective, algorithm, nodes, 8).expect("known").host
        };
        assert_eq!(of(Collective::AllReduce, Algorithm::Ring, 2), 1.875);
        assert_eq!(of(Collective::AllReduce, Algorithm::Ring, 4), 1.9375);
        assert_eq!(of(Collective::AllReduce, Algorithm::Tree, 2), 1.0);
        assert_eq!(of(Collective::AllReduce, Algorithm::Tree, 4), 2.0);
        assert_eq!(of(Collective::AllToAll, Algorithm::Direct, 2), 4.0);
        assert_eq!(of(Collective::AllToAll, Algorithm::Direct, 4), 6.0);
        assert!(crossed(Collective::AllReduce, Algorithm::Ring, 1, 1).is_err());
        assert!(crossed(Collective::AllToAll, Algorithm::Ring, 2, 8).is_err());
    }
}
