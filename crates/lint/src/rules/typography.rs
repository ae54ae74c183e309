//! Curly quotes and long dashes that came in with a copy from a web page or a document.
//! ASCII quotes in the wrong place are `stray`'s affair.

use busbw_core::finding::{Finding, Place, Severity};

use crate::assignment::{self, Assignment};
use crate::document::{Document, TypographicWord};

const CURLY: [char; 4] = ['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}'];

/// Maximum of findings: prose has one in every line.
const MAX_WORDS_REPORTED: usize = 50;

pub(super) fn check_words(document: &Document) -> Vec<Finding> {
    document.strange.iter().take(MAX_WORDS_REPORTED).map(word).collect()
}

fn word(found: &TypographicWord) -> Finding {
    let strange = found.strange;
    let (c, column) = (strange.character, strange.column);
    let (cause, remedy) = if CURLY.contains(&c) {
        let cause = format!(
            "the curly quote {c} in column {column} is not a quote to the shell, it becomes part of the word"
        );
        (cause, format!("type {} instead", straight(c)))
    } else {
        let cause = format!("the long dash {c} in column {column} does not start an option");
        (cause, "type - or -- instead".to_owned())
    };
    let place = match assignment::split(&found.word) {
        Some((name, value)) => {
            Place { value: Some(value.to_owned()), ..Place::at(Some(strange.line), name) }
        }
        None => Place::at(Some(strange.line), &found.word),
    };
    Finding::new("typography", Severity::Error, cause).remedy(remedy).place(place)
}

/// The same in a value that did not come from a word of a script.
pub(super) fn check_value(assignment: &Assignment, document: &Document) -> Option<Finding> {
    let value = assignment.value.as_deref()?;
    let c = value.chars().find(|c| CURLY.contains(c))?;
    // Lines rise in both lists, so the word of this line is quickly found.
    let line = assignment.line;
    let at = document.strange.partition_point(|found| Some(found.strange.line) < line);
    if document.strange.get(at).is_some_and(|found| Some(found.strange.line) == line) {
        return None;
    }
    let column = value.chars().position(|other| other == c).map_or(0, |at| at + 1);
    let cause =
        format!("the curly quote {c}, character {column} of the value, is part of the value");
    let remedy = format!("type {} instead, or leave it out", straight(c));
    Some(
        Finding::new("typography", Severity::Error, cause).remedy(remedy).place(assignment.place()),
    )
}

fn straight(c: char) -> char {
    if matches!(c, '\u{2018}' | '\u{2019}') { '\'' } else { '"' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_environment, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| f.rule == "typography");
        found
    }

    #[test]
    fn curly_quotes_have_a_column() {
        let found = found("set -e\nexport NCCL_IB_HCA=“mlx5_0”\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line(), Some(2));
        assert_eq!(found[0].variable(), Some("NCCL_IB_HCA"));
        assert!(found[0].cause.contains("“ in column 20"), "{}", found[0]);
        assert_eq!(found[0].severity, Severity::Error);
    }

    #[test]
    fn a_long_dash_is_no_option() {
        let found = found("mpirun –np 16 —bind-to numa ./run");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].variable(), Some("–np"));
        assert!(found[0].cause.contains("– in column 8"), "{}", found[0]);
    }

    #[test]
    fn speech_may_be_typeset() {
        let text = "# it’s – fine\necho “hello”\necho \"it’s\"\na – b\nA=\"x’y\"\n";
        assert_eq!(found(text), []);
    }

    #[test]
    fn an_environment_has_no_columns_of_a_script() {
        let found = lint_environment([("NCCL_DEBUG", "“INFO”")].into_iter(), &Options::default());
        assert!(found.iter().any(|f| f.rule == "typography" && f.cause.contains("character 1")));
    }
}
