//! What MPI and UCX say of who carries messages, kept apart from what they say to the user: a child of ours
//! reads both from a pipe, keeps the one in memory, and passes the other to stderr at once, also when we are
//! no more. Not what it means (`busbw_library_logs::mpi`).

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
use busbw_library_logs::mpi::{Deaf, MpiFacts, Parser, is_chatter};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    stdio::dup2_stdout,
};

use crate::signals::terminating;
use busbw_core::hidden_commands::SIEVE;

/// Where Open MPI's messages go, and what its PML and BTLs say. At these levels they speak once a process and
/// once a peer.
const OPEN_MPI: [(&str, &str); 3] = [
    ("OPAL_OUTPUT_STDERR_FD", PIPE),
    ("OMPI_MCA_pml_base_verbose", "10"),
    ("OMPI_MCA_btl_base_verbose", "1"),
];
/// Stands for our pipe's number.
const PIPE: &str = "";
/// What UCX says, on stdout unless UCX_LOG_FILE is set. At this level it tells each kind of endpoint once.
const UCX: (&str, &str) = ("UCX_LOG_LEVEL", "info");
/// Begins a line of ours, which tells that everything before it has been read.
const MARK: &str = "busbw read so far ";
/// How long the child may take to read what is said.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log of this process.
#[derive(Debug)]
pub struct Log {
    /// Where the libraries write to, and what was kept of it.
    files: Option<(File, File)>,
    /// Whom we do not hear.
    deaf: Deaf,
}

impl Log {
    /// Lets libraries, which must not be loaded yet, write into a pipe of ours; those for which the user has
    /// settings of their own write as these say. Only while this process has one thread.
    pub fn capture() -> Log {
        let chosen = |names: &[&str]| {
            let name = names.iter().find(|name| std::env::var_os(name).is_some())?;
            Some(format!("{name} is set, and what is said goes where that says: unset it"))
        };
        let open_mpi = chosen(&OPEN_MPI.map(|(name, _)| name));
        let deaf = Deaf { open_mpi, ucx: chosen(&["UCX_LOG_LEVEL", "UCX_LOG_FILE"]) };
        let files = match start(deaf.ucx.is_none()) {
            Ok(files) => files,
            Err(error) => return Log { files: None, deaf: deafened(&error) },
        };
        let pipe = files.0.as_raw_fd().to_string();
        let open_mpi = OPEN_MPI.iter().filter(|_| deaf.open_mpi.is_none());
        let ucx = deaf.ucx.is_none().then_some(&UCX);
        for (name, value) in open_mpi.chain(ucx) {
            environment::set(name, if *value == PIPE { &pipe } else { *value });
        }
        Log { files: Some(files), deaf }
    }

    /// What was said so far by the library of the process of world rank `rank`, of this version; `alone` if no other
    /// rank is on its host.
    pub(super) fn facts(&self, rank: usize, version: &str, alone: bool) -> MpiFacts {
        let (mut parser, mut deaf) = (Parser::default(), self.deaf.clone());
        match self.files.as_ref().map(read) {
            None => {}
            Some(Ok(text)) => text.lines().for_each(|line| parser.line(line)),
            Some(Err(error)) => deaf = deafened(&error),
        }
        parser.finish(rank, version, alone, &deaf)
    }
}

fn deafened(error: &anyhow::Error) -> Deaf {
    let why = Some(format!("what libraries say cannot be read: {error:#}"));
    Deaf { open_mpi: why.clone(), ucx: why }
}

/// Starts the child: the pipe's end for the libraries, which is our stdout as well if `stdout`, and what is
/// kept.
fn start(stdout: bool) -> Result<(File, File)> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let kept = memfd_create("busbw-mpi-log", MemfdFlags::CLOEXEC)?;
    let program = std::env::current_exe().context("cannot find our own program file")?;
    Command::new(&program)
        .arg(SIEVE)
        .stdin(Stdio::from(from))
        .stdout(Stdio::from(kept.try_clone()?))
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    // Without a launcher Open MPI starts a daemon, which writes where the variable says, too.
    fcntl_setfd(&to, FdFlags::empty()).context("cannot pass the pipe on")?;
    if stdout {
        dup2_stdout(&to).context("cannot redirect stdout")?;
        streams::write_stdout_by_lines();
    }
    Ok((File::from(to), File::from(kept)))
}

/// Everything that was kept of what was written until now.
fn read((to, kept): &(File, File)) -> Result<String> {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{MARK}{}\n", MARKS.fetch_add(1, Ordering::Relaxed));
    (&*to).write_all(mark.as_bytes())?;
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    let until = Instant::now() + PATIENCE;
    loop {
        let mut bytes = Vec::new();
        // Opened again, it is read from its beginning.
        File::open(&path)?.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.contains(&mark) {
            return Ok(text.into_owned());
        }
        anyhow::ensure!(Instant::now() < until, "who reads it did not answer within {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Reads a process's log on stdin until its last writer has ended: what names transports goes to stdout, all
/// else to stderr.
///
/// # Errors
/// Streams that are gone.
pub fn sieve() -> Result<Exit> {
    for signal in terminating() {
        // It is sent to us as well; what a library says of it is still to be passed on.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let (mut lines, mut line) = (BufReader::new(io::stdin().lock()), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if is_chatter(&text) || text.starts_with(MARK) {
            io::stdout().write_all(&line)?;
        } else {
            // Without a stderr there is nobody to tell.
            let _ = io::stderr().write_all(&line);
        }
        line.clear();
    }
    Ok(Exit::Ok)
}
