//! Whether the network and the GPUs may be loaded: what others use is loaded only if somebody says so.
//! Not how it is found out that they are in use (`busbw_host::in_use`).

use std::io::{self, BufRead, IsTerminal, Write};

use busbw_core::printable::Printable;

/// Who may say so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consent {
    /// Whether it was given before.
    pub(crate) given: bool,
    /// The options that give it, as a subject with its verb: `--shared loads them`.
    pub(crate) option: &'static str,
    /// Seconds that the load may last.
    pub(crate) within_s: f64,
}

impl Consent {
    /// Asks for what `in_use` says, a sentence for each host.
    ///
    /// # Errors
    /// Why nothing is loaded. Without a terminal nobody is asked: a gate must not wait for a keyboard.
    pub(crate) fn ask(&self, in_use: &[String]) -> Result<(), String> {
        if in_use.is_empty() || self.given {
            return Ok(());
        }
        let uses = shortened(in_use);
        let question = format!(
            "others use what this would load for up to {:.0} s: {uses}. Load it?",
            self.within_s
        );
        match answer_to(&question) {
            Answer::Yes => Ok(()),
            Answer::No => {
                Err(format!("others use what this would load ({uses}), and the answer was no"))
            }
            Answer::NobodyThere => Err(format!(
                "others use what this would load ({uses}): {} all the same",
                self.option
            )),
        }
    }
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes, or y.
    Yes,
    /// Anything else, or the end of the input.
    No,
    /// Stdin or stderr is no terminal: nobody was asked, since a script must not wait for a keyboard.
    NobodyThere,
}

/// Asks on stderr, where somebody is there to answer.
pub(crate) fn answer_to(question: &str) -> Answer {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Answer::NobodyThere;
    }
    // Without a stderr the answer is no.
    let _ = write!(Printable::new(io::stderr(), false), "busbw: {question} [y/N] ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if read.is_ok() && is_yes(&line) { Answer::Yes } else { Answer::No }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// The first hosts, and how many more.
fn shortened(in_use: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = in_use.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match in_use.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more hosts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for line in ["y\n", "YES\n", " yes "] {
            assert!(is_yes(line));
        }
        for line in ["", "\n", "n\n", "yesterday\n"] {
            assert!(!is_yes(line));
        }
    }

    #[test]
    fn what_is_idle_needs_no_word() {
        let option = "--shared measures";
        let consent = Consent { given: false, option, within_s: 60.0 };
        assert_eq!(consent.ask(&[]), Ok(()));
        let given = Consent { given: true, ..consent };
        assert_eq!(given.ask(&["a: 1 process on GPU 0".to_owned()]), Ok(()));
    }

    #[test]
    fn many_hosts_are_counted() {
        let all: Vec<String> = (0..10).map(|host| format!("n{host}: busy")).collect();
        assert_eq!(shortened(&all), "n0: busy; n1: busy; n2: busy; and 7 more hosts");
    }
}
