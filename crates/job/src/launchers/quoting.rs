//! Words as a shell would take them: POSIX quoting, without anything that expands.
//! Not a shell, and not the way back (`busbw_core::shell`).

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
    use busbw_core::shell::quoted;

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
