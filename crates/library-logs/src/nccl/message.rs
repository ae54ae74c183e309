//! Splits a line of output into NCCL messages: source, level and text. A line may hold none, one,
//! or several concatenated messages.
//! Not what they mean.
//!
//! The form is `host:pid:tid [device] NCCL INFO text`; warnings, and some messages from 2.29 on,
//! have `file:line (function)` before `NCCL` (NCCL's src/debug.cc). Lines of NCCL's diagnostics are
//! `host:pid NCCL DIAG text`, and its manual prints them without a source. Launchers, collectors and
//! NCCL_DEBUG_TIMESTAMP_FORMAT put anything before the host.

use std::{borrow::Cow, sync::LazyLock};

use memchr::{memchr3, memmem::Finder, memrchr_iter};

use super::cursor::is_host;

/// How far before `NCCL INFO` the host's name is searched, in bytes: longer prefixes are not
/// NCCL's.
const MAX_PREFIX_BYTES: usize = 512;

/// The level of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    /// Of the development branch behind 2.32.
    Error,
    /// 2.32 on.
    Attn,
    /// A line of NCCL's own diagnostics report (2.31 on).
    Diag,
    /// TRACE, CALL and ABORT: not used here.
    Other,
}

/// The source of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin<'a> {
    pub host: &'a str,
    pub pid: u32,
    /// CUDA device; absent in CALL lines, and before a thread has one.
    pub device: Option<u32>,
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub level: Level,
    pub origin: Origin<'a>,
    /// `file:line (function)`, where it is printed; else empty.
    pub place: &'a str,
    pub text: &'a str,
    /// Another message begins on the same line, so the end of this one may be missing.
    pub cut: bool,
}

/// Calls `say` with each message of a line. Returns the number of torn ones, whose source is
/// unreadable.
pub(crate) fn messages<'a>(line: &'a str, mut say: impl FnMut(Message<'a>)) -> u64 {
    let mut torn = 0;
    let mut open: Option<(Message<'a>, usize)> = None;
    let mut from = 0;
    while let Some((marker, level, after)) = marker(line, from) {
        from = after;
        let lower = open.as_ref().map_or(0, |(_, text)| *text);
        let spoken = match level {
            Level::Diag => reporter(line, lower, marker, after),
            _ => speaker(line, lower, marker),
        };
        if let Some((mut before, text)) = open.take() {
            let end = spoken.as_ref().map_or(marker, |s| s.starts);
            before.text = line.get(text..end).unwrap_or("").trim_end();
            before.cut = true;
            say(before);
            torn += u64::from(spoken.is_none());
        }
        open = spoken.map(|s| {
            (Message { level, origin: s.origin, place: s.place, text: "", cut: false }, after)
        });
    }
    if let Some((mut last, text)) = open {
        last.text = line.get(text..).unwrap_or("").trim_end();
        say(last);
    }
    torn
}

/// The next `NCCL INFO`, `NCCL WARN` …: where it begins, its level, where its text begins.
fn marker(line: &str, from: usize) -> Option<(usize, Level, usize)> {
    const LEVELS: [(&str, Level); 8] = [
        ("INFO", Level::Info),
        ("WARN", Level::Warn),
        ("DIAG", Level::Diag),
        ("ERROR", Level::Error),
        ("ATTN", Level::Attn),
        ("TRACE", Level::Other),
        ("CALL", Level::Other),
        ("ABORT", Level::Other),
    ];
    static NCCL: LazyLock<Finder> = LazyLock::new(|| Finder::new("NCCL "));
    let mut from = from;
    loop {
        let at = from + NCCL.find(line.get(from..)?.as_bytes())?;
        from = at + "NCCL ".len();
        for (word, level) in LEVELS {
            if let Some(rest) = line.get(from..)?.strip_prefix(word)
                && (rest.is_empty() || rest.starts_with(' '))
            {
                let text = from + word.len() + usize::from(!rest.is_empty());
                return Some((at, level, text));
            }
        }
    }
}

struct Speaker<'a> {
    origin: Origin<'a>,
    place: &'a str,
    /// Where the text of a message before it ends at the latest. A host name has no mark at its
    /// beginning, so after a text without a blank it is the end of the host's name.
    starts: usize,
}

