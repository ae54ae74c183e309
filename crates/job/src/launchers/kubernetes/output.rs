//! The first pod's output: its log, followed by kubectl and begun again where the connection breaks.
//! Not what it means.

use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use busbw_core::hidden_commands::TIED;

use super::watch::Watch;
use crate::launchers::command::Command;

/// How long the first pod is waited for at a time.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the state of a pod whose log has ended may be unknown.
const UNKNOWN: Duration = Duration::from_secs(10);

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
    let mut passed: u64 = 0;
    let mut ended: Option<Instant> = None;
    loop {
        let (name, has_begun, has_ended, is_over) = {
            let known = watch.known();
            let first = watch.first(&known);
            let has_ended = first.is_some_and(super::pod::Pod::has_ended);
            let has_begun =
                has_ended || first.is_some_and(|pod| pod.state == super::pod::State::Runs);
            (first.map(|pod| pod.name.clone()), has_begun, has_ended, known.is_over)
        };
        if is_over {
            return;
        }
        // Deleted pods go at once, with their log.
        if name.is_none() && passed > 0 {
            return;
        }
        let Some(name) = name.filter(|_| has_begun) else {
            watch.wait(PAUSE);
            continue;
        };
        if ended.is_some_and(|ended| has_ended || ended.elapsed() >= UNKNOWN) {
            return;
        }
        match one(watch, follower, &name, &mut passed, &mut to) {
            // Whether that was all, the pod's state tells: it may come later.
            Ok(true) if has_ended => return,
            Ok(true) => drop(ended.get_or_insert_with(Instant::now)),
            Ok(false) => {}
            Err(_) => return,
        }
        watch.wait(PAUSE);
    }
}

/// Copies what is new in the log; whether kubectl has seen its end.
fn one(
    watch: &Watch,
    follower: &Follower,
    name: &str,
    passed: &mut u64,
    to: &mut PipeWriter,
) -> io::Result<bool> {
    let log = watch.kubectl.command(&["logs", "--follow", name]);
    let tied = Command::new([std::env::current_exe()?]).with([TIED]).with(&log.words);
    let mut child = tied
        .to_start()
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(mut stdout) = child.stdout.take() else { return Ok(false) };
    let slot = |child: Option<Child>| {
        std::mem::replace(&mut *follower.lock().unwrap_or_else(PoisonError::into_inner), child)
    };
    slot(Some(child));
    let copied = skip(&mut stdout, *passed).and_then(|()| pass(watch, &mut stdout, passed, to));
    let status = slot(None).map(|mut child| child.wait()).transpose()?;
    copied?;
    Ok(status.is_some_and(|status| status.success()))
}

/// Leaves out what an earlier connection has passed on.
fn skip(from: &mut impl Read, bytes: u64) -> io::Result<()> {
    io::copy(&mut from.take(bytes), &mut io::sink()).map(drop)
}

fn pass(
    watch: &Watch,
    from: &mut impl Read,
    passed: &mut u64,
    to: &mut PipeWriter,
) -> io::Result<()> {
    let mut bytes = [0; 1 << 16];
    loop {
        let count = match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ok(()),
        };
        to.write_all(&bytes[..count])?;
        *passed += count as u64;
        // What comes through the API server is an answer of it.
        watch.known().answered = Instant::now();
    }
}
