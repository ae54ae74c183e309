//! Python's tracebacks, of several ranks at once: the exception at the end of each.
//! Not what the exception's text means to another rule.

use std::collections::BTreeMap;

use super::{line::Line, rule::keep};

/// The most lines of a traceback, with lines of others in between.
const MAX_LINES: u32 = 1000;
/// The longest prefix of a traceback's lines.
const MAX_PREFIX_BYTES: usize = 200;
/// The most ranks whose tracebacks are open at once.
const MAX_OPEN: usize = 1024;

/// Exceptions that say only that something else failed, or that someone ended the process.
const AFTERMATH: [&str; 8] = [
    "ChildFailedError",
    "SignalException",
    "KeyboardInterrupt",
    "SystemExit",
    "GeneratorExit",
    "ProcessExitedException",
    "CalledProcessError",
    "BrokenPipeError",
];

/// Functions of torch.distributed whose frames name the collective.
const COLLECTIVES: [&str; 12] = [
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
];

/// The tracebacks that have not ended yet, by rank; those of no known rank are one.
#[derive(Debug, Default)]
pub(super) struct Tracebacks {
    open: BTreeMap<Option<u32>, Open>,
}

#[derive(Debug, Default)]
struct Open {
    lines: u32,
    /// What stands before the first line, with 0 for every number: collectors and launchers put it, with their
    /// times, before the others too.
    prefix: String,
    collective: Option<String>,
}

/// The last line of a traceback.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Raised {
    /// The type without its module.
    pub name: String,
    pub message: String,
    /// Something else failed.
    pub aftermath: bool,
}

impl Tracebacks {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A traceback begins.
    pub(super) fn begin(&mut self, line: &Line<'_>) {
        let before = line.text.split("Traceback (most").next().unwrap_or_default();
        if self.open.len() < MAX_OPEN && before.len() <= MAX_PREFIX_BYTES {
            let prefix = shape(before);
            self.open.insert(line.rank, Open { prefix, ..Open::default() });
        }
    }

    /// Whether a line belongs to an open traceback of no known rank.
    pub(super) fn is_open(&self, rank: Option<u32>) -> bool {
        self.open.contains_key(&rank)
    }

    /// The collective that a rank's open traceback is in.
    pub(super) fn collective(&self, rank: Option<u32>) -> Option<String> {
        self.open.get(&rank)?.collective.clone()
    }

    /// Reads a line: the exception, where a traceback ends here.
    pub(super) fn read(&mut self, line: &Line<'_>) -> Option<Raised> {
        let mut text = line.bare();
        let open = self.open.get_mut(&line.rank);
        if let Some(open) = open {
            open.lines += 1;
            text = behind(line.text, &open.prefix).unwrap_or(text);
            if let Some((_, function)) = text.split_once("distributed_c10d.py\", line ")
                && let Some((_, name)) = function.split_once(", in ")
                && COLLECTIVES.contains(&name.trim())
            {
                open.collective.get_or_insert_with(|| name.trim().to_owned());
            }
            if open.lines > MAX_LINES {
                self.open.remove(&line.rank);
                return None;
            }
        } else if line.rank.is_none() || !line.text.contains("[rank") {
            return None;
        }
        let raised = exception(text)?;
        Some(raised)
    }

    /// A rank's traceback has ended.
    pub(super) fn end(&mut self, rank: Option<u32>) {
        self.open.remove(&rank);
    }
}

/// A text with 0 for every number.
fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if shape.ends_with('0') => {}
            '0'..='9' => shape.push('0'),
            c => shape.push(c),
        }
    }
    shape
}

/// What stands behind a prefix of this shape.
fn behind<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = text;
    for c in prefix.chars() {
        rest = match c {
            '0' => {
                let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                (number.len() < rest.len()).then_some(number)?
            }
            c => rest.strip_prefix(c)?,
        };
    }
    Some(rest)
}

/// `torch.OutOfMemoryError: CUDA out of memory. …`: a type's name by Python's convention, and what it says.
fn exception(text: &str) -> Option<Raised> {
    let (path, message) = text.split_once(':').unwrap_or((text, ""));
    let path = path.trim_end();
    let name = path.rsplit('.').next()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let named = ["Error", "Exception", "Interrupt", "Exit", "Expired", "Timeout"]
        .iter()
        .any(|end| name.ends_with(end));
    let upper = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    (named && upper && path.len() <= 200 && path.bytes().all(plain)).then(|| Raised {
        name: name.to_owned(),
        message: keep(message),
        aftermath: AFTERMATH.contains(&name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_end_tracebacks_of_interleaved_ranks() {
        let mut tracebacks = Tracebacks::default();
        let mut raised = Vec::new();
        for text in [
            "[rank0]: Traceback (most recent call last):",
            "[rank1]: Traceback (most recent call last):",
            "[rank1]:   File \"a.py\", line 1, in main",
            "step 2 loss 0.5: Error",
            "[rank0]:   File \"/x/distributed_c10d.py\", line 3075, in all_reduce",
            "[rank1]:     raise ValueError",
            "[rank1]: ValueError: bad: shape",
            "[rank0]:     ^^^^",
            "[rank0]: torch.distributed.DistNetworkError: gone",
        ] {
            let line = Line::new(text, 1);
            if text.contains("Traceback") {
                tracebacks.begin(&line);
            }
            if let Some(one) = tracebacks.read(&line) {
                raised.push((line.rank, one.name, one.message, tracebacks.collective(line.rank)));
                tracebacks.end(line.rank);
            }
        }
        let text = |text: &str| text.to_owned();
        assert_eq!(
            raised,
            [
                (Some(1), text("ValueError"), text("bad: shape"), None),
                (Some(0), text("DistNetworkError"), text("gone"), Some(text("all_reduce"))),
            ]
        );
        assert!(tracebacks.is_empty());
    }

    #[test]
    fn collectors_put_times_before_every_line() {
        let mut tracebacks = Tracebacks::default();
        tracebacks.begin(&Line::new(
            "2026-11-24T08:32:19.12Z stderr F Traceback (most recent call last):",
            1,
        ));
        let mut read = |text| tracebacks.read(&Line::new(text, 1)).map(|raised| raised.name);
        assert_eq!(read("2026-11-24T08:32:19.1234Z stderr F   File \"a.py\", line 1"), None);
        assert_eq!(
            read("2026-11-24T08:32:20.5Z stderr F ValueError: x").as_deref(),
            Some("ValueError")
        );
    }
}
