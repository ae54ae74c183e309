//! Collectives and messages between ranks that are threads: one binary, linked once.
//! Not processes, which see no more of the algorithms than threads do.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collectives;
mod messages;
