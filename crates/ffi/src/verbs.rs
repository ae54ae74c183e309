//! libibverbs, opened at run time: devices, memory, queue pairs, and what completes.
//! Not which device or how it is used (`busbw-runner`, backend `verbs`); reading /sys needs none of this.

mod abi;
mod connection;
mod device;
mod error;
mod library;
mod memory;
mod queue;
mod queue_pair;

pub use connection::{Address, Endpoint, Link};
pub use device::{Device, Limits, LinkLayer, Port};
pub use error::VerbsError;
pub use library::Verbs;
pub use memory::{Region, RemoteMemory};
pub use queue::{Completed, CompletionQueue};
pub use queue_pair::{QueuePair, Request, Service, Sizes, Work};
