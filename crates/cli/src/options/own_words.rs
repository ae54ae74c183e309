//! Puts a command's own words in front of the benchmark's, since people write them in any order.
//! Not what the words mean, and not `sweep`'s, whose -x has two meanings (`sweeping`).

use std::ffi::OsString;

use clap::Command as Grammar;

/// What tells a command's own words from the benchmark's.
pub(super) struct OwnWords {
    /// The command's own options.
    pub(super) grammar: Grammar,
    /// Whether a word is a benchmark that the command takes, however it is spelled.
    pub(super) is_benchmark: fn(&str) -> bool,
    /// The most benchmarks.
    pub(super) benchmarks: usize,
    /// Whether `-x NAME=VALUE,…` is the command's own; `-x 1` is always the benchmark's.
    pub(super) assigns: bool,
}

impl OwnWords {
    /// The command's own words, then the benchmarks, then `--` and the others.
    pub(super) fn first(&self, words: &[OsString]) -> Vec<OsString> {
        let (mut own, mut benchmarks, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = words.iter().filter(|word| *word != "--").peekable();
        while let Some(word) = rest.next() {
            let text = word.to_string_lossy();
            let name = text.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long));
            let known = name.and_then(|name| {
                self.grammar.get_arguments().find(|argument| argument.get_long() == Some(name))
            });
            let assigns =
                |next: Option<&&OsString>| next.is_some_and(|w| w.to_string_lossy().contains('='));
            match known {
                Some(argument) => {
                    own.push(word.clone());
                    let takes_next = argument.get_action().takes_values() && !text.contains('=');
                    own.extend(rest.next_if(|_| takes_next).cloned());
                }
                None if text == "-h" || name == Some("help") => own.push(word.clone()),
                None if name == Some("color") => {
                    own.push(word.clone());
                    own.extend(rest.next_if(|_| !text.contains('=')).cloned());
                }
                None if self.assigns && text == "-x" && assigns(rest.peek()) => {
                    own.push(word.clone());
                    own.extend(rest.next().cloned());
                }
                None if self.assigns && text.starts_with("-x") && text.contains('=') => {
                    own.push(word.clone());
                }
                None if benchmarks.len() < self.benchmarks && (self.is_benchmark)(&text) => {
                    benchmarks.push(word.clone());
                }
                None => others.push(word.clone()),
            }
        }
        own.append(&mut benchmarks);
        if !others.is_empty() {
            own.push("--".into());
            own.append(&mut others);
        }
        own
    }
}
