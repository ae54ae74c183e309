//! A line of a log: who printed it and when, by whatever stands before the text.
//! Not what it says.

use crate::nccl::message;

/// A line's origin and text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The line without its line end and colours.
    pub text: &'a str,
    /// Its number, from 1.
    pub number: u64,
    pub rank: Option<u32>,
    pub host: Option<&'a str>,
    pub pid: Option<u32>,
    /// NCCL's source position.
    pub place: Option<&'a str>,
    /// It is a message of NCCL at level INFO.
    pub info: bool,
    /// It is a message of NCCL at level WARN or ERROR: its text.
    pub warning: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a str, number: u64) -> Line<'a> {
        let mut line = Line { text, number, ..Line::default() };
        message::messages(text, |message| {
            line.host = Some(message.origin.host);
            line.pid = Some(message.origin.pid);
            line.info = message.level == message::Level::Info;
            if matches!(message.level, message::Level::Warn | message::Level::Error) {
                let place = message.place.split(' ').next().unwrap_or_default();
                line.place = Some(place).filter(|place| !place.is_empty());
                line.warning = Some(message.text.trim());
            }
        });
        line.rank = rank(text);
        line
    }

    /// The text behind `needle`.
    pub(super) fn after(&self, needle: &str) -> Option<&'a str> {
        self.text.split_once(needle).map(|(_, after)| after)
    }

    /// The text from `needle` on, to the end.
    pub(super) fn from(&self, needle: &str) -> Option<&'a str> {
        self.text.get(self.text.find(needle)?..)
    }

    /// The line without a rank's prefix: `[rank1]: `, `[1,0]<stderr>:`, `3: `.
    pub(super) fn bare(&self) -> &'a str {
        let mut text = self.text;
        loop {
            let Some(rest) = prefix(text) else { return text };
            text = rest;
        }
    }

    /// `MM-DD HH:MM:SS[.fraction]`: NCCL's and Slurm's `[2026-11-24 08:32:19]`, PyTorch's `E1124 08:32:19.5`.
    pub(super) fn time(&self) -> Option<String> {
        self.text.match_indices(':').take(8).find_map(|(at, _)| {
            let hours = self.text.get(at.checked_sub(2)?..)?;
            let clock = hours.get(..8).filter(|clock| is_shape(clock, "00:00:00"))?;
            let day = self.text.get(..at.checked_sub(3)?)?;
            let (month, day) = match day.len().checked_sub(10).and_then(|from| day.get(from..)) {
                Some(date) if is_shape(date, "0000-00-00") => (&date[5..7], &date[8..]),
                _ => {
                    let date = day.get(day.len().checked_sub(4)?..)?;
                    is_shape(date, "0000").then(|| (&date[..2], &date[2..]))?
                }
            };
            let rest = &hours[8..];
            let digits = rest
                .strip_prefix('.')
                .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).take(9).count());
            Some(format!("{month}-{day} {clock}{}", rest.get(..digits)?))
        })
    }
}

/// Whether digits stand where `shape` has zeros, and the same signs elsewhere.
fn is_shape(text: &str, shape: &str) -> bool {
    let same = |(a, b): (u8, u8)| if b == b'0' { a.is_ascii_digit() } else { a == b };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(same)
}

/// The leading number of a text.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

/// The text between two marks.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    Some(text.split_once(from)?.1.split_once(to)?.0)
}

/// What follows one launcher's mark at the beginning of a text.
fn prefix(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['\t', ' ']);
    if let Some(rest) = text.strip_prefix('[') {
        // PyTorch's `[rank1]:`, torchrun's `[default1]:`, mpirun's `[1,0]<stderr>:`.
        let (mark, rest) = rest.split_once(']')?;
        let named = mark.strip_prefix("rank").or_else(|| mark.strip_prefix("default"));
        if let Some(digits) = named {
            return digits.parse::<u32>().ok().and(rest.strip_prefix(':'))?.strip_prefix(' ').or(
                // An empty line of a rank.
                Some(rest.get(1..)?),
            );
        }
        let (job, rank) = mark.split_once(',')?;
        job.parse::<u32>().and(rank.parse::<u32>()).ok()?;
        let (stream, rest) = rest.strip_prefix('<')?.split_once('>')?;
        return matches!(stream, "stdout" | "stderr" | "stddiag")
            .then(|| rest.strip_prefix(':'))?
            .map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
    }
    // srun's label.
    let (label, rest) = text.split_once(": ")?;
    (label.len() <= 6 && label.parse::<u32>().is_ok()).then_some(rest)
}

