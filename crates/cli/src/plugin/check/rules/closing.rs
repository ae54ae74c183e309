//! How connections end, and what they leave behind.
//! Not how they begin.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::with_device;
use crate::plugin::check::{
    RuleOutcome,
    subject::{Message, Outcome, Subject, words},
};

/// Connections that are made and closed.
const CONNECTION_CYCLES: usize = 50;
/// Connections before the first count: after these everything exists that stays.
const WARMUP_CYCLES: usize = 5;
/// Descriptors or threads that may have come for other reasons than connections.
const MAX_STRAY_ENTRIES: usize = 5;
/// How long threads may take to end.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// After an abort NCCL closes open connections.
pub(super) fn with_open_requests(subject: &Subject) -> Outcome<RuleOutcome> {
    const LARGE: usize = 8 << 20;
    with_device(subject, || {
        for sender_first in [true, false] {
            let mut line = subject.line(LARGE)?;
            // More bytes than fit between the two ends, and nobody tests the requests; and a
            // receive without a sender.
            let sent = line.sender.isend(&line.out, 0..LARGE, 0).map_err(words)?;
            let mut other = subject.line(4096)?;
            let waits = other.receiver.irecv(&other.back, 0..4096, 0).map_err(words)?;
            if let Some(ticket) = sent {
                line.sender.test(ticket).map_err(words)?;
            }
            if let Some(ticket) = waits {
                other.receiver.test(ticket).map_err(words)?;
            }
            for line in [line, other] {
                if sender_first {
                    line.close()?;
                } else {
                    line.receiver.close().map_err(words)?;
                    line.sender.close().map_err(words)?;
                }
            }
        }
        // A new connection works.
        let mut line = subject.line(4096)?;
        line.exchange(&[Message { at: 0, bytes: 1000, room: 1000 }])?;
        line.close()
    })
}

pub(super) fn descriptors(subject: &Subject) -> Outcome<RuleOutcome> {
    leaves_nothing(subject, "/proc/self/fd", "file descriptors")
}

pub(super) fn threads(subject: &Subject) -> Outcome<RuleOutcome> {
    leaves_nothing(subject, "/proc/self/task", "threads")
}

fn leaves_nothing(subject: &Subject, folder: &str, what: &str) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let count = || fs::read_dir(folder).map(Iterator::count).map_err(|error| error.to_string());
        cycles(subject, WARMUP_CYCLES)?;
        let before = count()?;
        cycles(subject, CONNECTION_CYCLES)?;
        let by = Instant::now() + THREAD_EXIT_TIMEOUT;
        loop {
            let after = count()?;
            if after <= before + MAX_STRAY_ENTRIES {
                return Ok(());
            }
            if Instant::now() > by {
                return Err(format!(
                    "after {CONNECTION_CYCLES} closed connections there are {after} {what}; before there were {before}"
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    })
}

fn cycles(subject: &Subject, count: usize) -> Outcome {
    for _ in 0..count {
        let mut line = subject.line(4096)?;
        line.exchange(&[Message { at: 0, bytes: 1000, room: 1000 }])?;
        line.close()?;
    }
    Ok(())
}
