//! The lines of nccl-tests' text that are not rows: version, program, parameters, devices, foot,
//! failures.
//! Not the table.

use std::{borrow::Cow, sync::LazyLock};

use crate::measurement::{Announced, Device};
use busbw_core::Collective;
use memchr::{memchr, memmem::Finder};

use super::super::words::{Word, Words};

/// A parsed line around the table.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum HeadLine {
    /// `# nccl-tests version 2.19.6 nccl-headers=… nccl-library=…`: the version, the library's code.
    Version(String, Option<u32>),
    /// `# Collective test starting: all_reduce_perf`.
    Starting(String),
    /// `# nThread 1 nGpus 8 minBytes …`: the ranks of one process, options by their names, and the sizes.
    Parameters(Option<usize>, Vec<(&'static str, String)>, Option<Announced>),
    /// A line under "Using devices".
    Device(Device),
    /// `# Out of bounds values : 4 FAILED`.
    OutOfBounds(u64),
    /// `# Avg bus bandwidth    : 388.893`.
    Average(Option<f64>),
    /// `# Collective test concluded`.
    Concluded,
    /// `# Reducing maxBytes to 2147483648 due to memory limitation`.
    Reduced,
    /// A failure, word for word.
    Failure,
    /// A command line that runs one of the programs.
    Command(Option<Collective>),
    /// A variable that is set before a run: `+ NCCL_P2P_DISABLE=1`, `export UCX_TLS=rc`.
    Setting(String, String),
    /// A comment that somebody put above a run, with variables that were set: `##  all_reduce   NCCL_ALGO=Tree`.
    Banner(Vec<(String, String)>),
    /// Known, but not kept.
    Other,
}

/// A line without the `BenchTime(), common.cu:561, ` that builds with traces of their own put before
/// everything they print.
pub(in super::super) fn unmarked(line: &str) -> Cow<'_, str> {
    const MARK: &str = "(), common.cu:";
    static MARKS: LazyLock<Finder> = LazyLock::new(|| Finder::new(MARK));
    if MARKS.find(line.as_bytes()).is_none() {
        return Cow::Borrowed(line);
    }
    let (mut kept, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once(MARK) {
        let function =
            before.len() - before.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
        kept.push_str(before.get(..before.len() - function).unwrap_or(before));
        kept.push(' ');
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(',');
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Reads a device, and lines that hold nothing but what is looked for: most of a log without NCCL's.
pub(in super::super) fn common(line: &str) -> Option<HeadLine> {
    let rest = line.trim().strip_prefix('#')?.trim_ascii_start();
    if let Some(ranked) = rest.strip_prefix("Rank ") {
        // Behind a second hash another line may begin.
        return self::ranked(ranked)
            .filter(|_| memchr(b'#', ranked.as_bytes()).is_none())
            .map(HeadLine::Device);
    }
    if let Some(said) = rest.strip_prefix("Avg bus bandwidth") {
        let figure = said.trim_ascii_start().strip_prefix(':')?.trim_ascii().parse().ok();
        return figure
            .filter(|value: &f64| value.is_finite())
            .map(|value| HeadLine::Average(Some(value)));
    }
    let mut words = rest.split_ascii_whitespace();
    match words.next() {
        None => Some(HeadLine::Other),
        Some("Using") => (rest == "Using devices").then_some(HeadLine::Other),
        Some("Out") => (rest == "Out of bounds values : 0 OK").then_some(HeadLine::OutOfBounds(0)),
        Some("out-of-place") => words.eq(["in-place"]).then_some(HeadLine::Other),
        Some("(B)") => (words.next() == Some("(elements)")
            && words.all(|word| matches!(word, "(us)" | "(GB/s)")))
        .then_some(HeadLine::Other),
        _ => None,
    }
}

/// Reads a line that has these words; none of nccl-tests' gives `None`.
pub(in super::super) fn head(line: &str, words: Words) -> Option<HeadLine> {
    let text = line.trim();
    if let Some(said) = common(text) {
        return Some(said);
    }
    if words.has(Word::Average)
        && let Some(said) = value(text, "Avg bus bandwidth")
    {
        let figure = said.split_ascii_whitespace().next()?;
        return Some(HeadLine::Average(
            figure.parse().ok().filter(|value: &f64| value.is_finite()),
        ));
    }
    if words.has(Word::OutOfBounds)
        && let Some(said) = value(text, "Out of bounds values")
    {
        return Some(HeadLine::OutOfBounds(said.split_ascii_whitespace().next()?.parse().ok()?));
    }
    if words.has(Word::Collective) {
        if let Some((_, after)) = text.split_once("Collective test starting:") {
            return Some(HeadLine::Starting(after.trim().to_owned()));
        }
        if text.contains("Collective test concluded:") {
            return Some(HeadLine::Concluded);
        }
    }
    if words.has(Word::Threads) && text.contains(" minBytes ") {
        let options = options(text);
        return Some(HeadLine::Parameters(per_process(&options), options, announced(text)));
    }
    if words.has(Word::Rank)
        && let Some((_, after)) = text.split_once("Rank ")
        && let Some(device) = ranked(after)
    {
        return Some(HeadLine::Device(device));
    }
    if words.has(Word::Tests)
        && let Some(version) = version(text)
    {
        return Some(version);
    }
    if words.has(Word::Failure) || text.starts_with("# error: ") {
        return Some(HeadLine::Failure);
    }
    if words.has(Word::Other) && text.contains("Reducing maxBytes to ") {
        return Some(HeadLine::Reduced);
    }
    if words.has(Word::Other) || is_hash(text) {
        return Some(HeadLine::Other);
    }
    if words.has(Word::Variable)
        && let Some(said) = setting(text)
    {
        return Some(said);
    }
    let program = words.has(Word::Program) && !text.starts_with('#');
    (program && is_command(text)).then(|| HeadLine::Command(collective_in(text)))
}

/// `minBytes 8 maxBytes 8589934592 step: 2(factor)`, or `step: 1048576(bytes)`.
fn announced(text: &str) -> Option<Announced> {
    let word = |name: &str| text.split_once(name)?.1.split_ascii_whitespace().next();
    let (step, unit) = word(" step: ")?.split_once('(')?;
    let step = step.parse().ok().filter(|step| *step > 0)?;
    let last = word(" maxBytes ")?.parse().ok()?;
    Some(Announced { last, step, is_factor: unit.starts_with("factor") })
}

/// Threads times GPUs of each.
fn per_process(options: &[(&str, String)]) -> Option<usize> {
    let number = |wanted: &str| -> Option<usize> {
        options.iter().find(|(option, _)| *option == wanted)?.1.parse().ok()
    };
    number("-t")?.checked_mul(number("-g")?)
}

/// The options in the line of parameters.
fn options(text: &str) -> Vec<(&'static str, String)> {
    static NAMES: LazyLock<[(&str, Finder); 8]> = LazyLock::new(|| {
        [
            ("-t", "nThread "),
            ("-g", "nGpus "),
            ("-w", "warmup iters: "),
            ("-n", " iters: "),
            ("-m", "agg iters: "),
            ("-c", "validation: "),
            ("-G", "graph: "),
            ("-u", "unalign: "),
        ]
        .map(|(option, name)| (option, Finder::new(name)))
    });
    let value = |(option, name): &(&'static str, Finder)| {
        // ` iters: ` ends two other names as well.
        let own = |at: &usize| {
            let before = text.get(..*at).unwrap_or_default();
            *option != "-n" || !(before.ends_with("warmup") || before.ends_with("agg"))
        };
        let at = name.find_iter(text.as_bytes()).find(own)?;
        let value = text.get(at + name.needle().len()..)?.split_ascii_whitespace().next()?;
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| (*option, value.to_owned()))
    };
    NAMES.iter().filter_map(value).collect()
}

/// What follows `name :` of a foot line, which begins with a hash, a blank or a launcher's prefix.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (before, after) = text.split_once(name)?;
    // Programs that quote the line write `is` instead, or have words before it.
    let plain = before.trim_end().is_empty() || before.contains('#');
    after.trim_start().strip_prefix(':').filter(|_| plain)
}

/// What follows `Rank ` in `#  Rank  0 Group  0 Pid    375 on host device  0 [0008:01:00] NVIDIA GB200`, of
/// any version.
fn ranked(text: &str) -> Option<Device> {
    let mut tokens = text.split_ascii_whitespace();
    let rank = tokens.next()?.parse().ok()?;
    let mut early = tokens.clone();
    let group = (early.next() == Some("Group")).then(|| early.next()?.parse().ok()).flatten();
    let host = tokens.by_ref().skip_while(|token| *token != "on").nth(1)?;
    if tokens.next()? != "device" {
        return None;
    }
    let number = tokens.next()?.parse().ok()?;
    let address = tokens.next()?.strip_prefix('[')?.strip_suffix(']')?;
    let mut name = String::with_capacity(32);
    for word in tokens {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
    }
    let (host, address) = (host.to_owned(), address.to_owned());
    Some(Device { rank, host, device: number, address, name, group })
}

/// `# nccl-tests version …`, `# rccl-tests version …`, `rccl-tests: Version develop:448c4c7`.
fn version(text: &str) -> Option<HeadLine> {
    if let Some((before, after)) = text.split_once("ccl-tests version ") {
        before.ends_with(['n', 'r']).then_some(())?;
        let mut tokens = after.split_ascii_whitespace();
        let version = tokens.next()?.to_owned();
        let library = tokens.find_map(|token| token.split_once("ccl-library=")?.1.parse().ok());
        return Some(HeadLine::Version(version, library));
    }
    let (_, version) = text.split_once("ccl-tests: Version ")?;
    Some(HeadLine::Version(version.split_ascii_whitespace().next()?.to_owned(), None))
}

/// A hash alone, also behind a launcher's prefix.
fn is_hash(text: &str) -> bool {
    text.trim_start_matches('#').trim().is_empty()
        || [" #", ":#", ">#"].iter().any(|end| text.ends_with(end))
}

/// An assignment alone on a line, as a shell traces or a script has it, or several in a comment.
fn setting(text: &str) -> Option<HeadLine> {
    if let Some(comment) = text.strip_prefix('#') {
        // An assignment behind one hash is one that a script leaves out.
        let first = comment.split_ascii_whitespace().next()?;
        if first == "export" || assignment(first).is_some() {
            return None;
        }
        let said = text.split_ascii_whitespace().filter_map(assignment).collect::<Vec<_>>();
        return (!said.is_empty()).then_some(HeadLine::Banner(said));
    }
    let text = text.trim_start_matches('+').trim();
    let (name, value) = assignment(text.strip_prefix("export ").unwrap_or(text))?;
    Some(HeadLine::Setting(name, value))
}

/// `NCCL_ALGO=Tree`, with or without quotes round the value.
fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let plain = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let ours = ["NCCL_", "UCX_"].iter().any(|prefix| name.starts_with(prefix));
    let value = value.trim_matches(['"', '\'']);
    let one = !value.contains(char::is_whitespace) && value.len() <= 256;
    (ours && plain && one).then(|| (name.to_owned(), value.to_owned()))
}

