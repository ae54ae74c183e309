//! Who takes part, and how they find each other, exchange a few bytes and learn of a loss.
//! Not the data path: collectives go through `algorithm`.

mod hub;
mod member;
mod solo;
mod wire;

pub use hub::{Hub, HubEvent, ListenScope};
pub use member::{JoinParameters, Member};
pub use solo::Solo;

use std::time::Instant;

use thiserror::Error;

use busbw_shm::shm::Wait;

/// Why a rank cannot go on.
#[derive(Debug, Error)]
pub enum WorldError {
    /// Another rank was lost, or the run was interrupted; the supervisor knows why.
    #[error("the run was stopped: {0}")]
    Aborted(String),
    /// Ranks that did not come in time.
    #[error("ranks {missing:?} did not scope the {what} before the deadline")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// World ranks, where known.
        missing: Vec<usize>,
    },
    /// The supervisor is gone.
    #[error("the connection of rank {rank} to its supervisor at {address} broke: {why}")]
    Lost {
        /// This rank.
        rank: usize,
        /// The supervisor's address.
        address: String,
        /// What the socket said.
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
    /// This rank.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// This rank among those of its host.
    fn local(&self) -> usize;
    /// This host's name.
    fn host(&self) -> &str;
    /// Every rank's bytes, in rank order.
    ///
    /// # Errors
    /// [`WorldError`].
    fn allgather(
        &mut self,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<u8>>, WorldError>;
    /// Waits for every rank. Within a host it goes through shared memory, so that a timed batch
    /// starts everywhere within a fraction of a microsecond.
    ///
    /// # Errors
    /// [`WorldError`].
    fn barrier(&mut self, deadline: Option<Instant>) -> Result<(), WorldError>;
    /// Hands `bytes` to the supervisor, such as a row, and waits until it has dealt with them: what
    /// it writes must not fall into the next batch, nor pile up while nobody reads it.
    ///
    /// # Errors
    /// When the supervisor is gone.
    fn report(&mut self, bytes: &[u8]) -> Result<(), WorldError>;
    /// Tells the supervisor that this rank cannot go on, and why.
    fn abort(&mut self, why: &str);
}
