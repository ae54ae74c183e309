//! Memory that the ranks of one host share: control words, small messages, every rank's buffers.
//! Not algorithms: nothing here depends on collectives.

mod buffers;
mod control;
mod mailboxes;
mod segment;
mod slots;
mod sync;
mod wait;

pub use buffers::{Address, Buffer, Buffers};
pub use control::{Barrier, Control};
pub use mailboxes::Mailboxes;
pub(crate) use mailboxes::{Inbox, Letter, Offer, Outbox};
pub use segment::{Segment, SegmentError};
pub use slots::Slots;
pub use wait::{Wait, WaitPolicy};
