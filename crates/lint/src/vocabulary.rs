//! The words that tell what a shell command is: launchers, lead-ins, commands that set variables.
//! It reads single words; `commands` reads what they make together.

use super::assignment::{self, is_name};
use super::tokens::{Quoted, Word};

const LAUNCHERS: [&str; 10] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "prterun",
    "prun",
    "oshrun",
    "srun",
    "horovodrun",
    "#SBATCH",
];

/// Words before a command that leave it what it is.
const LEADS: [&str; 14] = [
    "if", "then", "do", "else", "elif", "while", "until", "!", "{", "time", "sudo", "exec",
    "nohup", "RUN",
];

/// Commands after which a setting holds for all that follow.
const SETTERS: [&str; 9] =
    ["export", "declare", "typeset", "readonly", "local", "setenv", "ENV", "ARG", "-"];

/// Whether the command starts ranks, or is a part of a launcher's arguments.
pub(crate) fn launches(words: &[Word<'_>]) -> bool {
    let is_launcher = |word: &Word<'_>| LAUNCHERS.contains(&base_name(&word.text));
    let is_option = |word: &Word<'_>| word.raw.starts_with("-x") || word.raw.starts_with("--");
    words.iter().any(is_launcher) || words.first().is_some_and(is_option)
}

/// Whether settings of this command hold for all commands that follow.
pub(crate) fn holds_on(head: &str) -> bool {
    SETTERS.contains(&head)
}

/// The first word that is neither a setting nor a lead-in.
pub(crate) fn head_index(words: &[Word<'_>]) -> Option<usize> {
    words.iter().position(|word| {
        let text = core(word);
        let is_setting = !word.raw.starts_with(['"', '\'']) && assignment::split(text).is_some();
        !is_setting && !LEADS.contains(&text)
    })
}

/// The word without the brackets and commas of a JSON or YAML list round a quoted part.
pub(crate) fn core<'w>(word: &'w Word<'_>) -> &'w str {
    match word.quoted {
        Some(Quoted { inside, .. })
            if word.raw.starts_with(['"', '\'', '[']) && !inside.contains('\\') =>
        {
            inside
        }
        _ => &word.text,
    }
}

pub(crate) fn export_list(text: &str) -> Option<&str> {
    text.strip_prefix("--export=").or_else(|| text.strip_prefix("--env="))
}

/// A name in an export list; anything with small letters is the rest of a value with commas.
pub(crate) fn is_exported_name(part: &str) -> bool {
    let capitals = part.bytes().all(|b| !b.is_ascii_lowercase());
    capitals && is_name(part) && !matches!(part, "ALL" | "NONE" | "NIL")
}

pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Commands whose words are for people or for searching.
pub(crate) fn is_talk(head: &str) -> bool {
    matches!(head, "echo" | "printf" | "logger" | "grep" | "egrep" | "rg" | "sed" | "awk")
}

pub(crate) fn is_interesting(text: &str) -> bool {
    ["NCCL", "RCCL", "UCX", "NCLL", "nccl_", "_perf", "mpirun", "srun"]
        .iter()
        .any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Position, Tokens};

    fn with_words<T>(text: &str, look: impl Fn(&[Word<'_>]) -> T) -> T {
        let mut words = Vec::new();
        Tokens::new(text, Position { line: 1, column: 1 }).command(&mut words);
        look(&words)
    }

    #[test]
    fn the_head_comes_after_settings_and_lead_ins() {
        assert_eq!(with_words("time A=1 sudo B=2 /bin/mpirun x", head_index), Some(4));
        assert_eq!(with_words("A=1 B=2", head_index), None);
    }

    #[test]
    fn launchers_are_known_wherever_they_stand() {
        assert!(with_words("timeout 9 /usr/bin/mpirun -np 2 x", launches));
        assert!(with_words("-x NCCL_DEBUG=INFO", launches));
        assert!(!with_words("bash -x script", launches));
    }

    #[test]
    fn lists_are_opened() {
        let open = |words: &[Word<'_>]| core(&words[0]).to_owned();
        assert_eq!(with_words("[\"bash\",", open), "bash");
        assert_eq!(with_words("\"A=1\",", open), "A=1");
    }

    #[test]
    fn capitals_are_names_and_the_rest_is_a_value() {
        assert!(is_exported_name("NCCL_DEBUG"));
        assert!(!is_exported_name("ALL") && !is_exported_name("mlx5_1"));
    }
}
