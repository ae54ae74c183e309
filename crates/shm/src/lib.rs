//! busbw's own collectives over memory that the ranks of one host share: algorithms and reduce kernels.
//! Not measurement and not printing: this moves bytes and says who did not come.

/// The collectives, step by step.
pub mod algorithm;
/// Reduction of elements, every type and operator.
pub mod kernel;
/// Messages from one rank to another.
pub mod messages;
/// Memory that ranks of one host share.
pub mod shm;

pub use algorithm::{Call, Communicator, Exchange, Region, Segment};
pub use messages::Messages;
pub use shm::{Address, Buffer, Buffers, Control, Mailboxes, Slots, Wait, WaitPolicy};
