//! The ranks of one run as a world: allgather, barrier, reports and aborts among them.
//! Not the data path: collectives go through `busbw-shm`.

mod hub;
mod member;
mod messages;
mod solo;

pub use hub::{Hub, HubEvent, ListenScope};
pub use member::{JoinParameters, Member};
pub use solo::Solo;

use std::time::Instant;

use thiserror::Error;

use busbw_shm::shm::Wait;

/// Why a rank cannot continue.
#[derive(Debug, Error)]
pub enum WorldError {
    /// Another rank was lost, or the run was interrupted; the supervisor knows why.
    #[error("the run was stopped: {0}")]
    Aborted(String),
    /// Ranks did not arrive in time.
    #[error("ranks {missing:?} did not reach the {what} before the deadline")]
    TimedOut {
        /// What the rank waited for.
        what: &'static str,
        /// World ranks, where known.
        missing: Vec<usize>,
    },
    /// The connection to the supervisor broke.
    #[error("the connection of rank {rank} to its supervisor at {address} broke: {why}")]
    Lost {
        /// This rank.
        rank: usize,
        /// The supervisor's address.
        address: String,
        /// The error of the socket.
        why: String,
    },
}

impl From<Wait> for WorldError {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Aborted => WorldError::Aborted("another rank failed".to_owned()),
            Wait::TimedOut { missing } => WorldError::TimedOut { what: "barrier", missing },
        }
    }
}

/// The ranks of one run.
pub trait World {
    /// This rank's number.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// This rank's number among those of its host.
    fn local(&self) -> usize;
    /// This host's name.
    fn host(&self) -> &str;
    /// Every rank's bytes, in rank order.
    ///
    /// # Errors
    /// As [`WorldError`] tells: a lost rank, a missed deadline, a broken connection.
    fn allgather(
        &mut self,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<u8>>, WorldError>;
    /// Waits for every rank. Within a host it uses shared memory, so that a timed batch starts on all ranks
    /// within a fraction of a microsecond.
    ///
    /// # Errors
    /// As for `allgather`.
    fn barrier(&mut self, deadline: Option<Instant>) -> Result<(), WorldError>;
    /// Sends `bytes`, such as a row, to the supervisor and waits until it has handled them: its writing must
    /// not overlap the next batch, nor rows pile up while the reader of stdout pauses.
    ///
    /// # Errors
    /// When the supervisor has exited.
    fn report(&mut self, bytes: &[u8]) -> Result<(), WorldError>;
    /// Reports to the supervisor that this rank cannot continue, and why.
    fn abort(&mut self, why: &str);
}
