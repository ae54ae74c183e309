//! Ends an agent that does not answer, over another ssh to its host.
//! Not agents that answer: those end when their connection closes.

use std::{
    io::Read,
    process::Stdio,
    time::{Duration, Instant},
};

use super::binary::{ENDED, GONE};
use crate::launchers::command::Command;

/// How long the other ssh may take.
const END_TIMEOUT: Duration = Duration::from_secs(12);
/// How often it is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command that kills an agent (`binary::Binary::end_script`). Returns whether it was still there.
///
/// # Errors
/// Why it may still be there.
pub(super) fn end_agent(command: &Command) -> Result<bool, String> {
    let child = command
        .to_start()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("another ssh cannot be started: {error}"))?;
    let by = Instant::now() + END_TIMEOUT;
    while let Ok(None) = child.try_wait() {
        if Instant::now() >= by {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("another ssh did not end within {} s", END_TIMEOUT.as_secs()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        let _ = stdout.take(1 << 12).read_to_string(&mut said);
    }
    match said.lines().last() {
        Some(ENDED) => Ok(true),
        Some(GONE) => Ok(false),
        _ => Err("another ssh did not reach it".to_owned()),
    }
}
