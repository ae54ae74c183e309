//! Memory that the ranks of one host share: control words, and every rank's buffers.
//! Not algorithms: nothing here knows what a collective is.

mod buffers;
mod control;
mod segment;
mod wait;

pub use buffers::{Buffer, Buffers};
pub use control::{Barrier, Control};
pub use segment::{Segment, SegmentError};
pub use wait::{Wait, WaitPolicy};
