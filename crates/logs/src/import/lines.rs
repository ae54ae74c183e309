//! Bytes as lines: of any length, of any line end, without terminal colours, UTF-8 or not.
//! Not what they mean.

use std::{
    borrow::Cow,
    io::{self, BufRead},
};

use busbw_library_logs::nccl::plain;
use memchr::{memchr, memchr_iter, memchr3};

use super::wrapped;

/// Maximum of bytes kept of a line: no line of a known kind is longer.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The first byte that is no blank and no byte order mark; it stays unread.
pub(crate) fn first(from: &mut dyn BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let blank = |byte: &u8| byte.is_ascii_whitespace() || [0xef, 0xbb, 0xbf].contains(byte);
        match buffer.iter().position(|byte| !blank(byte)) {
            Some(at) => {
                let byte = buffer.get(at).copied();
                // Only the mark and blank lines before a `{` may go: a table's blanks are its own.
                if byte == Some(b'{') {
                    from.consume(at);
                }
                return Ok(byte);
            }
            None => {
                let length = buffer.len();
                from.consume(length);
            }
        }
    }
}

/// Whether what comes next is a list in JSON, and no prefix such as `[1,0]<stdout>:`.
pub(crate) fn is_list(from: &mut dyn BufRead) -> io::Result<bool> {
    let mut start = from.fill_buf()?.trim_ascii_start().strip_prefix(b"[").unwrap_or_default();
    start = start.trim_ascii_start();
    Ok(start.starts_with(b"{") || start.starts_with(b"\""))
}

/// By its first bytes, a form that holds text and is not read, and what to do with it.
pub(crate) fn encoded(start: &[u8]) -> Option<(&'static str, &'static str)> {
    const UTF16: &str = "make it UTF-8 first, such as with `iconv -f UTF-16 -t UTF-8`";
    let known: [(&[u8], &str, &str); 5] = [
        (&[0x1f, 0x8b], "compressed with gzip", "unpack it first, such as with `gzip -dc`"),
        (
            &[0x28, 0xb5, 0x2f, 0xfd],
            "compressed with zstd",
            "unpack it first, such as with `zstd -dc`",
        ),
        (
            &[0xfd, b'7', b'z', b'X', b'Z'],
            "compressed with xz",
            "unpack it first, such as with `xz -dc`",
        ),
        (&[0xff, 0xfe], "UTF-16", UTF16),
        (&[0xfe, 0xff], "UTF-16", UTF16),
    ];
    let (_, what, instead) = known.into_iter().find(|(magic, ..)| start.starts_with(magic))?;
    Some((what, instead))
}

/// A zero byte among this many first bytes means that the file is binary.
const BINARY_CHECK_BYTES: u64 = 1024;
/// Maximum of zero bytes skipped: a file system that lost a write, or a log that was cut while it was
/// written, leaves a hole.
const MAX_ZERO_BYTES: u64 = 64 << 20;

/// The zero bytes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Zeros {
    /// Number of skipped bytes.
    pub count: u64,
    /// Offset of the first.
    pub first: Option<u64>,
    /// Whether reading stopped because the file is binary.
    pub is_binary: bool,
}

/// Passes every line on, without zero bytes.
pub(crate) fn each(from: &mut dyn BufRead, mut line: impl FnMut(&str)) -> io::Result<Zeros> {
    let mut kept: Vec<u8> = Vec::new();
    let mut offset = 0u64;
    let mut zeros = Zeros::default();
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = memchr(b'\n', buffer);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or(buffer);
        let used = part.len() + usize::from(end.is_some());
        let zero = memchr(0, part);
        if let Some(at) = zero {
            let first = *zeros.first.get_or_insert(offset + at as u64);
            zeros.count += memchr_iter(0, part).count() as u64;
            zeros.is_binary = first < BINARY_CHECK_BYTES || zeros.count > MAX_ZERO_BYTES;
            if zeros.is_binary {
                return Ok(zeros);
            }
            let room = MAX_LINE_BYTES.saturating_sub(kept.len());
            kept.extend(part.iter().copied().filter(|byte| *byte != 0).take(room));
            if end.is_some() {
                hand(&kept, &mut line);
                kept.clear();
            }
        } else if end.is_some() && kept.is_empty() {
            hand(part, &mut line);
        } else {
            let room = MAX_LINE_BYTES.saturating_sub(kept.len()).min(part.len());
            kept.extend_from_slice(part.get(..room).unwrap_or(part));
            if end.is_some() {
                hand(&kept, &mut line);
                kept.clear();
            }
        }
        offset += used as u64;
        from.consume(used);
    }
    if !kept.is_empty() {
        hand(&kept, &mut line);
    }
    Ok(zeros)
}

