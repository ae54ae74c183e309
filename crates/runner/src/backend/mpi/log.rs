//! The lines in which MPI and UCX name their transports, separated from their messages to the user: a child
//! process reads both from a pipe, keeps the former in memory and passes the latter to stderr at once, also
//! after this process has exited. Not what the lines mean (`busbw_library_logs::mpi`).

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::AsRawFd,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use busbw_ffi::{environment, streams};
use busbw_library_logs::mpi::{CaptureDisabled, MpiFacts, Parser, is_chatter};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    stdio::dup2_stdout,
};

use crate::signals::terminating;
use busbw_core::hidden_commands::LOG_FILTER;

/// Settings that send Open MPI's messages into the pipe and make its PML and BTLs log. At these
/// levels they log once a process and once a peer.
const OPEN_MPI: [(&str, &str); 3] = [
    ("OPAL_OUTPUT_STDERR_FD", PIPE_NUMBER),
    ("OMPI_MCA_pml_base_verbose", "10"),
    ("OMPI_MCA_btl_base_verbose", "1"),
];
/// Placeholder for the number of our pipe.
const PIPE_NUMBER: &str = "";
/// The setting that makes UCX log, to stdout unless UCX_LOG_FILE is set. At this level it logs each
/// kind of endpoint once.
const UCX: (&str, &str) = ("UCX_LOG_LEVEL", "info");
/// The prefix of a marker line: when the filter has passed it on, it has read everything before it.
const MARK_PREFIX: &str = "busbw read so far ";
/// How long the log filter may take to read what was written.
const FILTER_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of this process.
#[derive(Debug)]
pub struct Log {
    /// The pipe that the libraries write to, and the memory file with the kept lines.
    files: Option<(File, File)>,
    /// The libraries whose log is not captured, and why.
    disabled: CaptureDisabled,
}

impl Log {
    /// Makes libraries, which must not be loaded yet, write into our pipe. Libraries for which the
    /// user has set the log variables write as these say. Call it only while this process has one
    /// thread.
    pub fn capture() -> Log {
        let chosen = |names: &[&str]| {
            let name = names.iter().find(|name| std::env::var_os(name).is_some())?;
            Some(format!("{name} is set, so the log goes where that says: unset it"))
        };
        let open_mpi = chosen(&OPEN_MPI.map(|(name, _)| name));
        let disabled =
            CaptureDisabled { open_mpi, ucx: chosen(&["UCX_LOG_LEVEL", "UCX_LOG_FILE"]) };
        let files = match start(disabled.ucx.is_none()) {
            Ok(files) => files,
            Err(error) => return Log { files: None, disabled: capture_failed(&error) },
        };
        let pipe = files.0.as_raw_fd().to_string();
        let open_mpi = OPEN_MPI.iter().filter(|_| disabled.open_mpi.is_none());
        let ucx = disabled.ucx.is_none().then_some(&UCX);
        for (name, value) in open_mpi.chain(ucx) {
            environment::set(name, if *value == PIPE_NUMBER { &pipe } else { *value });
        }
        Log { files: Some(files), disabled }
    }

    /// The facts that the library has logged so far in the process of world rank `rank`; `version`
    /// is the library's, `alone` says that no other rank is on its host.
    pub(super) fn facts(&self, rank: usize, version: &str, alone: bool) -> MpiFacts {
        let (mut parser, mut disabled) = (Parser::default(), self.disabled.clone());
        match self.files.as_ref().map(read) {
            None => {}
            Some(Ok(text)) => text.lines().for_each(|line| parser.line(line)),
            Some(Err(error)) => disabled = capture_failed(&error),
        }
        parser.finish(rank, version, alone, &disabled)
    }
}

fn capture_failed(error: &anyhow::Error) -> CaptureDisabled {
    let why = Some(format!("the libraries' log cannot be captured: {error:#}"));
    CaptureDisabled { open_mpi: why.clone(), ucx: why }
}

/// Starts the log filter. Returns the pipe's end for the libraries, which becomes our stdout as
/// well if `stdout`, and the file with the kept lines.
fn start(stdout: bool) -> Result<(File, File)> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let kept = memfd_create("busbw-mpi-log", MemfdFlags::CLOEXEC)?;
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    Command::new(&program)
        .arg(LOG_FILTER)
        .stdin(Stdio::from(from))
        .stdout(Stdio::from(kept.try_clone()?))
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    // Without a launcher Open MPI starts a daemon, which also writes into the pipe: it must inherit
    // it.
    fcntl_setfd(&to, FdFlags::empty()).context("cannot pass the pipe on")?;
    if stdout {
        dup2_stdout(&to).context("cannot redirect stdout")?;
        streams::write_stdout_by_lines();
    }
    Ok((File::from(to), File::from(kept)))
}

/// All lines that were kept until now.
fn read((to, kept): &(File, File)) -> Result<String> {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{MARK_PREFIX}{}\n", MARKS.fetch_add(1, Ordering::Relaxed));
    (&*to).write_all(mark.as_bytes())?;
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    let until = Instant::now() + FILTER_TIMEOUT;
    loop {
        let mut bytes = Vec::new();
        // A file that is opened again is read from its beginning.
        File::open(&path)?.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.contains(&mark) {
            return Ok(text.into_owned());
        }
        anyhow::ensure!(
            Instant::now() < until,
            "the log filter did not answer within {FILTER_TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The log filter: reads a process's log on stdin until its last writer has ended. Lines that name
/// transports go to stdout, all others to stderr.
///
/// # Errors
/// stdin cannot be read, or stdout cannot be written.
pub fn log_filter() -> Result<Exit> {
    for signal in terminating() {
        // The signal goes to the whole process group; what a library writes about it must still be
        // passed on.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let (mut lines, mut line) = (BufReader::new(io::stdin().lock()), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if is_chatter(&text) || text.starts_with(MARK_PREFIX) {
            io::stdout().write_all(&line)?;
        } else {
            // If stderr is closed, the line is lost.
            let _ = io::stderr().write_all(&line);
        }
        line.clear();
    }
    Ok(Exit::Ok)
}
