//! Finds the shell variables that a word uses.
//! It does not know their values.

/// One use of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use<'t> {
    pub(crate) name: &'t str,
    pub(crate) fallback: Fallback,
}

/// What happens when the variable is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// It becomes nothing.
    None,
    /// The script says what then: `${A:-x}`, `${A:?}`, `${A:+x}`.
    Given,
    /// The script sets it there and then: `${A:=x}`.
    Sets,
}

/// The uses in a word as written; those in single quotes are left to whoever reads them.
pub(crate) fn uses(raw: &str) -> Vec<Use<'_>> {
    let bytes = raw.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut single, mut double) = (0, false, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\'' if !double => single = !single,
            b'"' if !single => double = !double,
            b'\\' if !single => at += 1,
            b'$' if !single => {
                let Some(rest) = raw.get(at..) else { continue };
                if let Some(used) = one_use(rest) {
                    at += used.name.len();
                    found.push(used);
                }
            }
            _ => {}
        }
    }
    found
}

fn one_use(rest: &str) -> Option<Use<'_>> {
    let Some(braced) = rest.strip_prefix('{') else {
        let name = leading_name(rest)?;
        return Some(Use { name, fallback: Fallback::None });
    };
    // ${#A} and ${!A} need A to be set just as ${A} does.
    let braced = braced.strip_prefix(['#', '!']).unwrap_or(braced);
    let name = leading_name(braced)?;
    let operator = braced[name.len()..].trim_start_matches(':').chars().next();
    let fallback = match operator {
        Some('-' | '+' | '?') => Fallback::Given,
        Some('=') => Fallback::Sets,
        _ => Fallback::None,
    };
    Some(Use { name, fallback })
}

/// The identifier that the text starts with.
pub(crate) fn leading_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let name = &text[..end];
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    (!name.is_empty() && starts_well).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &str) -> Vec<&str> {
        uses(raw).into_iter().map(|used| used.name).collect()
    }

    #[test]
    fn both_spellings_are_found() {
        assert_eq!(names(r#"$A"${B}"x$C_1/${#D[@]}"#), ["A", "B", "C_1", "D"]);
    }

    #[test]
    fn quoted_and_escaped_ones_are_not_ours() {
        assert_eq!(names(r#"'$A' \$B "it's $C""#), ["C"]);
    }

    #[test]
    fn positional_and_special_parameters_are_always_set() {
        assert!(names("$1 $@ $# $? $$ ${1} ${@}").is_empty());
    }

    #[test]
    fn fallbacks_are_told_apart() {
        let kinds = |raw| uses(raw).into_iter().map(|used| used.fallback).collect::<Vec<_>>();
        assert_eq!(kinds("${A:-x} ${A-x} ${A:?no}"), [Fallback::Given; 3]);
        assert_eq!(kinds("${A:=x}"), [Fallback::Sets]);
        assert_eq!(kinds("${A%x} ${A}"), [Fallback::None; 2]);
    }

    #[test]
    fn odd_ends_do_not_panic() {
        for raw in ["$", "${", "\\", "$é", "${A", "x$\\é", "\\é$A"] {
            uses(raw);
        }
    }
}
