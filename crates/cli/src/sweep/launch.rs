//! One launch of the job: this program, started in an environment, with a record of its own.
//! Not when, and not how often (`turns`).

use busbw_core::environment::{NODES_FILE, SWEPT};
use busbw_job::launchers::kubernetes::nodes_file;
use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    record::{Folded, Status},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{Environment, interruption::Interruption};
use crate::within_job::Leader;
use busbw_store as store;

/// Time between two checks whether a launch has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long a launch may take to react to a signal that its whole process group got, before it gets
/// one of its own.
const SIGNAL_GRACE: Duration = Duration::from_millis(300);
/// How long an interrupted launch may take to end, and one whose pods it deletes.
const EXIT_TIMEOUTS: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(50)];
/// Bytes of its stderr that are kept: the end, which has the reason.
const STDERR_TAIL_BYTES: usize = 8 << 10;

/// A finished launch.
#[derive(Debug)]
pub struct Launch {
    /// The path of its record.
    pub path: PathBuf,
    /// Its record, as far as it was written.
    pub record: Option<Folded>,
    /// Seconds from its start to its end.
    pub took: Duration,
    /// Its exit code and the reason, if it failed.
    pub failure: Option<(u8, String)>,
}

/// How launches are started and interrupted.
pub struct Started<'a> {
    /// The launcher's job in which every process has a part of each launch; none where this program starts it.
    pub(crate) leader: Option<&'a Leader>,
    /// Whether the user has interrupted this program.
    pub(crate) interruption: &'a Interruption,
    /// When a launch that has not ended is ended; none where it may take as long as it likes.
    pub(crate) until: Option<Instant>,
}

/// Runs `words` in `environment`, with a record at `path`.
///
/// # Errors
/// The process cannot be started.
pub fn run(
    words: &[OsString],
    environment: &Environment,
    path: &Path,
    started: &Started<'_>,
) -> Result<Launch> {
    let interruption = started.interruption;
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let begun = Instant::now();
    let mut command = Command::new(&program);
    let names: Vec<&str> = environment.variables.iter().map(|one| one.name.as_str()).collect();
    let mut words = words.to_vec();
    words.extend(["--record".into(), path.into()]);
    command.args(&words).env(SWEPT, names.join(","));
    command.envs(nodes_file().map(|file| (NODES_FILE, file)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in &environment.variables {
        match &variable.value {
            Some(value) => command.env(&variable.name, value),
            None => command.env_remove(&variable.name),
        };
    }
    if let Some(leader) = started.leader {
        let variables = environment.variables.iter();
        let variables = variables.map(|one| (one.name.clone(), one.value.clone())).collect();
        leader.order(&words, variables, &mut command)?;
    }
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let stderr = child.stderr.take();
    let reader = thread::Builder::new()
        .name("stderr".to_owned())
        .spawn(move || stderr.map(tail).unwrap_or_default())
        .context("cannot start a thread for the stderr of a launch")?;
    let code = follow(&mut child, started)?;
    let late = started.until.is_some_and(|until| Instant::now() >= until);
    let settled = started.leader.map_or(Ok(()), |leader| leader.settle(started.until));
    let took = begun.elapsed();
    let said = reader.join().unwrap_or_default();
    let record = store::read(path).ok();
    let failure = match code {
        // It was killed here: it did not end in time, or the user interrupted twice.
        None if interruption.is_interrupted() => {
            Some((Exit::Interrupted.code(), "killed after an interruption".to_owned()))
        }
        code => failure(code, record.as_ref(), &said)
            .or(settled.err().map(|error| (error.exit().code(), error.to_string()))),
    };
    let timeout = || {
        let text = format!("it was ended after {:.0} s: its time was over", took.as_secs_f64());
        (Exit::Interrupted.code(), text)
    };
    let failure = failure.map(|why| if late { timeout() } else { why });
    Ok(Launch { path: path.to_owned(), record, took, failure })
}

/// Waits for the end. Returns the exit code, or `None` where a signal ended it.
fn follow(child: &mut Child, started: &Started<'_>) -> Result<Option<i32>> {
    let interruption = started.interruption;
    let mut signalled = None;
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a launch")? {
            return Ok(status.code());
        }
        let is_late = started.until.is_some_and(|until| Instant::now() >= until);
        if interruption.is_interrupted() || is_late {
            let since = *signalled.get_or_insert_with(Instant::now);
            if !told && since.elapsed() > SIGNAL_GRACE {
                told = true;
                let pid = Pid::from_child(child);
                let _ = kill_process(pid, Signal::INT);
            }
            // A launch that makes pods is not killed before it has deleted them: nobody else would.
            let makes_pods = nodes_file().is_some();
            let timeout = EXIT_TIMEOUTS[usize::from(makes_pods)];
            if since.elapsed() > timeout || (interruption.insists() && !makes_pods) {
                let _ = child.kill();
            }
        }
        thread::sleep(EXIT_POLL_INTERVAL);
    }
}

/// Keeps the last bytes of a stream.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 1 << 12]);
    while let Ok(len @ 1..) = from.read(&mut piece) {
        kept.extend_from_slice(&piece[..len]);
        let more = kept.len().saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..more);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Why it failed, if it did: the reason in its record, or its last lines on stderr.
fn failure(code: Option<i32>, record: Option<&Folded>, said: &str) -> Option<(u8, String)> {
    let end = record.and_then(|record| record.end.as_ref());
    let complete = end.is_some_and(|end| end.status == Status::Complete);
    let is_signalled = code.is_none();
    let code = match code {
        Some(0) if complete => return None,
        Some(code) => u8::try_from(code).unwrap_or(1),
        None => 1,
    };
    let words = || {
        let mut lines = said.lines().rev().filter_map(|line| line.strip_prefix("busbw: "));
        lines.next().map(str::to_owned)
    };
    let wrong = end.and_then(|end| match (end.out_of_bounds, end.min_bandwidth_held) {
        (1.., _) => {
            Some(format!("wrong data in {} checks; its record says where", end.out_of_bounds))
        }
        (_, Some(false)) => Some(format!(
            "the average bus bandwidth, {:.2} GB/s, misses NCCL_TESTS_MIN_BW",
            end.average_busbw
        )),
        _ => None,
    });
    let message = end.and_then(|end| end.message.clone()).or(wrong);
    // What it said before a signal ended it is no reason.
    let text = match is_signalled {
        true => message.or_else(|| Some("a signal ended it".to_owned())),
        false => message.or_else(words),
    };
    Some((code, text.unwrap_or_else(|| "it ended without a message".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_count() {
        let said = "busbw: a remark\nbusbw: --backend nccl cannot run here\nnoise\n";
        let (code, why) = failure(Some(5), None, said).unwrap();
        assert_eq!((code, why.as_str()), (5, "--backend nccl cannot run here"));
        assert_eq!(failure(Some(1), None, "").unwrap().1, "it ended without a message");
        assert_eq!(failure(None, None, said).unwrap(), (1, "a signal ended it".to_owned()));
        assert_eq!(tail(&vec![b'x'; 20 << 10][..]).len(), STDERR_TAIL_BYTES);
    }
}
