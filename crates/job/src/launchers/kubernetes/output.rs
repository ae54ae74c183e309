//! The first pod's output: its log, followed by kubectl and begun again where the connection breaks.
//! Not what it means.

use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use busbw_core::{exit::Exit, hidden_commands::TIED};

use super::{
    kubectl::text_of,
    pod::{Pod, State},
    template::CONTAINER,
    watch::Watch,
};
use crate::launchers::command::Command;

/// How long the first pod is waited for at a time.
const PAUSE: Duration = Duration::from_millis(200);
/// How long kubectl waits after a failure.
const RETRY: Duration = Duration::from_millis(500);
/// How long the log may not be readable at all.
const FAILING: Duration = Duration::from_secs(15);

/// The kubectl that follows the log.
pub(super) type Follower = Arc<Mutex<Option<Child>>>;

/// Starts to follow; the reader ends when the first pod has, or when nobody is to follow any more.
///
/// # Errors
/// There is no pipe, or no thread.
pub(super) fn follow(watch: &Arc<Watch>) -> io::Result<(PipeReader, Follower)> {
    let (reader, writer) = io::pipe()?;
    let follower = Follower::default();
    let (watch, ours) = (Arc::clone(watch), Arc::clone(&follower));
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || copy(&watch, &ours, writer))?;
    Ok((reader, follower))
}

fn copy(watch: &Watch, follower: &Follower, mut to: PipeWriter) {
    let mut log = Log { passed: 0, failing: None };
    loop {
        let (name, has_begun, has_ended, is_gone) = {
            let known = watch.known();
            let first = watch.first(&known);
            let has_ended = first.is_some_and(Pod::has_ended);
            let has_begun = has_ended || first.is_some_and(|pod| pod.state == State::Runs);
            let is_gone = known.is_over || first.is_some_and(|pod| pod.is_gone);
            (first.map(|pod| pod.name.clone()), has_begun, has_ended, is_gone)
        };
        // Deleted pods go at once, with their log.
        if is_gone {
            return;
        }
        let Some(name) = name.filter(|_| has_begun) else {
            watch.wait(PAUSE);
            continue;
        };
        match log.follow(watch, follower, &name, &mut to) {
            // A log ends with its pod, and where a connection ends: the pod's state tells which.
            Ok(()) if has_ended => return,
            Ok(()) => watch.ask_again(PAUSE),
            Err(Broken::Reader) => return,
            Err(Broken::Log(failed)) => {
                let since = log.failing.get_or_insert_with(Instant::now).elapsed();
                if since >= FAILING {
                    let text = format!("the log of pod {name} cannot be read: {failed}");
                    return watch.lose(Exit::Library, text);
                }
                watch.wait(RETRY);
            }
        }
    }
}

/// Why no more is read.
enum Broken {
    /// Nobody reads any more.
    Reader,
    /// kubectl failed: what it said, with what that means.
    Log(String),
}

/// What was read of the log.
struct Log {
    /// Bytes.
    passed: u64,
    /// Since when nothing could be read.
    failing: Option<Instant>,
}

impl Log {
    /// Copies what is new, to the end of the log or of the connection.
    fn follow(
        &mut self,
        watch: &Watch,
        follower: &Follower,
        name: &str,
        to: &mut PipeWriter,
    ) -> Result<(), Broken> {
        let words = ["logs", "--follow", "--container", CONTAINER, name];
        let broken = |why: io::Error| Broken::Log(why.to_string());
        let program = std::env::current_exe().map_err(broken)?;
        let tied = Command::new([program]).with([TIED]).with(&watch.kubectl.command(&words).words);
        let started = tied
            .to_start()
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(broken)?;
        let said = text_of(child.stderr.take());
        let Some(mut stdout) = child.stdout.take() else { return Ok(()) };
        let slot = |child: Option<Child>| {
            std::mem::replace(&mut *follower.lock().unwrap_or_else(PoisonError::into_inner), child)
        };
        slot(Some(child));
        let copied =
            skip(&mut stdout, self.passed).and_then(|()| self.pass(watch, &mut stdout, to));
        let status = slot(None).map(|mut child| child.wait()).transpose().map_err(broken)?;
        copied.map_err(|_| Broken::Reader)?;
        match status {
            Some(status) if status.success() => Ok(()),
            _ => {
                let said = said.recv_timeout(RETRY).unwrap_or_default();
                Err(Broken::Log(watch.kubectl.meaning(&words, &said).text))
            }
        }
    }

    fn pass(&mut self, watch: &Watch, from: &mut impl Read, to: &mut PipeWriter) -> io::Result<()> {
        let mut bytes = [0; 1 << 16];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Ok(()),
            };
            to.write_all(&bytes[..count])?;
            self.passed += count as u64;
            self.failing = None;
            // What comes through the API server is an answer of it.
            watch.known().answered = Instant::now();
        }
    }
}

/// Leaves out what an earlier connection has passed on.
fn skip(from: &mut impl Read, bytes: u64) -> io::Result<()> {
    io::copy(&mut from.take(bytes), &mut io::sink()).map(drop)
}
