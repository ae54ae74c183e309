//! A file as lines: what can be read, and what is wrong with the rest.
//! Not what the lines mean together.

use serde::Deserialize;
use thiserror::Error;

use crate::{Line, Process, VERSION};

/// Longest line that is read, bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// Most ranks of a communicator: a line that claims more is not read.
pub const MOST_RANKS: u32 = 1 << 20;

/// What a file has, oldest line first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFile {
    /// Its process.
    pub process: Process,
    /// All other lines.
    pub lines: Vec<Line>,
    /// Lines that could not be read, less one at the end.
    pub unread: u64,
    /// The file ends within a line: it is being written, or its process was killed while it wrote.
    pub torn: bool,
}

/// Why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    /// There is no whole line.
    #[error("it has no whole line yet")]
    Empty,
    /// The first line is not about a process.
    #[error("its first line is not that of a file of busbw's profiler")]
    Foreign,
    /// Another version.
    #[error(
        "it has version {0} of the format; this busbw reads version {VERSION}: use the busbw that wrote it"
    )]
    Version(u32),
}

/// As much of a first line as every version has.
#[derive(Deserialize)]
struct First {
    kind: String,
    version: u32,
}

impl WatchFile {
    /// Reads a file. Lines that cannot be read are counted, since one bad line must not hide a job.
    ///
    /// # Errors
    /// It is empty, another program's or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Trouble> {
        let torn = bytes.last().is_some_and(|last| *last != b'\n');
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').ok_or(Trouble::Empty)?;
        let mut rest = bytes[..whole].split(|byte| *byte == b'\n');
        let head = rest.next().unwrap_or_default();
        let first: First = read(head).ok_or(Trouble::Foreign)?;
        if first.kind != "process" {
            return Err(Trouble::Foreign);
        }
        if first.version != VERSION {
            return Err(Trouble::Version(first.version));
        }
        let Some(Line::Process(process)) = read(head) else { return Err(Trouble::Foreign) };
        let mut file = Self { process, lines: Vec::new(), unread: 0, torn };
        file.append(rest);
        Ok(file)
    }

    /// Takes what was written since: whole lines.
    pub fn take(&mut self, bytes: &[u8]) {
        self.append(bytes.split(|byte| *byte == b'\n'));
    }

    /// When the last heartbeat was, ns since the process began to write; 0 without one.
    #[must_use]
    pub fn last_heartbeat(&self) -> u64 {
        let beats = self.lines.iter().filter_map(|line| match line {
            Line::Heartbeat(beat) => Some(beat.at),
            _ => None,
        });
        beats.max().unwrap_or(0)
    }

    /// Leaves out calls that were asked for, and steps, clocks and heartbeats that are of before `from`, ns since the process
    /// began to write: who follows a job does not keep all of it.
    pub fn keep_from(&mut self, from: u64) {
        self.lines.retain_mut(|line| match line {
            Line::Calls(calls) => {
                calls.calls.retain(|call| call.enqueued >= from);
                !calls.calls.is_empty()
            }
            Line::Steps(steps) => steps.to >= from,
            Line::Clock(clock) => clock.at >= from,
            Line::Heartbeat(beat) => beat.at >= from,
            Line::Open(call) => call.at >= from,
            Line::Process(_) | Line::Communicator(_) | Line::Totals(_) | Line::End(_) => true,
        });
    }

    fn append<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) {
        for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
            match read(line) {
                // GPU times begin after the first line: it is written once more.
                Some(Line::Process(process)) => self.process = process,
                Some(Line::Communicator(one)) if one.ranks.max(one.rank) > MOST_RANKS => {
                    self.unread += 1;
                }
                Some(line) => self.lines.push(line),
                None => self.unread += 1,
            }
        }
    }
}

