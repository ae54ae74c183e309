//! libibverbs and librdmacm, opened at run time: devices, memory, queue pairs, and what completes.
//! Not which device or how it is used (`busbw-runner`, backend `verbs`; `nccl-plugin-busbw`); reading /sys needs none of this.

mod abi;
mod connection;
mod connection_manager;
mod device;
mod error;
mod library;
mod memory;
mod queue;
mod queue_pair;

pub use connection::{Address, Endpoint, Link};
pub use connection_manager::{ConnectionManager, Happened, Identifier, Key, ManagerError};
pub use device::{Device, Limits, LinkLayer, Port};
pub use error::VerbsError;
pub use library::Verbs;
pub use memory::{PcieOrdering, Region, Registration, RemoteMemory, StrictAlias};
pub use queue::{Completed, CompletionQueue, Ended};
pub use queue_pair::{Place, QueuePair, Request, Service, Sizes, Work};
