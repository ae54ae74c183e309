//! Words for a shell, and words as a shell would take them: POSIX quoting, without anything that expands.
//! Not a shell.

use std::borrow::Cow;

/// The word as a shell takes it back.
pub(super) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Words between blanks; quotes and backslashes keep blanks together.
///
/// # Errors
/// A quote without its end.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(letters.next()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        None => return Err(format!("{letter} has no end in: {text}")),
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => word.extend(letters.next()),
                        Some(other) => word.push(other),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
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