/// A line that starts a test: the program with an option, or behind a launcher.
fn is_command(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    words.any(|word| matches!(word, "mpirun" | "srun" | "mpiexec" | "kubectl"))
        || text.split_ascii_whitespace().any(|word| matches!(word, "-b" | "-e" | "-g" | "-f"))
}

/// The collective whose program is named in a text, such as `./build/all_reduce_perf_mpi`.
pub(in super::super) fn collective_in(text: &str) -> Option<Collective> {
    text.match_indices("_perf").find_map(|(at, _)| {
        let (before, after) = (text.get(..at)?, text.get(at + "_perf".len()..)?);
        if after.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let begins = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        Collective::from_name(before.get(begins.map_or(0, |at| at + 1)..)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(line: &str) -> Option<HeadLine> {
        super::head(line, Words::of(line))
    }

    #[test]
    fn heads_and_feet() {
        let said = |line| head(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            said("# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809"),
            HeadLine::Version("2.17.6".to_owned(), Some(22809))
        );
        // 2.20.0 names its commit; a build outside of git says unknown.
        for commit in ["b4d5bee", "b4d5bee-dirty", "unknown"] {
            let line = format!(
                "# nccl-tests version 2.20.0 ({commit}) nccl-headers=23102 nccl-library=23102"
            );
            let version = HeadLine::Version("2.20.0".to_owned(), Some(23102));
            assert_eq!(head(&line), Some(version), "{line}");
        }
        assert_eq!(
            said("rccl-tests: Version develop:448c4c7"),
            HeadLine::Version("develop:448c4c7".to_owned(), None)
        );
        assert_eq!(
            said("# Collective test starting: all_reduce_perf_mpi"),
            HeadLine::Starting("all_reduce_perf_mpi".to_owned())
        );
        assert_eq!(
            said("[1,0]<stdout>:# Avg bus bandwidth    : 388.893 "),
            HeadLine::Average(Some(388.893))
        );
        assert_eq!(said(" Avg bus bandwidth    : XXX.XX"), HeadLine::Average(None));
        assert_eq!(said("# Out of bounds values : 4 FAILED"), HeadLine::OutOfBounds(4));
        let command = "$ mpirun -np 2 ./build/all_reduce_perf -b 8";
        assert_eq!(said(command), HeadLine::Command(Some(Collective::AllReduce)));
        assert_eq!(
            head("2026-01-16 - INFO - NCCL Test Succeeded: Avg bus bandwidth is 230.167"),
            None
        );
        assert_eq!(head("see all_reduce_perf for details"), None);
        assert_eq!(collective_in("./all_reduce_perf_mpi -b 8"), Some(Collective::AllReduce));
        assert_eq!(collective_in("./all_reduce_perfoo -b 8"), None);
        let set = |name: &str, value: &str| HeadLine::Setting(name.to_owned(), value.to_owned());
        assert_eq!(said("+ NCCL_P2P_DISABLE=1"), set("NCCL_P2P_DISABLE", "1"));
        assert_eq!(said("export UCX_TLS='rc,sm'"), set("UCX_TLS", "rc,sm"));
        let banner = [("NCCL_ALGO".to_owned(), "Tree".to_owned())];
        assert_eq!(said("##  all_reduce   NCCL_ALGO=Tree "), HeadLine::Banner(banner.to_vec()));
        for none in ["## see NCCL_ALGO", "#export NCCL_ALGO=Tree", "# NCCL_ALGO=Tree"] {
            assert_eq!(head(none), None, "{none}");
        }
    }

    #[test]
    fn a_head_tells_how_it_was_measured() {
        let line = "# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 2 unalign: 0";
        let Some(HeadLine::Parameters(ranks, options, _)) = head(line) else { panic!("{line}") };
        let said: Vec<String> =
            options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(ranks, Some(8));
        assert_eq!(said, ["-t 1", "-g 8", "-w 5", "-n 20", "-m 1", "-c 1", "-G 2", "-u 0"]);
    }

    #[test]
    fn devices_of_every_version() {
        for line in [
            "#  Rank  3 Group  0 Pid    375 on      node7 device  1 [0008:01:00] NVIDIA GB200",
            "#   Rank  3 Pid 112372 on node7 device  1 [0x0b] NVIDIA GB200",
            "#   Rank  3 on       node7 device  1 [0x05] NVIDIA GB200",
            " 0: #  Rank  3 Group  0 Pid 140771 on  node7 device  1 [0000:05:00.0] NVIDIA GB200",
        ] {
            let Some(HeadLine::Device(device)) = head(line) else { panic!("{line}") };
            assert_eq!((device.rank, device.device, device.host.as_str()), (3, 1, "node7"));
            assert_eq!(device.name, "NVIDIA GB200");
            assert_eq!(device.group, line.contains("Group").then_some(0), "{line}");
        }
    }
}
