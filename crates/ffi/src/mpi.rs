//! MPI, opened at run time: Open MPI, MPICH and its family, or any library of the standard ABI of
//! MPI 5.
//! Not which operation runs when, and not how the ranks are started.

mod abi;
mod awareness;
mod buffer;
mod communicator;
mod element;
mod exchange;
mod known_bugs;
mod library;
mod memory;
mod operation;
mod rank;
mod requests;
mod session;
mod table;
mod world_check;

pub use buffer::{Buffer, Side};
pub use communicator::Communicator;
pub use element::{Blocks, Element, Elements, NotPossible, Operator};
pub use exchange::Source;
pub use library::{Implementation, Mpi, MpiError};
pub use rank::{Input, Part, Rank, RankError, Which};
pub use requests::{Requests, WaitError};
pub use session::{Session, Threads};
pub use world_check::{Joined, Launcher, Meeting, Started, one_world};
