//! A word as a shell takes it: POSIX quoting, without anything that expands.
//! Not a shell.

use std::borrow::Cow;

/// The word as a shell takes it back. `shlex` quotes `=` and `,` as well, which most words of a launcher have.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Words as a line for a shell.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_it_is_quoted() {
        let words = ["busbw", "-x", "A=1,2", "a b", "it's", ""];
        assert_eq!(line(words), r"busbw -x A=1,2 'a b' 'it'\''s' ''");
    }
}