fn hand(bytes: &[u8], line: &mut impl FnMut(&str)) {
    let bytes = bytes.get(..MAX_LINE_BYTES).unwrap_or(bytes);
    let mut text = match str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => typed(&String::from_utf8_lossy(bytes)).into(),
    };
    if text.starts_with('{')
        && let Some(inner) = wrapped::text(&text)
    {
        text = inner.into();
    }
    split(&text, line);
}

/// Hands on every line in a text.
pub(crate) fn split(text: &str, line: &mut impl FnMut(&str)) {
    let mut text = Cow::Borrowed(text);
    if memchr3(b'\\', b'\r', b'\n', text.as_bytes()).is_none() {
        if !text.trim_ascii().is_empty() {
            line(&plain(&text));
        }
        return;
    }
    // A program's own print of what another one said.
    if text.matches("\\n").count() > 1 {
        text = text.replace("\\n", "\n").into();
    }
    // A progress bar writes over itself: what stood last is what people saw.
    for part in text.split(['\r', '\n']).filter(|part| !part.trim().is_empty()) {
        line(&plain(part));
    }
}

/// Replaces typographic blanks, dashes, quotes and bars by those of a keyboard, and removes characters
/// without width.
fn typed(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => None,
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{2018}' | '\u{2019}' => Some('\''),
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' => Some('"'),
        '\u{2502}' | '\u{2503}' | '\u{2551}' | '\u{ff5c}' => Some('|'),
        '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        c if !c.is_ascii() && c.is_whitespace() => Some(' '),
        c => Some(c),
    };
    text.chars().filter_map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], buffer: usize) -> (Vec<String>, Zeros) {
        let mut found = Vec::new();
        let mut from = io::BufReader::with_capacity(buffer, bytes);
        let at = each(&mut from, |line| found.push(line.to_owned())).expect("memory is readable");
        (found, at)
    }

    #[test]
    fn lines_of_every_kind() {
        for buffer in [1, 3, 4096] {
            let (lines, zeros) =
                all(b"one\r\n\n\x1b[31mtwo\x1b[0m\nbar 1%\rbar 2%\n\xfflast", buffer);
            assert_eq!(lines, ["one", "two", "bar 1%", "bar 2%", "\u{fffd}last"]);
            assert_eq!(zeros, Zeros::default());
            let zeros = all(b"ab\nc\0d", buffer).1;
            assert_eq!((zeros.first, zeros.is_binary), (Some(4), true));
        }
    }

    #[test]
    fn a_hole_in_a_long_text_is_passed_over() {
        let text = [b"x\n".repeat(600), b"on\0\0\0e\n\0\0two\n".to_vec()].concat();
        for buffer in [1, 3, 4096] {
            let (lines, zeros) = all(&text, buffer);
            assert_eq!(lines[600..], ["one", "two"]);
            assert_eq!(zeros, Zeros { count: 5, first: Some(1202), is_binary: false });
        }
        let endless = [b"x\n".repeat(600), vec![0; (MAX_ZERO_BYTES + 1) as usize]].concat();
        assert!(all(&endless, 1 << 20).1.is_binary);
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_its_share() {
        let long = vec![b'x'; 1 << 20];
        let (lines, _) = all(&long, 4096);
        assert_eq!(lines.iter().map(String::len).sum::<usize>(), MAX_LINE_BYTES);
    }
}
