//! The statistics of busbw's own net plugin, in a file that only this process sees.
//! Not what they mean (`busbw-analysis`), and nothing where another plugin is used.

use std::{
    fs, io,
    os::fd::IntoRawFd,
    thread,
    time::{Duration, Instant},
};

use busbw_ffi::environment;
use nccl_plugin_abi::net_stats::{self, NetStats, VARIABLE};
use rustix::fs::{MemfdFlags, memfd_create};

use busbw_host::machine;

/// The most connections of a process that the record lists one by one; the others are summed.
const MAX_LISTED_CONNECTIONS: usize = 8;
/// How long the plugin may take to finish connections that were closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two reads of its statistics meanwhile.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The statistics file.
#[derive(Debug)]
pub struct Stats {
    name: String,
}

impl Stats {
    /// Makes the plugin, which must not be loaded yet, write its statistics where we can read them.
    /// Call it only while this process has one thread.
    ///
    /// # Errors
    /// The system cannot create a memory file.
    pub fn capture() -> io::Result<Stats> {
        if let Some(pattern) = std::env::var(VARIABLE).ok().filter(|pattern| !pattern.is_empty()) {
            let name = net_stats::file(&pattern, &machine::system_name(), std::process::id());
            return Ok(Stats { name });
        }
        // It stays open: the plugin writes for the last time when the process exits.
        let file = memfd_create("busbw-net-stats", MemfdFlags::CLOEXEC)?.into_raw_fd();
        let name = format!("/proc/self/fd/{file}");
        environment::set(VARIABLE, &name);
        Ok(Stats { name })
    }

    /// The statistics for `rank` after everything was closed; `None` where the plugin had no
    /// connection, or is another one.
    pub fn last(&self, rank: usize) -> Option<NetStats> {
        let until = Instant::now() + CLOSE_TIMEOUT;
        let mut before = None;
        loop {
            let text = fs::read(&self.name).ok().filter(|text| !text.is_empty())?;
            let read = serde_json::from_slice(&text).ok().filter(|read: &NetStats| {
                // Another process may write to a file that the user has named.
                read.check().is_ok() && read.pid == std::process::id()
            });
            let closed =
                |read: &NetStats| read.connections.iter().all(|connection| connection.closed);
            // The plugin overwrites our file: two equal reads are a complete one.
            let settled = before.as_ref() == Some(&text) && read.as_ref().is_some_and(closed);
            if settled || Instant::now() >= until {
                return read.map(|mut read| {
                    read.rank = Some(rank);
                    read.keep(MAX_LISTED_CONNECTIONS);
                    read
                });
            }
            before = Some(text);
            thread::sleep(CLOSE_POLL_INTERVAL);
        }
    }
}
