//! `busbw tune`: what to set for a job.
//! Not the search itself (`busbw-tune`).

pub(crate) mod replay;
pub(crate) mod trace_classes;
