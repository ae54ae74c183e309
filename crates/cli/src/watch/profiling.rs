//! `busbw watch --enable-profiling`: a job's profilers record while this runs, and are set back when it ends, however it ends.
//! Not what they record (`nccl-profiler-busbw`), nor RAS's protocol (`busbw_ras_client`).
//!
//! Any job of a host may answer RAS's port: nothing is changed before a communicator and a process are found both in what RAS
//! reports and in the job's files.

use std::{
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::{Exit, ExitError},
    hidden_commands::PROFILER_MASK,
    printable::Printable,
};
use busbw_library_logs::ras::RasReport;
use busbw_ras_client as ras;
use busbw_watch::{Job, Peer};
use nccl_plugin_abi::profiler::kind;

use crate::options::Recorded;

/// What RAS may wait for its own peers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Calls, and their kernels: what a profiler is asked for where BUSBW_WATCH is not set.
const CALLS: u64 = kind::COLLECTIVE | kind::MESSAGE | kind::KERNEL_CHANNEL;
/// The first NCCL whose RAS changes a profiler's mask.
const LEAST_NCCL: (u32, u32) = (2, 31);

/// Profilers that were asked for more. Dropped, or with its process gone, they are asked for what they were before.
#[derive(Debug)]
pub(super) struct Profiling {
    /// A process that outlives this one: it sets the mask back when its stdin ends.
    keeper: Child,
    address: String,
}

impl Profiling {
    /// Asks the profilers of `job` for `what`, by RAS at `address`.
    ///
    /// # Errors
    /// RAS does not answer, is another job's or an older NCCL's, or refuses; the job's profilers are asked for different things,
    /// so that there is nothing to set back to.
    pub fn enable(job: &Job, address: &str, what: Recorded) -> Result<Self> {
        let impossible = |why: String| anyhow::Error::from(ExitError::new(Exit::Impossible, why));
        let before = before(job).map_err(impossible)?;
        let report = ras::status(address, TIMEOUT)?;
        let report = RasReport::parse(&report.bytes).map_err(|why| {
            impossible(format!("RAS at {address} gave no report that can be read: {why}"))
        })?;
        is_able(&report.nccl_version)
            .and_then(|()| is_this_job(job, &report))
            .map_err(|why| impossible(format!("what answers at {address} {why}")))?;
        if job.peers.iter().any(was_untimed) {
            let _ = writeln!(
                Printable::new(io::stderr(), false),
                "busbw: of communicators that made calls before, calls are recorded without times on the GPU: NCCL {} gives wrong ones after a kernel that was not timed; start the job with BUSBW_WATCH unset, and NCCL_ALLGATHERV_ENABLE=0 where it broadcasts",
                report.nccl_version
            );
        }
        let mask = match what {
            Recorded::Calls => CALLS,
            Recorded::Full => CALLS | kind::PROXY_OPERATION | kind::PROXY_STEP,
        };
        // First: from then on the mask is set back whatever happens.
        let keeper =
            keeper(address, before).context("cannot start the process that sets profilers back")?;
        let profiling = Self { keeper, address: address.to_owned() };
        ras::set_profiler_mask(address, mask)?;
        Ok(profiling)
    }

    /// Sets them back.
    ///
    /// # Errors
    /// RAS did not take it.
    pub fn end(mut self) -> Result<()> {
        drop(self.keeper.stdin.take());
        let status =
            self.keeper.wait().context("cannot wait for the process that sets profilers back")?;
        if !status.success() {
            let address = &self.address;
            anyhow::bail!(
                "the job's profilers may still record: RAS at {address} did not take their mask back (above)"
            );
        }
        Ok(())
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The hidden command: at the end of stdin, has RAS set the mask.
///
/// # Errors
/// RAS does not.
pub(crate) fn set_back(address: &str, mask: u64) -> Result<Exit> {
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    ras::set_profiler_mask(address, mask)?;
    Ok(Exit::Ok)
}

fn keeper(address: &str, mask: u64) -> Result<Child> {
    let child = Command::new(std::env::current_exe()?)
        .args([PROFILER_MASK, address, &mask.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // Ctrl-C is for the process that it keeps watch over.
        .process_group(0)
        .spawn()?;
    Ok(child)
}

/// What the job's profilers are asked for now.
fn before(job: &Job) -> Result<u64, String> {
    let mut masks: Vec<u64> =
        job.peers.iter().filter(|peer| peer.end.is_none()).map(mask).collect();
    masks.sort_unstable();
    masks.dedup();
    match masks[..] {
        [one] => Ok(one),
        [] => Err("no process of the job is still recorded: there is nothing to enable".to_owned()),
        _ => Err(format!(
            "the job's processes record different things (masks {}): busbw could not set them back; start them with the same BUSBW_WATCH",
            masks.iter().map(|mask| format!("0x{mask:x}")).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn mask(peer: &Peer) -> u64 {
    peer.heartbeats.iter().rev().find_map(|beat| beat.mask).unwrap_or(peer.process.mask)
}

/// Whether a process's kernels were not timed at some time.
fn was_untimed(peer: &Peer) -> bool {
    let masks = peer.heartbeats.iter().filter_map(|beat| beat.mask);
    masks.chain([peer.process.mask]).any(|mask| mask & kind::KERNEL_CHANNEL == 0)
}

fn is_able(version: &str) -> Result<(), String> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= LEAST_NCCL => Ok(()),
        _ => Err(format!(
            "is NCCL {version}: what a profiler records is changed in a running job from 2.31 on; start the job with BUSBW_WATCH unset, or full"
        )),
    }
}

fn is_this_job(job: &Job, report: &RasReport) -> Result<(), String> {
    let number = |id: &str| u64::from_str_radix(id.trim_start_matches("0x"), 16).ok();
    let same = report.communicators.iter().any(|seen| {
        let hash = number(&seen.hash);
        let of_files =
            job.groups.iter().filter(|group| hash.is_some() && number(&group.id) == hash);
        of_files.flat_map(|group| &group.members).any(|member| {
            let pid = job.peers[member.peer].process.pid;
            seen.ranks.iter().any(|rank| (rank.rank, rank.pid) == (member.rank, Some(pid)))
        })
    });
    if same {
        return Ok(());
    }
    let seen = report.communicators.iter().flat_map(|one| &one.ranks).filter_map(|rank| rank.pid);
    let seen: Vec<String> = seen.take(4).map(|pid| pid.to_string()).collect();
    Err(format!(
        "is another job (processes {}): no communicator and process of the files is in its report. Name this job's NCCL_RAS_ADDR by --ras; jobs on one host need a port each",
        if seen.is_empty() { "of no communicator".to_owned() } else { seen.join(", ") }
    ))
}
