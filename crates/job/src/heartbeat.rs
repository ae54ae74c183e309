//! Heartbeats: how often a process shows that it answers, how long it may be silent, and the line by which process 0 of
//! a relayed run does so on its stdout.
//! Not what a silent process means for the run (`busbw-runner`, `busbw-cli`).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// Between two heartbeats of a process.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a process may be silent: five heartbeats. A process that is only slow has a thread of its own for them, and
/// on a busy machine that thread runs within a fraction of a second.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process of this host may be stopped before it counts as lost: a debugger or Ctrl-Z may stop it.
pub const STOPPED_TIMEOUT: Duration = Duration::from_secs(5);
/// A pause of this length between two checks means that the checking process itself was stopped, or had no processor:
/// no timeout counts it.
const SUSPENDED_THRESHOLD: Duration = Duration::from_secs(2);

/// Since when a peer is silent. The time in which this process was itself stopped does not count.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    since: Instant,
    checked: Instant,
}

impl Silence {
    /// A peer that has just been heard.
    pub fn begin(now: Instant) -> Silence {
        Silence { since: now, checked: now }
    }

    /// The peer was heard.
    pub fn end(&mut self, now: Instant) {
        self.since = now;
    }

    /// How long the peer has been silent. To be called several times a second.
    pub fn length(&mut self, now: Instant) -> Duration {
        let pause = now.saturating_duration_since(std::mem::replace(&mut self.checked, now));
        if pause >= SUSPENDED_THRESHOLD {
            self.since = (self.since + pause).min(now);
        }
        now.saturating_duration_since(self.since)
    }
}

/// When the event loop of process 0 last advanced. A loop that hangs is as silent as a process that is stopped.
#[derive(Debug, Clone, Default)]
pub struct EventLoop(Arc<Mutex<Option<Instant>>>);

impl EventLoop {
    /// The loop runs, and has advanced.
    pub fn advance(&self) {
        self.set(Some(Instant::now()));
    }

    /// The loop has ended. What this process does now has no rhythm.
    pub fn leave(&self) {
        self.set(None);
    }

    /// How long the loop has not advanced; zero where none runs.
    pub fn idle(&self) -> Duration {
        let advanced = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        advanced.map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn set(&self, to: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

/// What process 0 tells of itself at every heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Its process ID.
    pub pid: u32,
    /// Its host's name.
    pub host: String,
    /// How long its event loop has not advanced, milliseconds.
    pub idle_ms: u64,
}

/// Beginning of a heartbeat's line. No line of a record begins so.
const PREFIX: &str = "busbw-heartbeat ";

impl Heartbeat {
    /// This process's heartbeat.
    pub fn of_this_process(host: &str, event_loop: &EventLoop) -> Heartbeat {
        let idle_ms = event_loop.idle().as_millis() as u64;
        Heartbeat { pid: std::process::id(), host: host.to_owned(), idle_ms }
    }

    /// As a line of stdout.
    pub fn to_line(&self) -> Vec<u8> {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{PREFIX}{text}\n").into_bytes()
    }

    /// The heartbeat that a line holds, if it holds one.
    pub fn from_line(line: &[u8]) -> Option<Heartbeat> {
        serde_json::from_slice(line.strip_prefix(PREFIX.as_bytes())?).ok()
    }

    /// When its sender last did something, if it was received at `now`.
    pub fn heard(&self, now: Instant) -> Instant {
        now.checked_sub(Duration::from_millis(self.idle_ms)).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn silence_grows_until_the_peer_is_heard() {
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
        let mut silence = Silence::begin(start);
        for tenths in 1..100 {
            assert!(silence.length(at(tenths)) < SILENCE_TIMEOUT);
        }
        assert_eq!(silence.length(at(100)), SILENCE_TIMEOUT);
        silence.end(at(100));
        assert_eq!(silence.length(at(110)), Duration::from_secs(1));
    }

    /// After Ctrl-Z and fg, nobody else is to blame.
    #[test]
    fn the_own_suspension_does_not_count() {
        let start = Instant::now();
        let mut silence = Silence::begin(start);
        let second = Duration::from_secs(1);
        assert_eq!(silence.length(start + second), second);
        assert_eq!(silence.length(start + 3600 * second), second);
        assert_eq!(silence.length(start + 3601 * second), 2 * second);
    }

    #[test]
    fn a_loop_that_hangs_is_seen() {
        let event_loop = EventLoop::default();
        assert_eq!(event_loop.idle(), Duration::ZERO);
        event_loop.advance();
        std::thread::sleep(Duration::from_millis(2));
        assert!(event_loop.idle() >= Duration::from_millis(2));
        event_loop.leave();
        assert_eq!(event_loop.idle(), Duration::ZERO);
        let now = Instant::now() + Duration::from_secs(100);
        let beat = Heartbeat { pid: 1, host: "a".to_owned(), idle_ms: 3000 };
        assert_eq!(now - beat.heard(now), Duration::from_secs(3));
    }

    proptest! {
        #[test]
        fn a_line_both_ways(pid: u32, host in "[^\n]{0,20}", idle_ms: u64) {
            let beat = Heartbeat { pid, host, idle_ms };
            let line = beat.to_line();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(Heartbeat::from_line(&line), Some(beat));
        }

        #[test]
        fn other_lines_are_none(line: Vec<u8>) {
            prop_assert_eq!(Heartbeat::from_line(&line), None);
        }
    }
}
