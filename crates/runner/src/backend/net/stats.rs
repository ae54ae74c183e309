//! What busbw's own net plugin counts, in a file that only this process sees.
//! Not what it means (`explain`), and nothing where another plugin is used.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant},
};

use busbw_ffi::environment;
use nccl_plugin_abi::net_stats::{self, NetStats, VARIABLE};
use rustix::fs::{MemfdFlags, memfd_create};

use busbw_host::machine;

/// Connections of a process that the record lists; the others are summed.
const LISTED: usize = 8;
/// How long the plugin may take to close what was closed, and between two looks.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// The file.
#[derive(Debug)]
pub struct Stats {
    name: String,
    /// Ours, unless the user has named one.
    _file: Option<File>,
}

impl Stats {
    /// Lets the plugin, which must not be loaded yet, write where we can read. Only while this process has one
    /// thread.
    ///
    /// # Errors
    /// When the system has no file for us.
    pub fn capture() -> io::Result<Stats> {
        if let Some(pattern) = std::env::var(VARIABLE).ok().filter(|pattern| !pattern.is_empty()) {
            let name = net_stats::file(&pattern, &machine::host_name(), std::process::id());
            return Ok(Stats { name, _file: None });
        }
        let file = File::from(memfd_create("busbw-net-stats", MemfdFlags::CLOEXEC)?);
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        environment::set(VARIABLE, &name);
        Ok(Stats { name, _file: Some(file) })
    }

    /// What was counted for `rank`, when everything was closed; nothing where the plugin had no connection, or is
    /// another one.
    pub fn last(&self, rank: usize) -> Option<NetStats> {
        let until = Instant::now() + PATIENCE;
        let mut before = None;
        loop {
            let text = fs::read(&self.name).ok().filter(|text| !text.is_empty())?;
            let read = serde_json::from_slice(&text).ok().filter(|read: &NetStats| {
                // Another process may write to a file that the user has named.
                read.check().is_ok() && read.pid == std::process::id()
            });
            let closed =
                |read: &NetStats| read.connections.iter().all(|connection| connection.closed);
            // A file of ours is overwritten: what was read twice is whole.
            let settled = before.as_ref() == Some(&text) && read.as_ref().is_some_and(closed);
            if settled || Instant::now() >= until {
                return read.map(|mut read| {
                    read.rank = Some(rank);
                    read.keep(LISTED);
                    read
                });
            }
            before = Some(text);
            thread::sleep(LOOK);
        }
    }
}
