//! Reads one message from left to right: words, numbers, separators. It knows no format.
//! Of a message that was cut off by another one it accepts only what is certainly complete.

use memchr::memmem;

/// The rest of a message. Every step consumes what it returns, or nothing.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    /// Another message begins where this one stops: its end may be missing.
    cut: bool,
    /// The last thing read was a fixed word, which a cut would have spoilt.
    closed: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, cut: bool) -> Self {
        Cursor { rest: text, cut, closed: false }
    }

    /// Exactly these bytes.
    pub(super) fn literal(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        self.closed = true;
        Some(())
    }

    /// The first of these words that is next.
    pub(super) fn one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.literal(word).is_some())
    }

    /// Whether this word is next; consumes it if so.
    pub(super) fn has(&mut self, word: &str) -> bool {
        self.literal(word).is_some()
    }

    /// The following word is optional and matters: after a cut here it is unknown whether it was
    /// printed.
    pub(super) fn optional(&mut self) {
        self.closed = false;
    }

    /// A word before a number: `key` and then the number.
    pub(super) fn field(&mut self, key: &str) -> Option<u32> {
        self.literal(key)?;
        self.number()
    }

    /// Decimal digits.
    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        let digits = self.run(|b| b.is_ascii_digit())?;
        digits.parse().ok()
    }

    /// Digits with a point, as `%f` prints them.
    pub(super) fn decimal(&mut self) -> Option<f64> {
        let digits = self.run(|b| b.is_ascii_digit() || b == b'.')?;
        digits.parse().ok()
    }

    /// Hexadecimal digits, with or without 0x before them.
    pub(super) fn hex(&mut self) -> Option<&'a str> {
        self.run(|b| b.is_ascii_hexdigit() || b == b'x')
    }

    /// Everything up to the next blank.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.run(|b| !b.is_ascii_whitespace())
    }

    /// Everything up to `separator`, which is read, too.
    pub(super) fn until(&mut self, separator: &str) -> Option<&'a str> {
        // `split_once` prepares itself for longer texts than a message.
        let at = memmem::find(self.rest.as_bytes(), separator.as_bytes())?;
        let before = self.rest.get(..at)?;
        self.rest = self.rest.get(at + separator.len()..)?;
        self.closed = true;
        (!before.is_empty()).then_some(before)
    }

    /// Blanks, if there are any.
    pub(super) fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// Free text up to the end; `None` in a cut message, whose end is unknown.
    pub(super) fn text(self) -> Option<&'a str> {
        let text = self.rest.trim();
        (!self.cut && !text.is_empty()).then_some(text)
    }

    /// Nothing that belongs to the format follows. Later releases may append words after a blank or
    /// a comma. In a cut message the next one's host name stands here, and only a fixed word before
    /// it proves that nothing is missing.
    pub(super) fn end(self) -> Option<()> {
        let ended = if self.cut {
            self.closed && self.rest.bytes().all(is_host)
        } else {
            self.rest.is_empty() || self.rest.starts_with([' ', ',', ';'])
        };
        ended.then_some(())
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> Option<&'a str> {
        let length = self.rest.bytes().position(|b| !belongs(b)).unwrap_or(self.rest.len());
        // Runs of non-blanks end before an ASCII byte, so this never splits a character.
        let (run, rest) = self.rest.split_at_checked(length)?;
        if run.is_empty() {
            return None;
        }
        self.rest = rest;
        self.closed = false;
        Some(run)
    }
}

/// Whether a byte may stand in a host name.
pub(super) fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_message_ends_only_after_a_fixed_word() {
        let mut whole = Cursor::new("via 12", false);
        assert_eq!(whole.field("via "), Some(12));
        assert!(whole.end().is_some());
        let mut cut = Cursor::new("via 12", true);
        assert_eq!(cut.field("via "), Some(12));
        assert!(cut.end().is_none(), "the number may have had more digits");
        let mut cut = Cursor::new("Init COMPLETEnode-1", true);
        assert!(cut.has("Init COMPLETE"));
        assert!(cut.end().is_some());
        let mut cut = Cursor::new("CUMEM/renode-1", true);
        assert!(cut.has("CUMEM"));
        assert!(cut.end().is_none());
        assert_eq!(Cursor::new("Sock", true).text(), None);
    }

    #[test]
    fn a_failed_step_consumes_nothing() {
        let mut cursor = Cursor::new("a1", false);
        assert_eq!(cursor.number::<u32>(), None);
        assert_eq!(cursor.until("x"), None);
        assert!(cursor.has("a"));
        assert_eq!(cursor.number::<u32>(), Some(1));
        assert_eq!(Cursor::new("99999999999", false).number::<u32>(), None);
    }
}
