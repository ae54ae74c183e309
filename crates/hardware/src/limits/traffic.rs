//! Bytes that cross each kind of link, per byte of the size column, for every collective and algorithm.
//! Not the rates of links (`resource`).

use super::algorithm::Algorithm;
use super::trees::sent_by_busiest_node;
use busbw_core::Collective;
use busbw_core::alltoallv::Traffic;

/// Bytes per byte of the size column, in the busier of the two directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Crossing {
    /// Between a GPU and others of its island.
    pub inside: f64,
    /// The same where rings leave at every GPU in turn, so that each carries less inside.
    pub relieved: f64,
    /// Between a GPU and anything, for GPUs whose only link is PCIe.
    pub gpu: f64,
    /// Between an island and others, over all its NICs.
    pub outside: f64,
    /// Between two sockets of a node, each way, if its ranks are spread over both evenly; `None`
    /// where the algorithm leaves open what crosses.
    pub sockets: Option<f64>,
    /// Steps that depend on each other, and how many of them are between islands.
    pub steps: Option<[usize; 2]>,
}

/// Ranks in all, per island, and islands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks {
    pub all: usize,
    pub island: usize,
    pub islands: usize,
}

/// The bytes that cross.
///
/// # Errors
/// Why they are not known.
pub(super) fn crossing(
    collective: Collective,
    algorithm: Algorithm,
    ranks: Ranks,
) -> Result<Crossing, String> {
    if !algorithm.serves(collective) {
        return Err(format!("{algorithm} does not do {}", collective.name()));
    }
    let several = ranks.islands > 1;
    match algorithm {
        Algorithm::Ring => Ok(ring(collective, ranks)),
        Algorithm::Tree => Ok(tree(ranks)),
        Algorithm::CollNetDirect | Algorithm::CollNetChain if !several => {
            Err(format!("{algorithm} needs several nodes"))
        }
        Algorithm::CollNetDirect | Algorithm::CollNetChain => Ok(collnet(collective, ranks)),
        Algorithm::NvlsTree if !several => Err("NVLSTree needs several nodes".to_owned()),
        Algorithm::Nvls | Algorithm::NvlsTree if ranks.island < 2 => {
            Err(format!("{algorithm} needs two GPUs in an NVLink domain"))
        }
        Algorithm::Nvls => Ok(nvls(collective, ranks)),
        Algorithm::NvlsTree => {
            Ok(Crossing { outside: sent_by_busiest_node(ranks.islands), ..nvls(collective, ranks) })
        }
        Algorithm::Pat if ranks.island > 1 => Err("PAT needs one rank a node".to_owned()),
        Algorithm::Pat => Ok(ring(collective, ranks)),
        Algorithm::Direct if collective == Collective::AllToAllV => {
            Err("who sends how much to whom in alltoallv is not known".to_owned())
        }
        Algorithm::Direct => direct(collective, ranks),
    }
}

/// Every rank sends to the next what it does not keep: all_reduce twice (n−1)/n of S, all_gather and
/// reduce_scatter once, broadcast and reduce all of S. One rank of an island sends it outside.
fn ring(collective: Collective, ranks: Ranks) -> Crossing {
    let n = ranks.all as f64;
    let g = ranks.island as f64;
    let (sent, steps) = match collective {
        Collective::AllReduce => (2.0 * (n - 1.0) / n, 2 * (ranks.all - 1)),
        Collective::Broadcast | Collective::Reduce => (f64::from(ranks.all > 1), ranks.all - 1),
        _ => ((n - 1.0) / n, ranks.all - 1),
    };
    let several = ranks.islands > 1;
    let inside = if ranks.island > 1 { sent } else { 0.0 };
    Crossing {
        inside,
        relieved: if several { inside * (g - 1.0) / g } else { inside },
        gpu: sent,
        outside: if several { sent } else { 0.0 },
        // A ring that closes in its node comes back; of those that leave it, half may go each way.
        sockets: (ranks.island > 1).then_some(if several { sent / 2.0 } else { sent }),
        // As NCCL's model counts them: all but one of the nodes' borders, once or twice.
        steps: Some([steps, (steps / (ranks.all - 1).max(1)) * (ranks.islands - 1)]),
    }
}

/// Up and down a chain in every island: 2 (g−1) S over g GPUs; a double binary tree between.
fn tree(ranks: Ranks) -> Crossing {
    let g = ranks.island as f64;
    let inside = 2.0 * (g - 1.0) / g;
    let outside = sent_by_busiest_node(ranks.islands);
    let chain = 2 * (ranks.island - 1);
    let hops = 2 * ranks.islands.max(1).ilog2() as usize;
    Crossing {
        inside,
        relieved: inside,
        gpu: inside + outside / g,
        outside,
        sockets: (ranks.island > 1).then_some(1.0),
        steps: Some([chain + hops, hops]),
    }
}

