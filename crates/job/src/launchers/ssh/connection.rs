//! One host's ssh connection until its agent is ready; it copies the program if needed. stderr of ssh and the host is
//! kept until then, for error messages; afterwards it goes to this process's stderr.
//! Not the connection during the run (`monitor`).

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    binary::{Binary, COPIED, HOST, MISSING},
    orders::{Greeting, READY},
};
use crate::heartbeat::STOPPED_TIMEOUT;
use crate::launchers::{command::Command, local_program::ended, not_started};
use busbw_core::exit::ExitError;
use busbw_core::printable::printable;
use busbw_host::machine;

/// How long a host may take from the start of ssh to its agent's greeting.
const AGENT_START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long copying this program may take: it has some 20 MB.
const COPY_TIMEOUT: Duration = Duration::from_secs(600);
/// How often it is checked whether ssh is stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How much of ssh's stderr is kept for a message, bytes.
const MAX_KEPT_BYTES: usize = 2000;
/// Longest line that is read, bytes.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// A host whose agent is ready.
pub(super) struct Connection {
    /// The host as the user names it.
    pub(super) host: String,
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: BufReader<ChildStdout>,
    pub(super) output: SshOutput,
    pub(super) greeting: Greeting,
    /// The command that kills the agent over another ssh.
    pub(super) end_agent: Command,
}

impl Connection {
    /// Opens the connection; `command` makes the ssh command that runs a script there.
    ///
    /// # Errors
    /// When ssh fails, or this program cannot run there.
    pub(super) fn open(
        host: &str,
        command: impl Fn(&str) -> Command,
        binary: &Binary,
    ) -> Result<Connection> {
        let start = command(&binary.start_script());
        let mut ssh = Ssh::spawn(host, &start)?;
        let greeting = match ssh.find_agent()? {
            Some(greeting) => greeting,
            None => {
                copy(host, &command(&binary.copy_script()?), &binary.bytes)?;
                ssh = Ssh::spawn(host, &start)?;
                ssh.find_agent()?.ok_or_else(|| {
                    let text = format!("{host}: busbw was copied to it, and the copy is missing: check whether ~/.cache keeps files");
                    ExitError::new(Exit::Library, text)
                })?
            }
        };
        ssh.output.forward();
        let Ssh { host, child, stdin, stdout, output } = ssh;
        let end_agent = command(&binary.end_script(greeting.pid));
        Ok(Connection { host, child, stdin, stdout, output, greeting, end_agent })
    }
}

/// An ssh that has been started.
struct Ssh {
    host: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    output: SshOutput,
}

