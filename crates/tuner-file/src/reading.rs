//! The whole file: read strictly, written, and asked line by line.
//! Not asked quickly (`choices`), and not found on a disk.

use std::{
    fmt,
    io::{self, Read},
};

use thiserror::Error;

use crate::{
    entry::{Call, Entry, MOST_CHANNELS},
    words::{Algorithm, Collective, Protocol, offered},
};

/// The most lines with a choice.
pub const MOST_ENTRIES: usize = 4096;
/// The most bytes of a file.
pub const MOST_BYTES: usize = 1 << 20;
/// The most bytes of a line. NCCL's example reads lines into 256 bytes, and takes the rest of a longer one for another line.
pub const LONGEST_LINE: usize = 254;

/// Columns of the file.
const COLUMNS: &str =
    "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps";

/// Why a file is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// More than [`MOST_BYTES`].
    #[error("has more than {MOST_BYTES} bytes, the most of a tuner's file: shorten it")]
    TooLong,
    /// More than [`MOST_ENTRIES`].
    #[error("line {line}: there are more than {MOST_ENTRIES} entries; join ranges of bytes")]
    TooManyEntries {
        /// The first line too many, from 1 on.
        line: usize,
    },
    /// A line that cannot be used.
    #[error("line {line}: {why}")]
    Line {
        /// The line's number, from 1 on.
        line: usize,
        /// What is wrong with it, and what is expected.
        why: String,
    },
}

/// A file's bytes; of a longer one than is taken, enough to see that.
///
/// # Errors
/// The source's own.
pub fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The lines with a choice, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TunerFile {
    /// The first that matches a call counts.
    pub entries: Vec<Entry>,
}

impl TunerFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The first line that cannot be used, with its number and the reason; or that the file is too long.
    pub fn parse(bytes: &[u8]) -> Result<Self, Mistake> {
        if bytes.len() > MOST_BYTES {
            return Err(Mistake::TooLong);
        }
        let mut entries = Vec::new();
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let wrong = |why| Mistake::Line { line: number, why };
            if line.len() > LONGEST_LINE {
                return Err(wrong(format!(
                    "has {} bytes; NCCL's example tuner takes the rest after {LONGEST_LINE} for another line",
                    line.len()
                )));
            }
            let text = std::str::from_utf8(line).map_err(|_| wrong("is not UTF-8".to_owned()))?;
            if text.starts_with('#') || text.trim_matches(BLANKS).is_empty() {
                continue;
            }
            if entries.len() == MOST_ENTRIES {
                return Err(Mistake::TooManyEntries { line: number });
            }
            entries.push(entry(text).map_err(wrong)?);
        }
        Ok(Self { entries })
    }

    /// The first line that is for the call, as NCCL's example takes them. That one goes on to the next where NCCL
    /// cannot run what the line says; this one has no other choice then.
    #[must_use]
    pub fn decide(&self, call: &Call) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.matches(call))
    }
}

/// The file: a comment with the columns, and a line an entry.
impl fmt::Display for TunerFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "# {COLUMNS}")?;
        self.entries.iter().try_for_each(|entry| writeln!(out, "{entry}"))
    }
}

/// What may stand around a field.
const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// One line with a choice.
fn entry(line: &str) -> Result<Entry, String> {
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches(BLANKS)).collect();
    let [collective, least, most, algorithm, protocol, channels, nodes, ranks, rest @ ..] =
        fields.as_slice()
    else {
        return Err(format!("has {} of at least 8 fields: {COLUMNS}", fields.len()));
    };
    let pipe_ops = match rest {
        [] => None,
        [pipe_ops] | [pipe_ops, "-1"] => of_communicators(pipe_ops, "numPipeOps")?,
        [_, _] => {
            return Err("decides by regBuff, which ranks may see differently: remove that field \
                        or write -1"
                .to_owned());
        }
        _ => return Err(format!("has {} fields: {COLUMNS}[,-1]", fields.len())),
    };
    let entry = Entry {
        collective: word(collective, Collective::of_word, "collective", Collective::list)?,
        least_bytes: bytes(least, "min_bytes")?,
        most_bytes: bytes(most, "max_bytes")?,
        algorithm: word(algorithm, Algorithm::of_word, "algorithm", Algorithm::list)?,
        protocol: word(protocol, Protocol::of_word, "protocol", Protocol::list)?,
        channels: channels_of(channels)?,
        nodes: of_communicators(nodes, "nNodes")?,
        ranks: of_communicators(ranks, "nRanks")?,
        pipe_ops,
    };
    usable(&entry).map(|()| entry)
}

/// Refuses what no call could use, or NCCL could not use safely.
fn usable(entry: &Entry) -> Result<(), String> {
    let Entry { collective, algorithm, protocol, least_bytes, most_bytes, .. } = entry;
    if least_bytes > most_bytes {
        return Err(format!("min_bytes {least_bytes} is more than max_bytes {most_bytes}"));
    }
    if !offered(*collective, *algorithm, *protocol) {
        return Err(format!(
            "NCCL has no {algorithm} with {protocol} for {collective} on any machine"
        ));
    }
    if entry.channels.is_some() && algorithm.takes_any_channels(entry.nodes) {
        let between = if *algorithm == Algorithm::Nvls { " between nodes" } else { "" };
        return Err(format!(
            "NCCL does not hold a tuner's channels of {algorithm}{between} against the communicator's: write -1"
        ));
    }
    if let (Some(nodes), Some(ranks)) = (entry.nodes, entry.ranks)
        && nodes > ranks
    {
        return Err(format!("a communicator of {ranks} ranks has not {nodes} nodes"));
    }
    Ok(())
}

