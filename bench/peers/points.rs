//! What is measured: collectives and sizes, and how many bytes each rank sends and receives.
//! Not how.

use busbw_core::Collective;

/// The collectives that MPI has, in the order of the report.
const MPI: [Collective; 10] = [
    Collective::AllReduce,
    Collective::Reduce,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::AllGather,
    Collective::Gather,
    Collective::Scatter,
    Collective::AllToAll,
    Collective::AllToAllV,
    Collective::SendRecv,
];

/// Sizes of one message, bytes.
const DEFAULT_SIZES_BYTES: [u64; 13] = [
    8,
    32,
    128,
    512,
    2 << 10,
    8 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];

/// No rank's buffer is larger: where it holds a message for every rank, sizes end earlier.
pub const MAX_BUFFER_BYTES: u64 = 64 << 20;

/// A collective at a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Its name.
    pub collective: &'static str,
    /// Bytes of one message.
    pub size: u64,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.collective, self.size)
    }
}

/// Bytes that one rank sends and receives in one operation with messages of `size`.
pub fn extents(collective: Collective, size: u64, ranks: usize) -> (u64, u64) {
    let all = size * ranks as u64;
    match collective {
        Collective::AllGather | Collective::Gather => (size, all),
        Collective::Scatter | Collective::ReduceScatter => (all, size),
        Collective::AllToAll | Collective::AllToAllV => (all, all),
        _ => (size, size),
    }
}

/// Whether one rank has another part in it than the others: its time is the slowest rank's.
pub fn rooted(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter
    )
}

/// Every point for `ranks` ranks, of some collectives and sizes, or of all.
pub fn all(collectives: &[String], sizes: &[u64], ranks: usize) -> Vec<Point> {
    let chosen =
        |c: &Collective| collectives.is_empty() || collectives.iter().any(|n| n == c.name());
    let sizes = if sizes.is_empty() { &DEFAULT_SIZES_BYTES } else { sizes };
    let mut points = Vec::new();
    for collective in MPI.into_iter().filter(chosen) {
        for &size in sizes {
            let (send, recv) = extents(collective, size, ranks);
            if send.max(recv) <= MAX_BUFFER_BYTES {
                points.push(Point { collective: collective.name(), size });
            }
        }
    }
    points
}
