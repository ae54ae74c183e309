//! Words for a shell, and words as a shell would take them: POSIX quoting, without anything that expands.
//! Not a shell.

use std::borrow::Cow;

/// The word as a shell takes it back. shlex quotes `=` and `,` as well, which most words of a launcher have.
pub(super) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Words between blanks; quotes and backslashes keep blanks together, and a word that begins with # begins
/// a comment.
///
/// # Errors
/// A quote without its end.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| format!("a quote or a backslash has no end in: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let words = ["a", "", "two words", "it's", "$HOME", "a\"b", "back\\slash", "x=1,2"];
        let line = words.map(quoted).join(" ");
        assert_eq!(split(&line).unwrap(), words);
        assert_eq!(quoted("--np=4"), "--np=4");
        assert_eq!(quoted("a b"), "'a b'");
    }

    #[test]
    fn as_a_shell() {
        assert_eq!(
            split(r#" ssh  -o "User Name" a\ b '"' "#).unwrap(),
            ["ssh", "-o", "User Name", "a b", "\""]
        );
        assert_eq!(split("").unwrap(), [""; 0]);
        assert!(split("ssh 'open").unwrap_err().contains("has no end"));
    }
}