fn word<T>(
    text: &str,
    read: impl Fn(&str) -> Option<T>,
    what: &str,
    list: impl Fn() -> String,
) -> Result<T, String> {
    read(text).ok_or_else(|| format!("{what} \"{}\" is none of {}", text.escape_debug(), list()))
}

/// A number of decimal digits alone; NCCL's example would also take a sign, and 0 for what is no number.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn bytes(text: &str, what: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| {
        format!("{what} \"{}\" is no number of bytes, 0 to {}", text.escape_debug(), u64::MAX)
    })
}

fn channels_of(text: &str) -> Result<Option<u8>, String> {
    match text {
        "-1" | "0" => Ok(None),
        _ => number(text).filter(|count| (1..=MOST_CHANNELS).contains(count)).map(Some).ok_or_else(
            || {
                format!(
                    "channels \"{}\" is none of 1 to {MOST_CHANNELS}, nor 0 or -1 for NCCL's own choice",
                    text.escape_debug()
                )
            },
        ),
    }
}

/// Ranks, nodes or operations that an entry is for.
fn of_communicators(text: &str, what: &str) -> Result<Option<u32>, String> {
    if text == "-1" {
        return Ok(None);
    }
    let most = i32::MAX.unsigned_abs();
    number(text).filter(|count| (1..=most).contains(count)).map(Some).ok_or_else(|| {
        format!("{what} \"{}\" is none of 1 to {most}, nor -1 for any", text.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn mistake(text: &str) -> String {
        TunerFile::parse(text.as_bytes()).unwrap_err().to_string()
    }

    /// The lines of NCCL's example (plugins/tuner/example/README.md of 2.30.7) that do not decide by regBuff.
    #[test]
    fn lines_of_nccls_example() {
        let text = "# Any topology\n\nallreduce,1048577,4294967295,ring,ll128,-1,-1,-1,4,-1\r\n  \n \
                    allreduce,65537, 1048576,\tring,simple,4,4,32,1\nbroadcast,32769,4294967295,ring,simple,2,-1,-1\n";
        let file = TunerFile::parse(text.as_bytes()).unwrap();
        let first = file.entries[0];
        assert_eq!((first.channels, first.pipe_ops, first.nodes), (None, Some(4), None));
        let second = file.entries[1];
        assert_eq!((second.channels, second.nodes, second.ranks), (Some(4), Some(4), Some(32)));
        assert_eq!(file.entries.len(), 3);
        assert_eq!(
            file.to_string(),
            format!(
                "# {COLUMNS}\nallreduce,1048577,4294967295,ring,ll128,0,-1,-1,4\n\
                 allreduce,65537,1048576,ring,simple,4,4,32,1\nbroadcast,32769,4294967295,ring,simple,2,-1,-1\n"
            )
        );
    }

    #[test]
    fn a_mistake_names_its_line_and_reason() {
        for (line, why) in [
            ("allreduce,0,1,ring,simple,2,-1,-1,-1,0", "regBuff"),
            ("allreduce,0,1,ring,simple,2,-1", "has 7 of at least 8 fields"),
            ("allreduce,0,1,ring,simple,2,-1,-1,-1,-1,-1", "has 11 fields"),
            ("alltoall,0,1,ring,simple,2,-1,-1", "collective \"alltoall\" is none of broadcast"),
            ("allreduce,0,1,Ring,simple,2,-1,-1", "algorithm \"Ring\" is none of tree, ring"),
            ("allreduce,0,1,ring,eager,2,-1,-1", "protocol \"eager\" is none of ll, ll128, simple"),
            ("allreduce,+0,1,ring,simple,2,-1,-1", "min_bytes \"+0\""),
            ("allreduce,0,1M,ring,simple,2,-1,-1", "max_bytes \"1M\""),
            ("allreduce,0,18446744073709551616,ring,simple,2,-1,-1", "max_bytes"),
            ("allreduce,2,1,ring,simple,2,-1,-1", "min_bytes 2 is more than max_bytes 1"),
            ("allreduce,0,1,ring,simple,65,-1,-1", "channels \"65\" is none of 1 to 64"),
            ("allreduce,0,1,ring,simple,2,0,-1", "nNodes \"0\" is none of 1 to"),
            ("allreduce,0,1,ring,simple,2,-1,", "nRanks \"\""),
            ("allreduce,0,1,ring,simple,2,-1,-1,0", "numPipeOps \"0\""),
            ("allreduce,0,1,ring,simple,2,8,4", "4 ranks has not 8 nodes"),
            ("allgather,0,1,tree,simple,2,-1,-1", "NCCL has no tree with simple for allgather"),
            ("allreduce,0,1,collnet_chain,simple,2,-1,-1", "of collnet_chain against"),
            ("allreduce,0,1,nvls,simple,2,-1,-1", "of nvls between nodes against"),
            (" # a comment", "has 1 of at least 8 fields"),
        ] {
            let said = mistake(&format!("# head\nallreduce,0,1,ring,ll,0,-1,-1\n{line}\n"));
            assert!(said.starts_with("line 3: ") && said.contains(why), "{line}: {said}");
        }
        assert!(mistake(&format!("#{}", "x".repeat(254))).contains("has 255 bytes"));
        let not_text = TunerFile::parse(b"\n\xff").unwrap_err().to_string();
        assert_eq!(not_text, "line 2: is not UTF-8");
    }

    #[test]
    fn a_file_is_bounded() {
        let line = "allreduce,0,1,ring,simple,2,-1,-1\n";
        let full = line.repeat(MOST_ENTRIES);
        assert_eq!(TunerFile::parse(full.as_bytes()).unwrap().entries.len(), MOST_ENTRIES);
        assert!(mistake(&(full + line)).starts_with("line 4097: there are more than 4096"));
        assert!(mistake(&"\n".repeat(MOST_BYTES + 1)).starts_with("has more than 1048576 bytes"));
    }
}
