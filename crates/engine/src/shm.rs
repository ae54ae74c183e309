//! Memory that the ranks of one host share: control words, small messages, every rank's buffers.
//! Not algorithms: nothing here knows what a collective is.

mod buffers;
mod control;
mod segment;
mod slots;
mod sync;
mod wait;

pub use buffers::{Buffer, Buffers};
pub use control::{Barrier, Control};
pub use segment::{Segment, SegmentError};
pub use slots::Slots;
pub use wait::{Wait, WaitPolicy};