/// The network reduces: an island sends and receives S once. Within it a reduce_scatter and an
/// all_gather, or up and down a chain: both 2 (g−1) S over g GPUs.
fn collnet(collective: Collective, ranks: Ranks) -> Crossing {
    let (g, i) = (ranks.island as f64, ranks.islands as f64);
    let (inside, outside) = match collective {
        Collective::AllReduce => (2.0 * (g - 1.0) / g, 1.0),
        _ => ((g - 1.0) / g, (i - 1.0) / i),
    };
    Crossing {
        inside,
        relieved: inside,
        gpu: inside + outside / g,
        outside,
        sockets: None,
        steps: None,
    }
}

/// The NVSwitches pull S from every GPU to reduce it, and give S to every GPU; each GPU hands over
/// its share of the result, S/g more.
fn nvls(collective: Collective, ranks: Ranks) -> Crossing {
    let (g, i) = (ranks.island as f64, ranks.islands as f64);
    let (inside, outside) = match collective {
        Collective::AllReduce => (1.0 + 1.0 / g, 1.0),
        _ => (1.0, (i - 1.0) / i),
    };
    let outside = if ranks.islands > 1 { outside } else { 0.0 };
    Crossing {
        inside,
        relieved: inside,
        gpu: inside + outside / g,
        outside,
        sockets: None,
        steps: None,
    }
}

/// Every rank to every other, or the root to all.
fn direct(collective: Collective, ranks: Ranks) -> Result<Crossing, String> {
    let (n, g) = (ranks.all as f64, ranks.island as f64);
    let several = ranks.islands > 1;
    // S/n goes to each of the others: g−1 of them inside.
    let within = (g - 1.0) / n;
    let away = (n - g) / n;
    if !collective.allows(ranks.all) {
        return Err(format!("{} needs a power of two of ranks", collective.name()));
    }
    let plain = |inside: f64, gpu: f64, outside: f64| Crossing {
        inside,
        relieved: inside,
        gpu,
        outside,
        sockets: None,
        steps: Some([1, usize::from(several)]),
    };
    Ok(match collective {
        Collective::AllReduce => plain(2.0 * within, 2.0 * (within + away), 2.0 * g * away),
        // Half of an island's ranks send to the other half, each S/n.
        Collective::AllToAll => Crossing {
            sockets: (ranks.island > 1).then_some(g * g / 4.0 / n),
            ..plain(within, within + away, g * away)
        },
        Collective::AllGather | Collective::ReduceScatter => plain(within, within + away, g * away),
        // The root's own link, and the NICs of its island.
        Collective::Gather | Collective::Scatter => plain(within, within + away, away),
        Collective::SendRecv => {
            let inside = f64::from(ranks.island > 1);
            let outside = f64::from(several);
            plain(inside, inside.max(outside), outside)
        }
        Collective::HyperCube if !ranks.island.is_power_of_two() => {
            return Err("hypercube over nodes whose ranks are no power of two".to_owned());
        }
        // Exchanges of 1, 2, 4 … chunks of S/n with partners ever further away.
        Collective::HyperCube => Crossing {
            steps: Some([ranks.all.ilog2() as usize, ranks.islands.ilog2() as usize]),
            ..plain(within, within + away, g * away)
        },
        other => return Err(format!("{} is not done by sends and receives", other.name())),
    })
}

/// Maximum of ranks whose pairs are added up one by one.
const MAX_RANKS_PAIRWISE: usize = 2048;

/// The bytes that cross in an alltoallv of `traffic` when the largest send or receive total is
/// `size` bytes, per byte of the size column.
pub(super) fn alltoallv(traffic: &Traffic, size: usize, ranks: Ranks) -> Result<Crossing, String> {
    if ranks.all > MAX_RANKS_PAIRWISE {
        return Err(format!(
            "pairs of more than {MAX_RANKS_PAIRWISE} ranks in alltoallv are not added up"
        ));
    }
    let mut gpu = vec![[0.0f64; 2]; ranks.all];
    let mut inside = gpu.clone();
    let mut outside = vec![[0.0f64; 2]; ranks.islands];
    let mut totals = gpu.clone();
    for from in 0..ranks.all {
        for to in 0..ranks.all {
            let bytes = traffic.bytes(from, to, ranks.all, size) as f64;
            totals[from][0] += bytes;
            totals[to][1] += bytes;
            if from == to {
                continue;
            }
            gpu[from][0] += bytes;
            gpu[to][1] += bytes;
            let (here, there) = (from / ranks.island, to / ranks.island);
            if here == there {
                inside[from][0] += bytes;
                inside[to][1] += bytes;
            } else {
                outside[here][0] += bytes;
                outside[there][1] += bytes;
            }
        }
    }
    let most = |all: &[[f64; 2]]| all.iter().flatten().copied().fold(0.0, f64::max);
    let column = most(&totals);
    if column <= 0.0 {
        return Err("no bytes move in this alltoallv".to_owned());
    }
    let inside = most(&inside) / column;
    Ok(Crossing {
        inside,
        relieved: inside,
        gpu: most(&gpu) / column,
        outside: most(&outside) / column,
        sockets: None,
        steps: Some([1, usize::from(ranks.islands > 1)]),
    })
}
