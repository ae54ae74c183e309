//! Cuts text into words the way a shell would, with the line and column of each.
//! It expands nothing, and it never fails: a quote left open ends with its line.

use std::borrow::Cow;

/// A character that only looks like the one a shell understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypographicCharacter {
    pub(crate) character: char,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The inside of a quoted part, to be read again where it holds a command of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'t> {
    pub(crate) inside: &'t str,
    pub(crate) place: Position,
}

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// One word of a command.
#[derive(Debug, Clone)]
pub(crate) struct Word<'t> {
    /// As written, with quotes.
    pub(crate) raw: &'t str,
    /// As the program would get it, before expansion.
    pub(crate) text: Cow<'t, str>,
    pub(crate) line: u32,
    /// The last quoted part, if any.
    pub(crate) quoted: Option<Quoted<'t>>,
    /// The first curly quote outside ASCII quotes, or a long dash that starts an option.
    pub(crate) strange: Option<TypographicCharacter>,
}

/// A place in the text, from which commands are read one by one.
#[derive(Debug)]
pub(crate) struct Tokens<'t> {
    text: &'t str,
    at: usize,
    place: Position,
}

impl<'t> Tokens<'t> {
    pub(crate) fn new(text: &'t str, place: Position) -> Self {
        Tokens { text, at: 0, place }
    }

    /// The words of the next command that has any; false at the end of the text.
    pub(crate) fn command(&mut self, words: &mut Vec<Word<'t>>) -> bool {
        words.clear();
        while let Some(c) = self.peek() {
            match c {
                '\n' | ';' | '|' | '(' | ')' | '`' => {
                    self.bump();
                    if !words.is_empty() {
                        return true;
                    }
                }
                '&' if !self.redirects() => {
                    self.bump();
                    if !words.is_empty() {
                        return true;
                    }
                }
                '\\' if self.at_line_end(1) => self.skip_continuation(),
                // Slurm reads its options from comments.
                '#' if !self.text[self.at..].starts_with("#SBATCH ") => self.skip_line(),
                c if c.is_whitespace() => self.bump(),
                _ => {
                    let word = self.word();
                    words.push(word);
                }
            }
        }
        !words.is_empty()
    }

    fn word(&mut self) -> Word<'t> {
        let (start, line) = (self.at, self.place.line);
        let mut text: Cow<'t, str> = Cow::Borrowed("");
        let mut plain_from = start;
        let mut quoted = None;
        let mut strange = None;
        while let Some(c) = self.peek() {
            match c {
                '\'' | '"' => {
                    flush(&mut text, &self.text[plain_from..self.at]);
                    let part = self.quoted_part(c, &mut text);
                    plain_from = self.at;
                    quoted = Some(part);
                }
                '\\' => {
                    flush(&mut text, &self.text[plain_from..self.at]);
                    if self.at_line_end(1) {
                        self.skip_continuation();
                        plain_from = self.at;
                        // The next line goes on with this word unless it starts with a blank.
                        continue;
                    }
                    self.bump();
                    plain_from = self.at;
                    self.bump();
                }
                '$' => self.skip_expansion(),
                '&' if self.redirects() => self.bump(),
                c if ends_word(c) => break,
                c => {
                    if strange.is_none() && self.is_typographic(c, start) {
                        let Position { line, column } = self.place;
                        strange = Some(TypographicCharacter { character: c, line, column });
                    }
                    self.bump();
                }
            }
        }
        flush(&mut text, &self.text[plain_from..self.at]);
        Word { raw: &self.text[start..self.at], text, line, quoted, strange }
    }

    /// The part from an opening quote to its partner, or to the end of the line.
    fn quoted_part(&mut self, quote: char, text: &mut Cow<'t, str>) -> Quoted<'t> {
        self.bump();
        let (start, place) = (self.at, self.place);
        let mut plain_from = start;
        while let Some(c) = self.peek() {
            match c {
                '\n' => break,
                c if c == quote => break,
                '\\' if quote == '"' && self.at_line_end(1) => {
                    flush(text, &self.text[plain_from..self.at]);
                    self.skip_continuation();
                    plain_from = self.at;
                }
                '\\' if quote == '"' => {
                    self.bump();
                    if matches!(self.peek(), Some('"' | '\\' | '$' | '`')) {
                        flush(text, &self.text[plain_from..self.at - 1]);
                        plain_from = self.at;
                        self.bump();
                    }
                }
                '$' if quote == '"' => self.skip_expansion(),
                _ => self.bump(),
            }
        }
        flush(text, &self.text[plain_from..self.at]);
        let inside = &self.text[start..self.at];
        if self.peek() == Some(quote) {
            self.bump();
        }
        Quoted { inside, place }
    }

    /// Steps over `$NAME`, `${...}` and `$(...)`, so that blanks and quotes inside do not cut.
    fn skip_expansion(&mut self) {
        self.bump();
        let (open, close) = match self.peek() {
            Some('{') => ('{', '}'),
            Some('(') => ('(', ')'),
            _ => return,
        };
        let mut depth = 0_u32;
        while let Some(c) = self.peek() {
            if c == '\n' {
                return;
            }
            self.bump();
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            }
        }
    }

    fn is_typographic(&self, c: char, word_start: usize) -> bool {
        match c {
            '\u{201c}' | '\u{201d}' | '\u{2018}' | '\u{2019}' => true,
            // A dash alone is punctuation; before a letter it was meant as an option.
            '\u{2013}' | '\u{2014}' => {
                let after = self.text[self.at + c.len_utf8()..].chars().next();
                self.at == word_start && after.is_some_and(char::is_alphanumeric)
            }
            _ => false,
        }
    }

    /// Whether the `&` here belongs to `2>&1` or `&>log`.
    fn redirects(&self) -> bool {
        let bytes = self.text.as_bytes();
        let before = self.at.checked_sub(1).map(|i| bytes[i]);
        before == Some(b'>') || bytes.get(self.at + 1) == Some(&b'>')
    }

    /// Whether the text `ahead` bytes on is a line's end.
    fn at_line_end(&self, ahead: usize) -> bool {
        let rest = self.text.as_bytes().get(self.at + ahead..).unwrap_or_default();
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    }

    fn skip_continuation(&mut self) {
        while let Some(c) = self.peek() {
            self.bump();
            if c == '\n' {
                return;
            }
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.bump();
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        if c == '\n' {
            self.place.line = self.place.line.saturating_add(1);
            self.place.column = 1;
        } else {
            self.place.column = self.place.column.saturating_add(1);
        }
    }
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '|' | '(' | ')' | '&' | '`')
}

