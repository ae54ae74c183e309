//! One command line of nccl-tests (`all_reduce_perf -b 8 -e 8G -f 2`), as its options.
//! It reads the options that the rules ask about and skips the others.

/// A run of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) line: u32,
    /// `all_reduce_perf`, without the folder.
    pub(crate) program: String,
    pub(crate) options: Vec<(char, String)>,
}

/// Letters of nccl-tests 2.19.6 that take a value: all but `-h`.
const TAKE_VALUE: &str = "tgbeifnmwNpIKcodrzyTGCaRxDVJSMu";

/// Long names of the options that a rule asks about.
const LONG_OPTIONS: [(&str, char); 7] = [
    ("minbytes", 'b'),
    ("maxbytes", 'e'),
    ("stepbytes", 'i'),
    ("stepfactor", 'f'),
    ("iters", 'n'),
    ("check", 'c'),
    ("warmup_iters", 'w'),
];

/// The test's name, if the word is the program of one; builds add to it, such as `_mpi`.
pub(crate) fn program(word: &str) -> Option<&str> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let (body, build) = name.rsplit_once("_perf")?;
    if !build.is_empty() && !build.starts_with(['_', '-', '.'])
        || [".txt", ".log", ".py", ".sh"].iter().any(|end| build.ends_with(end))
    {
        return None;
    }
    let plain = !body.is_empty() && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then_some(name)
}

/// Reads the words after the program; the last of two equal options wins, as in getopt.
pub(crate) fn parse<'w>(line: u32, program: &str, words: impl Iterator<Item = &'w str>) -> Run {
    let mut options = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        // A redirection ends what the test itself sees.
        if word.starts_with(['>', '<']) || word == "--" {
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let Some(&(_, letter)) = LONG_OPTIONS.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            if let Some(value) = value.or_else(|| words.next()) {
                options.push((letter, value.to_owned()));
            }
            continue;
        }
        let Some(short) = word.strip_prefix('-') else {
            continue;
        };
        let Some(letter) = short.chars().next().filter(|c| TAKE_VALUE.contains(*c)) else {
            continue;
        };
        let joined = &short[letter.len_utf8()..];
        let value = if joined.is_empty() { words.next() } else { Some(joined) };
        if let Some(value) = value {
            options.push((letter, value.to_owned()));
        }
    }
    Run { line, program: program.to_owned(), options }
}

impl Run {
    /// The value of an option, as written.
    pub(crate) fn option(&self, letter: char) -> Option<&str> {
        let found = self.options.iter().rev().find(|(name, _)| *name == letter);
        found.map(|(_, value)| value.as_str())
    }

    /// An option that is a plain whole number.
    pub(crate) fn number(&self, letter: char) -> Option<u64> {
        self.option(letter)?.parse().ok()
    }

    /// An option that is a size in bytes: 8, 1.5M, 8G.
    pub(crate) fn size(&self, letter: char) -> Option<u64> {
        bytes(self.option(letter)?)
    }
}

/// A size as nccl-tests reads it.
fn bytes(text: &str) -> Option<u64> {
    busbw_core::size::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Run {
        let mut words = line.split(' ');
        let name = program(words.next().unwrap()).unwrap();
        parse(1, name, words)
    }

    #[test]
    fn programs_are_known_by_their_ending() {
        assert_eq!(program("./build/all_reduce_perf"), Some("all_reduce_perf"));
        assert_eq!(program("/opt/all_reduce_perf_mpi"), Some("all_reduce_perf_mpi"));
        assert_eq!(program("all_reduce_perf.log"), None);
        assert_eq!(program("ib_write_bw"), None);
        assert_eq!(program("_perf"), None);
        assert_eq!(program("$X_perf"), None);
    }

    #[test]
    fn options_joined_apart_and_long() {
        let run = run("all_reduce_perf -b8 -e 8G --stepfactor 2 --iters=100 -g 8");
        assert_eq!(run.size('b'), Some(8));
        assert_eq!(run.size('e'), Some(8 << 30));
        assert_eq!(run.number('f'), Some(2));
        assert_eq!(run.number('n'), Some(100));
    }

    #[test]
    fn the_last_of_two_wins_and_redirections_end() {
        assert_eq!(run("x_perf -n 5 -n 7 > log -n 9").number('n'), Some(7));
    }

    #[test]
    fn sizes_as_nccl_tests_reads_them() {
        assert_eq!(bytes("1.5M"), Some(1_572_864));
        assert_eq!(bytes("8Gib"), Some(8 << 30));
        assert_eq!(bytes("8T"), None);
        assert_eq!(bytes(""), None);
        assert_eq!(bytes(&"9".repeat(400)), None);
    }
}