fn read<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Option<T> {
    (line.len() <= LONGEST_LINE).then(|| serde_json::from_slice(line).ok()).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use proptest::prelude::*;

    use super::*;
    use crate::{Call, Calls, Class, Heartbeat};

    const HEAD: &str = r#"{"kind":"process","version":1,"busbw":"0.1.0","host":"a","pid":7,"began":5,"interface":6,"mask":70}"#;

    fn class() -> Class {
        Class {
            communicator: 0,
            operation: "AllReduce".into(),
            count: 262_144,
            datatype: "ncclFloat32".into(),
            size: 1 << 20,
            algorithm: "RING".into(),
            protocol: "SIMPLE".into(),
            channels: 2,
            root: None,
            peer: None,
        }
    }

    #[test]
    fn a_call_is_four_numbers() {
        let calls = Calls {
            class: class(),
            calls: vec![
                Call { sequence: 3, enqueued: 10, started: Some(20), duration: Some(30) },
                Call { sequence: 4, enqueued: 40, started: None, duration: None },
            ],
        };
        let text = serde_json::to_string(&Line::Calls(calls.clone())).unwrap();
        assert!(text.contains(r#""calls":[[3,10,20,30],[4,40,null,null]]"#), "{text}");
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), Line::Calls(calls));
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_a_torn_end_is_said() {
        let beat = serde_json::to_string(&Line::Heartbeat(Heartbeat::default())).unwrap();
        let text = format!(
            "{HEAD}\n{beat}\n{{\"kind\":\"from the future\"}}\nnonsense\n{beat}\n{{\"kind\":\"hea"
        );
        let file = WatchFile::parse(text.as_bytes()).unwrap();
        assert_eq!((file.lines.len(), file.unread, file.torn), (2, 2, true));
        assert_eq!(file.process.host, "a");
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let calls = Calls {
            class: class(),
            calls: [10, 500, 900]
                .map(|enqueued| Call { sequence: 0, enqueued, started: None, duration: None })
                .to_vec(),
        };
        let mut file = WatchFile::parse(format!("{HEAD}\n").as_bytes()).unwrap();
        let beat = |at| Line::Heartbeat(Heartbeat { at, ..Heartbeat::default() });
        file.lines = vec![Line::Calls(calls), beat(100), beat(1_000)];
        assert_eq!(file.last_heartbeat(), 1_000);
        file.keep_from(400);
        let Line::Calls(left) = &file.lines[0] else { panic!("{:?}", file.lines) };
        assert_eq!(left.calls.iter().map(|call| call.enqueued).collect::<Vec<_>>(), [500, 900]);
        assert_eq!(file.lines[1..], [beat(1_000)]);
        file.keep_from(950);
        assert_eq!(file.lines, [beat(1_000)]);
    }

    #[test]
    fn more_ranks_than_any_job_has_are_not_believed() {
        let line = |ranks: u32| {
            format!(
                "{{\"kind\":\"communicator\",\"number\":0,\"id\":\"a\",\"nodes\":1,\"ranks\":{ranks},\"rank\":0,\"at\":1}}"
            )
        };
        let text = format!("{HEAD}\n{}\n{}\n", line(8), line(u32::MAX));
        let file = WatchFile::parse(text.as_bytes()).unwrap();
        assert_eq!((file.lines.len(), file.unread), (1, 1));
    }

    #[test]
    fn others_are_refused() {
        let parse = |text: &str| WatchFile::parse(text.as_bytes()).unwrap_err();
        assert_eq!(parse(""), Trouble::Empty);
        assert_eq!(parse(HEAD), Trouble::Empty);
        assert_eq!(parse("{\"kind\":\"run\"}\n"), Trouble::Foreign);
        assert_eq!(parse("\n"), Trouble::Foreign);
        let newer = HEAD.replace("\"version\":1", "\"version\":2");
        assert_eq!(parse(&format!("{newer}\n")), Trouble::Version(2));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = WatchFile::parse(&bytes);
            let mut text = format!("{HEAD}\n").into_bytes();
            text.extend_from_slice(&bytes);
            prop_assert!(WatchFile::parse(&text).is_ok());
        }
    }
}