/// The rank that a line's marks name.
fn rank(text: &str) -> Option<u32> {
    let head = &text[..text.floor_char_boundary(256)];
    for mark in ["[rank", "[Rank "] {
        if let Some(found) = head.split_once(mark).and_then(|(_, after)| closed(after)) {
            return Some(found);
        }
    }
    // `[PG ID 0 PG GUID 0(default_pg) Rank 1]`, `[PG 0 Rank 1]`.
    if let Some((_, group)) = head.split_once("[PG ") {
        return group.split_once("Rank ").and_then(|(_, after)| closed(after));
    }
    let start = text.trim_start();
    if let Some((mark, stream)) = start.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && stream.starts_with("<std")
    {
        return mark.split_once(',')?.1.parse().ok();
    }
    let (label, _) = start.split_once(": ")?;
    if label.len() <= 6 { label.parse().ok() } else { None }
}

/// A number up to a closing bracket.
fn closed(text: &str) -> Option<u32> {
    text.split_once(']')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_a_day_is_no_time() {
        for text in ["08:32:19", "08:32:19 [rank1]: x", ":08:32:19", "1:08:32:19", "é08:32:19"] {
            assert_eq!(Line::new(text, 1).time(), None, "{text}");
        }
        assert_eq!(Line::new("E1124 08:32:19.5 x", 1).time().as_deref(), Some("11-24 08:32:19.5"));
    }

    #[test]
    fn ranks_by_any_prefix() {
        for (text, rank, bare) in [
            ("[rank1]: ValueError: x", Some(1), "ValueError: x"),
            (
                "[rank12]:[E1124 08:33:22.7 ProcessGroupNCCL.cpp:1] y",
                Some(12),
                "[E1124 08:33:22.7 ProcessGroupNCCL.cpp:1] y",
            ),
            ("[1,3]<stderr>:ValueError: x", Some(3), "ValueError: x"),
            ("[1,3]<stderr>: [rank3]: ValueError: x", Some(3), "ValueError: x"),
            (" 7: ValueError: x", Some(7), "ValueError: x"),
            ("[default1]:ValueError: x", None, "ValueError: x"),
            (
                "[PG ID 0 PG GUID 0(default_pg) Rank 1] z",
                Some(1),
                "[PG ID 0 PG GUID 0(default_pg) Rank 1] z",
            ),
            ("ValueError: x", None, "ValueError: x"),
            ("[vm:00673] *** x", None, "[vm:00673] *** x"),
        ] {
            let line = Line::new(text, 1);
            assert_eq!((line.rank, line.bare()), (rank, bare), "{text}");
        }
        let text = "[2026-11-24 08:32:19] vm:1242:1242 [0] init.cc:904 (f) NCCL WARN Duplicate";
        let line = Line::new(text, 1);
        assert_eq!(
            (line.host, line.pid, line.place),
            (Some("vm"), Some(1242), Some("init.cc:904"))
        );
        assert_eq!(line.warning, Some("Duplicate"));
    }

    #[test]
    fn times_of_every_program() {
        let time = |text| Line::new(text, 1).time();
        assert_eq!(time("[2026-11-24 08:32:19] vm:1:1 [0] x").as_deref(), Some("11-24 08:32:19"));
        assert_eq!(time("[rank0]:[E1124 08:33:22.728 x").as_deref(), Some("11-24 08:33:22.728"));
        assert_eq!(time("  time      : 2026-11-24_08:33:36").as_deref(), Some("11-24 08:33:36"));
        assert_eq!(
            time("[2025-12-17T12:59:34.342] error: x").as_deref(),
            Some("12-17 12:59:34.342")
        );
        assert_eq!(time("vm:1:1 [0] NCCL INFO x"), None);
        assert_eq!(time("é:é::12:00:00"), None);
    }
}
