//! Process 0 of a relayed run as the busbw that started it hears it: its lines, read by a thread of their own, its
//! heartbeats, and the message when they stay out.
//! Not what its lines mean (`relay`).

use std::{
    io::{self, BufRead, BufReader, Read},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use busbw_host::machine;
use busbw_job::{
    heartbeat::{Heartbeat, SILENCE_TIMEOUT, Silence},
    launchers::{Carrier, Loss, RunningJob},
    leftover,
};

/// Lines that wait here before process 0 waits: rows must not pile up while the reader of stdout pauses.
const MAX_WAITING_LINES: usize = 4;
/// How often it is checked who answers.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// An agent that has not answered for so long may be the reason for the silence of process 0.
const CARRIER_SILENCE: Duration = Duration::from_secs(3);
/// How long the launcher may take to end after the record's last line: of a complete run, and of one that lost a process,
/// which some launchers then wait for.
const END_TIMEOUTS: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(5)];

/// What comes next of process 0.
pub(super) enum Next {
    /// A line of its stdout that is no heartbeat.
    Line(Vec<u8>),
    /// Its stdout has ended.
    End,
    /// What the launcher has to say of its processes.
    News(Vec<String>),
    /// The job cannot go on: it, or a part of the launcher, does not answer, or a process cannot be started.
    Lost(Loss),
}

/// Process 0.
pub(super) struct Process0 {
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Its last heartbeat, and the silence since; none before the first one: the launcher may wait for hosts.
    heard: Option<(Heartbeat, Silence)>,
    /// Since when the record's last line is here, and how long the launcher may still take.
    ended: Option<(Silence, Duration)>,
    checked: Instant,
}

impl Process0 {
    /// Reads the stdout of a job's process 0.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn of(job: &mut dyn RunningJob) -> Result<Process0> {
        let (sender, lines) = mpsc::sync_channel(MAX_WAITING_LINES);
        let stdout = job.stdout();
        std::thread::Builder::new()
            .name("process-0".to_owned())
            .spawn(move || {
                let mut stdout = BufReader::new(stdout);
                while let Some(line) = read_line(&mut stdout) {
                    let over = line.is_err();
                    if sender.send(line).is_err() || over {
                        return;
                    }
                }
            })
            .context("cannot start a thread for the stdout of process 0")?;
        Ok(Process0 { lines, heard: None, ended: None, checked: Instant::now() })
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// When its stdout cannot be read.
    pub(super) fn next(&mut self, job: &mut dyn RunningJob) -> Result<Next> {
        loop {
            let now = Instant::now();
            if now.duration_since(self.checked) >= CHECK_INTERVAL {
                self.checked = now;
                let news = job.news();
                if !news.is_empty() {
                    return Ok(Next::News(news));
                }
                if let Some(lost) = job.lost() {
                    return Ok(Next::Lost(lost));
                }
            }
            let line = match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => line.context("cannot read the run's record from process 0")?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::End),
                // Everything that has arrived was heard.
                Err(RecvTimeoutError::Timeout) => match self.lost(Instant::now(), &job.carrier()) {
                    Some(lost) => return Ok(Next::Lost(Loss::silent(lost))),
                    None => continue,
                },
            };
            match Heartbeat::from_line(&line) {
                Some(heartbeat) => self.heartbeat(heartbeat),
                None => {
                    if let Some((_, silence)) = &mut self.heard {
                        silence.end(Instant::now());
                    }
                    return Ok(Next::Line(line));
                }
            }
        }
    }

    /// The record's last line came: process 0 and the launcher end now.
    pub(super) fn has_ended(&mut self, exit: Exit) {
        let limit = END_TIMEOUTS[usize::from(exit != Exit::Ok)];
        self.ended.get_or_insert((Silence::begin(Instant::now()), limit));
    }

    fn heartbeat(&mut self, heartbeat: Heartbeat) {
        let now = Instant::now();
        let mut silence = self.heard.take().map_or(Silence::begin(now), |(_, silence)| silence);
        silence.end(heartbeat.heard(now));
        self.heard = Some((heartbeat, silence));
    }

    fn lost(&mut self, now: Instant, carrier: &Carrier) -> Option<String> {
        if let Some((ended, limit)) = &mut self.ended {
            return (ended.length(now) >= *limit + carrier.grace).then(|| {
                format!(
                    "{} has not ended {} s after the run: one of its processes may be stopped",
                    carrier.name,
                    (*limit + carrier.grace).as_secs()
                )
            });
        }
        let (heartbeat, silence) = self.heard.as_mut()?;
        let length = silence.length(now);
        if length < SILENCE_TIMEOUT
            || carrier.silence.is_some_and(|length| length >= CARRIER_SILENCE)
        {
            return None;
        }
        let Heartbeat { pid, host, idle_ms } = heartbeat;
        let last = length.saturating_sub(Duration::from_millis(*idle_ms)).as_secs();
        let name = format!("process 0 of the run (process {pid} on {host})");
        Some(match (carrier.silence, *idle_ms >= 1000) {
            (_, true) => format!(
                "{name} has done nothing for {} s: its last heartbeat, {last} s ago, said that it was busy with one thing, such as a disk that does not answer",
                length.as_secs()
            ),
            (Some(_), false) => format!(
                "{name} has not answered for {} s, though {} has: it is stopped, or hangs",
                length.as_secs(),
                carrier.name
            ),
            (None, false) => format!(
                "{name} has not answered for {} s: it is stopped, or {}, a process of it on {host}, or the network between does not forward its output",
                length.as_secs(),
                carrier.name
            ),
        })
    }

    /// Ends process 0 if it is left on this machine and stopped. Names it if it may be left elsewhere.
    pub(super) fn end_leftover(&self) -> Option<String> {
        let (Heartbeat { pid, host, .. }, _) = self.heard.as_ref()?;
        if *host == machine::host_name() {
            leftover::end_stopped(*pid);
            return None;
        }
        Some(format!(
            "whether process 0 (process {pid} on {host}) has ended could not be seen from here: `ps -p {pid}` there shows it"
        ))
    }
}

