//! A running job by what its processes wrote about their collectives: how fast each is, who enters late, and why.
//! Not the files' format (`busbw-watch-file`), not reading them from a disk, and not a job that hangs
//! (`busbw_analysis::hang`).
//!
//! files -> [`Job`] -> [`Matched`] calls -> [`speeds`], [`lateness`], [`paths`] -> findings
#![forbid(unsafe_code)]

mod findings;
mod interruptions;
mod job;
mod lateness;
mod matched;
mod over_time;
mod paths;
mod queue;
mod speeds;
mod straggler;
mod timeline;
mod transit;
mod view;

pub use self::{
    interruptions::{Interruption, interruptions},
    job::{Group, Job, Member, Peer},
    lateness::{Entries, LateEntry, Lateness, lateness},
    matched::{Matched, matched},
    over_time::{ClassOverTime, InWindow, LateInWindow, MOST_WINDOWS, OverTime},
    paths::{Path, SlowBy, SlowPath, paths, slow_paths},
    queue::queue_time,
    speeds::{Speed, speeds, speeds_by_size},
    straggler::{Reason, Straggler, stragglers},
    view::{GroupView, ProcessView, RankView, SCHEMA, State, View},
};