/// Reads `host:pid:tid [device] place ` backwards from a marker.
fn speaker(line: &str, lower: usize, marker: usize) -> Option<Speaker<'_>> {
    let lower = line.ceil_char_boundary(lower.max(marker.saturating_sub(MAX_PREFIX_BYTES)));
    let before = line.get(lower..marker)?;
    let ends = |at: &usize| before[at + 1..].starts_with(' ');
    let with_device = memrchr_iter(b']', before.as_bytes()).filter(ends).take(3).find_map(|at| {
        let (head, device) = before[..at].rsplit_once(" [")?;
        let plain = !device.is_empty() && device.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        plain.then(|| (head, device.parse().ok(), before[at + 2..].trim()))
    });
    let (head, device, place) = with_device.unwrap_or((before.trim_end(), None, ""));
    let (head, tid) = head.rsplit_once(':')?;
    let (head, pid) = head.rsplit_once(':')?;
    let _: u64 = tid.parse().ok()?;
    let pid = pid.parse().ok()?;
    let named = head.bytes().rev().take_while(|b| is_host(*b)).count();
    let host = head.get(head.len() - named..).filter(|host| !host.is_empty())?;
    let gap = &head[..head.len() - named];
    let starts = if gap.ends_with([' ', '\t']) { gap.len() } else { head.len() };
    Some(Speaker { origin: Origin { host, pid, device }, place, starts: lower + starts })
}

/// Reads `host:pid ` backwards from the marker of a line of the diagnostics report. Of a line without a source the text must
/// be the report's, so that no sentence about it is taken for one.
fn reporter(line: &str, lower: usize, marker: usize, text: usize) -> Option<Speaker<'_>> {
    let lower = line.ceil_char_boundary(lower.max(marker.saturating_sub(MAX_PREFIX_BYTES)));
    let before = line.get(lower..marker)?;
    let source = before.strip_suffix(' ').and_then(|before| {
        let (head, pid) = before.rsplit_once(':')?;
        let pid = pid.parse().ok()?;
        let named = head.bytes().rev().take_while(|b| is_host(*b)).count();
        let host = head.get(head.len() - named..).filter(|host| !host.is_empty())?;
        let gap = &head[..head.len() - named];
        let starts = if gap.ends_with([' ', '\t']) { gap.len() } else { head.len() };
        Some(Speaker {
            origin: Origin { host, pid, device: None },
            place: "",
            starts: lower + starts,
        })
    });
    if source.is_some() {
        return source;
    }
    let whole = speaker(line, lower, marker);
    if whole.is_some() {
        return whole;
    }
    let prefix = before.trim_end();
    // Kubernetes' runtimes write `TIME stdout F ` before each line.
    let alone = prefix.is_empty()
        || prefix.ends_with([':', '>', ']', '|', ')'])
        || prefix.ends_with(" stdout F")
        || prefix.ends_with(" stderr F");
    let text = line.get(text..)?;
    let known = ["[OK]", "[INFO]", "=== "].iter().any(|one| text.starts_with(one))
        || text.contains("iagnostics completed in ");
    (alone && known).then_some(Speaker {
        origin: Origin { host: "", pid: 0, device: None },
        place: "",
        starts: marker,
    })
}