/// The next line; none at the end.
fn read_line(from: &mut BufReader<impl Read>) -> Option<io::Result<Vec<u8>>> {
    let mut line = Vec::new();
    match from.read_until(b'\n', &mut line) {
        Ok(0) => None,
        Ok(_) => Some(Ok(line)),
        Err(error) => Some(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(idle_ms: u64) -> Process0 {
        let (_, lines) = mpsc::sync_channel(1);
        let mut process = Process0 { lines, heard: None, ended: None, checked: Instant::now() };
        process.heartbeat(Heartbeat { pid: 7, host: "a".to_owned(), idle_ms });
        process
    }

    /// What is said after so many seconds, checked every second.
    fn after(process: &mut Process0, seconds: u64, carrier: Option<u64>) -> Option<String> {
        let (start, silence) = (Instant::now(), carrier.map(Duration::from_secs));
        let name = "the agent on a (process 3 there)".to_owned();
        let carrier = Carrier { name, silence, ..Carrier::default() };
        let check = |second| process.lost(start + Duration::from_secs(second), &carrier);
        (1..=seconds).filter_map(check).next()
    }

    #[test]
    fn process_0_is_named_only_if_nothing_else_explains_its_silence() {
        assert_eq!(after(&mut heard(0), 9, Some(0)), None);
        let said = after(&mut heard(0), 11, Some(0)).unwrap();
        let name = "process 0 of the run (process 7 on a) has not answered for 1";
        assert!(said.starts_with(name) && said.contains("though the agent on a"), "{said}");
        assert_eq!(after(&mut heard(0), 14, Some(4)), None);
        assert!(after(&mut heard(0), 11, None).unwrap().contains("does not forward"));
        let said = after(&mut heard(9500), 1, Some(0)).unwrap();
        assert!(said.contains("busy with one thing"), "{said}");
    }

    #[test]
    fn after_the_last_line_only_the_end_is_late() {
        let mut process = heard(0);
        process.has_ended(Exit::Ok);
        assert_eq!(after(&mut process, 14, Some(0)), None);
        let said = after(&mut process, 16, Some(0)).unwrap();
        assert!(said.contains("has not ended 15 s after the run"), "{said}");
        let mut process = heard(0);
        process.has_ended(Exit::RankLost);
        assert!(after(&mut process, 6, Some(0)).unwrap().contains("has not ended 5 s after"));
    }
}
