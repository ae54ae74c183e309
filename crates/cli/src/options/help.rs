//! What stands below the options in every command's help: notes, examples that can be pasted, exit codes.
//! Not the options' own lines, which stand at each option, and not the list of commands (`overview`).

mod texts;

use clap::Command as Grammar;

pub(super) use texts::*;

/// Examples that `-h` shows; `--help` shows all.
const BRIEF_EXAMPLES: usize = 3;

/// Comments stand in one column behind commands that are shorter.
const ALIGNED: usize = 42;

/// What stands below a command's options. Paragraphs are single lines: clap breaks them once, at the terminal's width.
pub(super) struct Below {
    /// Paragraphs.
    pub(super) notes: &'static [&'static str],
    /// Commands, and what is said of each. `{}` is the command's own name. `needs …` is what the machine must have.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// What the exit codes mean.
    pub(super) exits: &'static str,
}

impl Below {
    /// This text below the options of a command: all of it for `--help`, a few examples for `-h`.
    pub(super) fn under(&self, grammar: Grammar) -> Grammar {
        let name = grammar.get_name().to_owned();
        let examples = self.lines(&name);
        let brief = examples.get(..BRIEF_EXAMPLES).unwrap_or(&examples);
        let more = format!("All options, examples and exit codes: busbw {name} --help");
        let more = more.replace("busbw busbw", "busbw");
        let short = format!("Examples:\n{}\n{more}", brief.join("\n"));
        let notes = self.notes.iter().map(|note| (*note).to_owned());
        let long = notes.chain([format!("Examples:\n{}", examples.join("\n"))]);
        let long = long.chain([format!("Exit codes: {}", self.exits)]);
        grammar.after_help(short).after_long_help(long.collect::<Vec<_>>().join("\n\n"))
    }

    /// The examples, as lines that a shell takes.
    fn lines(&self, name: &str) -> Vec<String> {
        let commands: Vec<String> =
            self.examples.iter().map(|(command, _)| command.replace("{}", name)).collect();
        let width =
            commands.iter().map(String::len).filter(|width| *width < ALIGNED).max().unwrap_or(0);
        let with = |(command, (_, about)): (&String, &(&str, &str))| match about.is_empty() {
            true => format!("  {command}"),
            false => format!("  {command:width$}  # {about}"),
        };
        commands.iter().zip(self.examples).map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::options::parse;

    use super::super::grammar::{WORDS, grammar};

    /// What is printed for `line`, in a terminal of `width` columns.
    fn help(line: &str, width: usize) -> String {
        let mut whole = grammar().term_width(width);
        let words = line.split_whitespace().map(OsString::from);
        whole.try_get_matches_from_mut(words).unwrap_err().render().to_string()
    }

    fn names() -> Vec<String> {
        let whole = grammar();
        let shown = whole.get_subcommands();
        shown
            .map(|command| command.get_name().to_owned())
            .filter(|name| !WORDS.contains(&name.as_str()))
            .collect()
    }

    #[test]
    fn short_help_is_one_screen() {
        for name in names().iter().map(|name| format!("busbw {name} -h")).chain(["busbw -h".into()])
        {
            let text = help(&name, 80);
            assert!(text.lines().count() <= 40, "{name}: {} lines\n{text}", text.lines().count());
            assert!(text.lines().count() >= 8, "{name}: {text}");
        }
    }

    /// Lines are broken once: none is longer than the terminal, and an example is a line as it was written.
    #[test]
    fn help_wraps_once_and_examples_can_be_pasted() {
        for name in names().iter().map(|name| format!("{name} ")).chain([String::new()]) {
            for length in ["-h", "--help"] {
                for width in [80, 100] {
                    let line = format!("busbw {name}{length}");
                    let text = help(&line, width);
                    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                    assert!(longest <= width, "{line} at {width}: {text}");
                    let examples =
                        text.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{line}"));
                    for example in examples.lines().take_while(|line| line.starts_with("  ")) {
                        assert!(example.contains("busbw"), "{line}: a broken example: {example}");
                    }
                }
            }
            // A paragraph fills its lines, but for the last one.
            let text = help(&format!("busbw {name}--help"), 100);
            let below = text.split("\nOptions:\n").nth(1).unwrap_or(&text);
            for pair in below.lines().collect::<Vec<_>>().windows(2) {
                let [first, second] = pair else { continue };
                let is_text =
                    |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                let word = second.split(' ').next().unwrap_or_default();
                if is_text(first) && is_text(second) && !second.starts_with("Exit codes") {
                    assert!(first.chars().count() + word.chars().count() >= 100, "{name}: {first}");
                }
            }
        }
    }

    /// Every option that takes a value says what it is without.
    #[test]
    fn every_default_is_shown() {
        let mut whole = grammar();
        whole.build();
        for command in whole.get_subcommands() {
            for option in command.get_opts().filter(|option| {
                !option.is_hide_set()
                    && !option.is_required_set()
                    && option.get_action().takes_values()
            }) {
                let says = |help: Option<&clap::builder::StyledStr>| {
                    help.is_none_or(|help| help.to_string().contains("[default: "))
                };
                let has = !option.get_default_values().is_empty()
                    || (option.get_help().is_some()
                        && says(option.get_help())
                        && says(option.get_long_help()));
                assert!(has, "{} {}: {:?}", command.get_name(), option.get_id(), option.get_help());
            }
        }
    }

    #[test]
    fn help_and_version_are_words_too() {
        let said = |line: &str| {
            let error = parse(line.split_whitespace().map(OsString::from)).unwrap_err();
            (error.exit_code(), error.render().to_string())
        };
        for (word, option) in [
            ("busbw help", "busbw --help"),
            ("busbw version", "busbw --version"),
            ("busbw help all_reduce", "busbw all_reduce --help"),
            ("busbw help AllReduce", "busbw all_reduce --help"),
            ("busbw help plugin check", "busbw plugin check --help"),
            ("busbw help all_reduce_perf", "busbw all_reduce_perf --help"),
        ] {
            assert_eq!(said(word), said(option), "{word}");
            assert_eq!(said(word).0, 0, "{word}");
        }
        assert_eq!(said("busbw help nonsense").0, 2);
    }
}