/// Adds a part; the common word of one part is not copied.
fn flush<'t>(text: &mut Cow<'t, str>, part: &'t str) {
    if part.is_empty() {
        return;
    }
    if text.is_empty() {
        *text = Cow::Borrowed(part);
    } else {
        text.to_mut().push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Vec<Vec<String>> {
        let mut tokens = Tokens::new(text, Position { line: 1, column: 1 });
        let mut words = Vec::new();
        let mut all = Vec::new();
        while tokens.command(&mut words) {
            all.push(words.iter().map(|w| w.text.to_string()).collect());
        }
        all
    }

    #[test]
    fn quotes_are_removed_and_blanks_kept() {
        assert_eq!(commands(r#"A="x y"'z' b\ c"#), [vec!["A=x yz", "b c"]]);
        assert_eq!(commands(r#"A="\"INFO\"" "#), [vec![r#"A="INFO""#]]);
    }

    #[test]
    fn lines_are_joined_and_separated() {
        assert_eq!(commands("a \\\n b\nc; d"), [vec!["a", "b"], vec!["c"], vec!["d"]]);
        assert_eq!(commands("a \\\r\n b"), [vec!["a", "b"]]);
    }

    #[test]
    fn an_open_quote_ends_with_its_line() {
        assert_eq!(commands("echo don't\nA=1"), [vec!["echo", "dont"], vec!["A=1"]]);
    }

    #[test]
    fn comments_go_but_slurm_options_stay() {
        assert_eq!(commands("a # b\n#c\n"), [vec!["a"]]);
        assert_eq!(commands("#SBATCH --export=A=1"), [vec!["#SBATCH", "--export=A=1"]]);
    }

    #[test]
    fn expansions_stay_whole() {
        assert_eq!(commands("A=${B:-c d} e=$(f; g)"), [vec!["A=${B:-c d}", "e=$(f; g)"]]);
        assert_eq!(commands("cmd 2>&1 | tee x"), [vec!["cmd", "2>&1"], vec!["tee", "x"]]);
    }

    #[test]
    fn strange_characters_have_a_place() {
        let mut tokens = Tokens::new("a\n  –np ‘é’", Position { line: 1, column: 1 });
        let mut words = Vec::new();
        tokens.command(&mut words);
        tokens.command(&mut words);
        let want = TypographicCharacter { character: '–', line: 2, column: 3 };
        assert_eq!(words[0].strange, Some(want));
        assert_eq!(words[1].strange.map(|s| s.column), Some(7));
    }
}
