//! An agent as busbw at this end of ssh hears it: its answers, and since when it is silent. Its answers are lines among
//! those of process 0, which it forwards.
//! Not what its silence means for the run (`monitor`).

use std::{
    io::{self, BufRead, BufReader, Read},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::orders::{ANSWER, Answer};
use crate::heartbeat::Silence;

/// What is known of an agent. Clones are of the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentSilence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The silence while this process waits for the agent. What is not read yet, since the user's pager pauses, say,
    /// is no silence.
    waiting: Option<Silence>,
    /// Process 0 and since when it is stopped, by the agent's answers.
    stopped: Option<(u32, Instant)>,
}

impl AgentSilence {
    /// How long the agent has been silent. To be called several times a second.
    pub(super) fn length(&self, now: Instant) -> Duration {
        self.state().waiting.as_mut().map_or(Duration::ZERO, |silence| silence.length(now))
    }

    /// Process 0, and how long it has been stopped, if it is.
    pub(super) fn stopped_process(&self, now: Instant) -> Option<(u32, Duration)> {
        let (pid, since) = self.state().stopped?;
        Some((pid, now.saturating_duration_since(since)))
    }

    fn answer(&self, answer: Answer) {
        let mut state = self.state();
        state.stopped = match (answer.stopped, state.stopped) {
            (Some(pid), Some((same, since))) if pid == same => Some((pid, since)),
            (pid, _) => pid.map(|pid| (pid, Instant::now())),
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stdout of an agent without its answers.
pub(super) struct AgentOutput<R> {
    from: BufReader<Heard<R>>,
    agent: AgentSilence,
    /// The line that is handed out, and how much of it has been.
    line: Vec<u8>,
    at: usize,
}

impl<R: Read> AgentOutput<R> {
    /// Reads `from`, and tells `agent` what it hears.
    pub(super) fn new(from: R, agent: AgentSilence) -> AgentOutput<R> {
        let heard = Heard { from, agent: agent.clone() };
        AgentOutput { from: BufReader::new(heard), agent, line: Vec::new(), at: 0 }
    }
}

impl<R: Read> Read for AgentOutput<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            if self.from.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(0);
            }
            let answer = self.line.strip_prefix(ANSWER.as_bytes());
            if let Some(answer) = answer.and_then(|text| serde_json::from_slice(text).ok()) {
                self.agent.answer(answer);
                self.line.clear();
            }
        }
        let count = into.len().min(self.line.len() - self.at);
        into[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// A stream of an agent. Every byte of it shows that the agent answers.
struct Heard<R> {
    from: R,
    agent: AgentSilence,
}

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.agent.state().waiting = Some(Silence::begin(Instant::now()));
        let read = self.from.read(into);
        self.agent.state().waiting = None;
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(stopped: Option<u32>) -> Vec<u8> {
        let text = serde_json::to_string(&Answer { stopped }).unwrap();
        format!("{ANSWER}{text}\n").into_bytes()
    }

    #[test]
    fn a_process_is_stopped_since_the_first_answer_that_said_so() {
        let agent = AgentSilence::default();
        let read = |bytes: &[u8]| io::read_to_string(AgentOutput::new(bytes, agent.clone()));
        assert_eq!(read(&line(None)).unwrap(), "");
        assert_eq!(agent.stopped_process(Instant::now()), None);
        read(&line(Some(7))).unwrap();
        let since = agent.state().stopped;
        read(&[line(Some(7)), b"row\n".to_vec(), line(Some(7))].concat()).unwrap();
        assert_eq!(agent.state().stopped, since);
        let later = Instant::now() + Duration::from_secs(9);
        assert!(agent.stopped_process(later).unwrap().1 >= Duration::from_secs(9));
        read(&line(None)).unwrap();
        assert_eq!(agent.stopped_process(Instant::now()), None);
    }

    #[test]
    fn silence_is_that_of_a_read_under_way() {
        let agent = AgentSilence::default();
        let later = Instant::now() + Duration::from_millis(1900);
        assert_eq!(agent.length(later), Duration::ZERO);
        let (reader, writer) = io::pipe().unwrap();
        let mut output = AgentOutput::new(reader, agent.clone());
        std::thread::scope(|scope| {
            scope.spawn(move || output.read(&mut [0; 9]).unwrap());
            while agent.length(Instant::now()) == Duration::ZERO {
                std::thread::yield_now();
            }
            drop(writer);
        });
        assert_eq!(agent.length(later), Duration::ZERO);
    }

    proptest! {
        /// Answers anywhere between lines change nothing of the rest, in whatever pieces it is read.
        #[test]
        fn everything_else_passes(
            lines in prop::collection::vec((any::<bool>(), "[a-z{}\"]{0,40}"), 0..20),
            piece in 1usize..50,
        ) {
            let (mut sent, mut want) = (Vec::new(), Vec::new());
            for (is_answer, text) in lines {
                if is_answer {
                    sent.extend(line(None));
                } else {
                    sent.extend(format!("{text}\n").bytes());
                    want.extend(format!("{text}\n").bytes());
                }
            }
            let mut output = AgentOutput::new(&sent[..], AgentSilence::default());
            let (mut read, mut bytes) = (Vec::<u8>::new(), vec![0; piece]);
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                read.extend(&bytes[..count]);
            }
            prop_assert_eq!(read, want);
        }
    }
}