/// A line without terminal colours, titles, links and bells, and without its line end.
pub fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches(['\n', '\r']);
    if memchr3(0x1b, 0x08, 0x07, line.as_bytes()).is_none() {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x07' => {}
            '\x08' => {
                let _ = plain.pop();
            }
            '\x1b' => escape(&mut chars),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// Passes over what follows an escape (ECMA-48 5.3 to 5.6).
fn escape(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        // A control sequence ends with a byte from @ to ~.
        Some('[') => {
            let _ = chars.by_ref().find(|c| ('@'..='~').contains(c));
        }
        // A string ends with a bell, or an escape and a backslash.
        Some(']' | '_' | 'P' | '^' | 'X') => {
            let end = chars.by_ref().find(|c| matches!(c, '\x07' | '\x1b'));
            let _ = end.filter(|end| *end == '\x1b').and_then(|_| chars.next());
        }
        // A character set is one more.
        Some('(' | ')' | '*' | '+') => {
            let _ = chars.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> (Vec<Message<'_>>, u64) {
        let mut found = Vec::new();
        let torn = messages(line, |message| found.push(message));
        (found, torn)
    }

    #[test]
    fn whatever_stands_before_the_host_is_not_looked_at() {
        for prefix in [
            "",
            "    ",
            "[1,0]<stdout>:",
            "[1,0]<stderr>: ",
            "12: ",
            "[2026-05-05 06:16:47] ",
            "[pod/trainer-0/worker] ",
            "2026-05-05T06:16:47.123Z stderr F ",
            "(RayWorker pid=7, ip=10.0.0.2) ",
            "           8      2   float     sum      -1 ",
            "worker-0 | ",
        ] {
            let line = format!("{prefix}vm-1.x:5660:5661 [3] NCCL INFO Using network Socket");
            let (found, torn) = all(&line);
            let [message] = found[..] else { panic!("{line}: {found:?}") };
            assert_eq!(message.origin, Origin { host: "vm-1.x", pid: 5660, device: Some(3) });
            assert_eq!((message.level, message.text), (Level::Info, "Using network Socket"));
            assert_eq!((message.place, message.cut, torn), ("", false, 0));
        }
    }

    #[test]
    fn places_and_levels() {
        let line = "[2026-07-23 04:16:01] n:1:2 [1] init.cc:2745 (commDestroySync) NCCL WARN gone";
        let (found, _) = all(line);
        assert_eq!(found[0].level, Level::Warn);
        assert_eq!((found[0].place, found[0].text), ("init.cc:2745 (commDestroySync)", "gone"));
        assert_eq!(all("g:1:2 [0] showVersion, 544 NCCL INFO x").0[0].place, "showVersion, 544");
        assert_eq!(all("n:1:2 NCCL CALL ncclGroupStart()").0[0].level, Level::Other);
        assert_eq!(all("n:1:2 [-1] NCCL INFO x").0[0].origin.device, None);
        assert_eq!(all("n:1:2 [0] NCCL INFO").0[0].text, "");
        for prose in [
            "1 NCCL INFO lines interleaved",
            "NCCL WARN x",
            "NCCL_DEBUG=INFO",
            ":1:2 [0] NCCL INFO x",
        ] {
            assert_eq!(all(prose), (Vec::new(), 0), "{prose}");
        }
    }

    #[test]
    fn lines_of_the_diagnostics_report_with_and_without_a_source() {
        let text = "[OK]   p2p: verified P2P access";
        for (line, host, pid) in [
            ("node042:12345 NCCL DIAG [OK]   p2p: verified P2P access", "node042", 12_345),
            (
                "[1,0]<stdout>:node042:12345 NCCL DIAG [OK]   p2p: verified P2P access",
                "node042",
                12_345,
            ),
            ("n.a:1:2 [0] NCCL DIAG [OK]   p2p: verified P2P access", "n.a", 1),
            ("  NCCL DIAG [OK]   p2p: verified P2P access", "", 0),
            ("0: NCCL DIAG [OK]   p2p: verified P2P access", "", 0),
        ] {
            let (found, torn) = all(line);
            let [message] = found[..] else { panic!("{line}: {found:?}") };
            assert_eq!((message.level, message.text, torn), (Level::Diag, text, 0), "{line}");
            assert_eq!((message.origin.host, message.origin.pid), (host, pid), "{line}");
        }
        for prose in [
            "each report line is prefixed with NCCL DIAG",
            "NCCL DIAG lines are printed",
            "lines such as NCCL DIAG [OK] p2p: x",
        ] {
            assert_eq!(all(prose), (Vec::new(), 0), "{prose}");
        }
    }

    #[test]
    fn levels_of_2_32_and_of_the_development_branch() {
        let line = "[2026-10-02 09:14:07] n:1:2 [0] init.cc:9 (f) NCCL ATTN look";
        let (found, _) = all(line);
        assert_eq!((found[0].level, found[0].text), (Level::Attn, "look"));
        assert_eq!(all("n:1:2 [0] init.cc:9 NCCL ERROR gone").0[0].level, Level::Error);
        assert_eq!(all("Failed, NCCL ERROR x"), (Vec::new(), 0));
    }

    #[test]
    fn glued_messages_are_told_apart_and_called_cut() {
        let (found, torn) = all("a:1:1 [0] NCCL INFO via SHM/direct/dira:2:2 [1] NCCL INFO New");
        assert_eq!((found[0].text, found[0].cut), ("via SHM/direct/dira", true));
        assert_eq!((found[1].text, found[1].cut, torn), ("New", false, 0));
        // A blank before the host shows where it begins.
        let (found, _) = all("a:1:1 [0] NCCL INFO Connected all rings a:2:2 [1] NCCL INFO New");
        assert_eq!(found[0].text, "Connected all rings");
        let (found, torn) = all("a:1:1 [0] NCCL INFO One2:2 [1 NCCL INFO Two");
        assert_eq!((found.len(), found[0].cut, torn), (1, true, 1));
    }

    #[test]
    fn colours_and_line_ends_go() {
        assert_eq!(plain("\x1b[36mred\x1b[0m\r\n"), "red");
        assert_eq!(plain("a\x1b"), "a");
        assert_eq!(plain("a\x1b["), "a");
        assert!(matches!(plain("a\r\n"), Cow::Borrowed("a")));
        assert_eq!(
            plain("\x1b]0;host: ~\x07\x1b(Bone\x1b]8;;http://x\x1b\\two\x1b_bk;t=1\x07"),
            "onetwo"
        );
        assert_eq!(plain("ab\x08c\x1b]never ends"), "ac");
    }
}
