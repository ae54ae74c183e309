//! Makes foreign text printable: characters that would move a cursor, colour a terminal or reverse a line are
//! written as `\u001b`, in terminals and in drawings.
//! Not JSON's own escapes, which leave some of these as they are; ours are valid inside them.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

/// Whether a character is seen as itself, and allowed in XML 1.0 (section 2.2).
fn is_plain(c: char) -> bool {
    // Of Unicode's format characters those that reorder text (UAX 9), break lines or mark nothing.
    let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !(c.is_control() || hidden || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

/// A foreign name or sentence inside busbw's own line: no control character is left.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut plain, c));
    Cow::Owned(plain)
}

fn push(text: &mut String, c: char) {
    if is_plain(c) {
        text.push(c);
    } else {
        let _ = write!(text, "\\u{:04x}", u32::from(c));
    }
}

/// Whether text from `from` on begins with a colour that busbw itself sets (ECMA-48, SGR): its length.
fn colour(from: &str) -> Option<usize> {
    let code = from.strip_prefix("\x1b[")?;
    let code = code.get(..code.find('m')?)?;
    let ours = ["0", "1", "2", "31", "32", "33", "34", "35", "36", "90"];
    code.split(';').all(|one| ours.contains(&one)).then_some(code.len() + 3)
}

/// Writes what is printable as it is: lines, tabs, and where `colours` are wanted busbw's own.
pub struct Printable<W> {
    into: W,
    colours: bool,
}

impl<W: Write> Printable<W> {
    /// In front of `into`.
    pub fn new(into: W, colours: bool) -> Printable<W> {
        Printable { into, colours }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nearly all that is printed is plain: checked without a branch for each byte.
        if bytes.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~' | b'\n')) {
            self.into.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let text = match str::from_utf8(bytes) {
            Ok(text) if !text.chars().all(|c| is_plain(c) || c == '\n') => text,
            // Nothing to do, or no text of ours.
            _ => {
                self.into.write_all(bytes)?;
                return Ok(bytes.len());
            }
        };
        let mut plain = String::with_capacity(text.len() + 16);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let own = colour(rest).filter(|_| self.colours);
            let length = own.unwrap_or(c.len_utf8());
            let (first, behind) = rest.split_at(length);
            match c {
                '\n' | '\t' => plain.push(c),
                _ if own.is_some() => plain.push_str(first),
                c => push(&mut plain, c),
            }
            rest = behind;
        }
        self.into.write_all(plain.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str, colours: bool) -> String {
        let mut out = Vec::new();
        Printable::new(&mut out, colours).write_all(text.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn control_characters_are_seen() {
        let hostile = "a\x1b]0;title\x07b\u{9b}2Jc\u{202e}d\u{1}e\nf\x7f";
        let seen = "a\\u001b]0;title\\u0007b\\u009b2Jc\\u202ed\\u0001e\\u000af\\u007f";
        assert_eq!(printable(hostile), seen);
        assert_eq!(written(hostile, true), seen.replace("\\u000a", "\n"));
        assert!(matches!(printable("NVIDIA H200 (µs) 模型"), Cow::Borrowed(_)));
    }

    #[test]
    fn own_colours_stay_where_they_are_wanted() {
        assert_eq!(written("\x1b[31mslow\x1b[0m", true), "\x1b[31mslow\x1b[0m");
        assert_eq!(written("\x1b[1;31mslow", true), "\x1b[1;31mslow");
        assert_eq!(written("\x1b[1;8mslow", true), "\\u001b[1;8mslow");
        assert_eq!(written("\x1b[31mslow", false), "\\u001b[31mslow");
        assert_eq!(written("\x1b[8mhidden", true), "\\u001b[8mhidden");
    }

    proptest! {
        #[test]
        fn nothing_else_passes(text in "\\PC*|(\\p{Cc}|\\p{Cf}|[a-z0-9\\[;m])*") {
            prop_assert!(printable(&text).chars().all(|c| !c.is_control()));
            prop_assert!(written(&text, false).chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }

        #[test]
        fn json_stays_json(text in "(\\p{Cc}|[a-z\"\\\\])*") {
            let json = written(&serde_json::to_string(&text).unwrap(), false);
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