impl Ssh {
    /// In a process group of its own: Ctrl-C must not close the connection before the run has ended.
    fn spawn(host: &str, command: &Command) -> Result<Ssh> {
        let child = command
            .to_start()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = not_started(child, command.program())?;
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdin, Some(stdout), Some(stderr)) = taken else {
            return Err(ExitError::new(Exit::Internal, "ssh was started without pipes").into());
        };
        let output = SshOutput::follow(stderr)?;
        Ok(Ssh { host: host.to_owned(), child, stdin, stdout: BufReader::new(stdout), output })
    }

    /// Reads lines until the agent's greeting; none if the program is missing.
    fn find_agent(&mut self) -> Result<Option<Greeting>> {
        let by = Instant::now() + AGENT_START_TIMEOUT;
        let late = format!("did not start busbw there within {} s", AGENT_START_TIMEOUT.as_secs());
        while let Some(line) = self.line(by, &late)? {
            if let Some(machine) = line.strip_prefix(HOST) {
                self.possible(machine.trim())?;
            } else if line == MISSING {
                return Ok(None);
            } else if let Some(greeting) = line.strip_prefix(READY) {
                let greeting = serde_json::from_str(greeting).with_context(|| {
                    format!("{}: cannot parse the greeting of its agent", self.host)
                })?;
                return Ok(Some(greeting));
            }
        }
        Err(self.failed("could not start busbw there"))
    }

    /// The next line; none at the end of the stream. `late` is the message when there is none by `by`.
    fn line(&mut self, by: Instant, late: &str) -> Result<Option<String>> {
        let mut line = Vec::new();
        let mut stopped: Option<Instant> = None;
        while self.stdout.buffer().is_empty() {
            let left = by.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL);
            let wait = Timespec::try_from(left).unwrap_or_default();
            if !matches!(
                poll(&mut [PollFd::new(self.stdout.get_ref(), PollFlags::IN)], Some(&wait)),
                Ok(0)
            ) {
                break;
            }
            stopped = machine::is_stopped(&machine::Root::system(), self.child.id())
                .then(|| stopped.unwrap_or_else(Instant::now));
            let text = match stopped {
                Some(since) if since.elapsed() >= STOPPED_TIMEOUT => format!(
                    "did not start busbw there: process {} of ssh on this machine has been stopped for {} s",
                    self.child.id(),
                    STOPPED_TIMEOUT.as_secs()
                ),
                _ if Instant::now() >= by => late.to_owned(),
                _ => continue,
            };
            let _ = self.child.kill();
            return Err(self.failed(&text));
        }
        let read = (&mut self.stdout).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.with_context(|| format!("cannot read from ssh to {}", self.host))?;
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        Ok(Some(text).filter(|_| !line.is_empty()))
    }

    /// Refuses a host whose operating system or processor differs.
    fn possible(&self, machine: &str) -> Result<()> {
        let ours = rustix::system::uname();
        let ours = [ours.sysname(), ours.machine()].map(|word| word.to_string_lossy().into_owned());
        if machine == ours.join(" ") {
            return Ok(());
        }
        let text = format!(
            "{} is {}, and this busbw is for {}: start it from a machine of the hosts' kind, or use mpirun or srun with a busbw for the hosts at the same path",
            self.host,
            printable(machine),
            ours.join(" ")
        );
        Err(ExitError::new(Exit::Impossible, text).into())
    }

    /// The error of an ssh that ended too early.
    fn failed(&mut self, what: &str) -> anyhow::Error {
        let how = self.child.wait().map_or_else(|error| error.to_string(), ended);
        let output = self.output.quoted();
        let text = format!("ssh to {} {what}: ssh {how}{output}", self.host);
        ExitError::new(Exit::Library, text).into()
    }
}

/// Writes our program to the host.
fn copy(host: &str, command: &Command, bytes: &[u8]) -> Result<()> {
    let mut ssh = Ssh::spawn(host, command)?;
    let (by, late) = (Instant::now() + COPY_TIMEOUT, "did not copy busbw there within 600 s");
    let stdin = ssh.stdin.take();
    let copied = std::thread::scope(|scope| {
        scope.spawn(move || {
            // If writing fails, stderr tells why.
            let _ = stdin.map(|mut stdin| stdin.write_all(bytes));
        });
        while let Some(line) = ssh.line(by, late)? {
            if line == COPIED {
                return Ok(true);
            }
        }
        anyhow::Ok(false)
    })?;
    let how = ssh.child.wait().map_or_else(|error| error.to_string(), ended);
    if copied {
        return Ok(());
    }
    let text =
        format!("cannot copy busbw to {host}, below ~/.cache: ssh {how}{}", ssh.output.quoted());
    Err(ExitError::new(Exit::Library, text).into())
}

/// The stderr of an ssh.
pub(super) struct SshOutput {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    kept: Vec<u8>,
    forwarded: bool,
}

impl SshOutput {
    fn follow(mut from: impl Read + Send + 'static) -> Result<SshOutput> {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("ssh".to_owned())
            .spawn(move || {
                let mut piece = [0; 1 << 12];
                while let Ok(len @ 1..) = from.read(&mut piece) {
                    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    if state.forwarded {
                        // Without a stderr there is nobody to tell.
                        let _ = io::stderr().write_all(&piece[..len]);
                    }
                    state.kept.extend_from_slice(&piece[..len]);
                    let more = state.kept.len().saturating_sub(MAX_KEPT_BYTES);
                    state.kept.drain(..more);
                }
            })
            .context("cannot start a thread for ssh's stderr")?;
        Ok(SshOutput { state, thread: Some(thread) })
    }

    /// Forwards everything to this process's stderr from now on, including what was kept.
    fn forward(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = io::stderr().write_all(&state.kept);
        state.kept.clear();
        state.forwarded = true;
    }

    /// Whether the stream has ended, and all of it was forwarded.
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The last lines for a message; empty if there are none.
    fn quoted(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&state.kept);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let from = lines.len().saturating_sub(4);
        if lines.is_empty() {
            String::new()
        } else {
            format!(": {}", printable(&lines[from..].join("; ")))
        }
    }
}
