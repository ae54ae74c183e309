//! What a process of the job says of itself, and in what two of them must not differ.
//! Not the proof that it is of the job (`proof`).

use std::ffi::OsString;

use super::{Hello, words};
use crate::launched::Launched;
use busbw_host::machine;

impl Hello {
    /// This process's own.
    pub fn of_this(launched: &Launched, args: &[OsString]) -> Hello {
        Hello {
            process: launched.rank,
            size: launched.size,
            pid: std::process::id(),
            host: machine::host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            words: words(args),
            backend: String::new(),
            block: launched.block(),
            said: String::new(),
            cores: machine::usable_cores(),
            failure: None,
        }
    }

    /// In what another process of the run must not differ, but does.
    pub(super) fn difference(&self, other: &Hello) -> Option<String> {
        if self.version != other.version {
            return Some(format!(
                "is busbw {}, and rank 0 on {} is busbw {}: install one version on all hosts",
                other.version, self.host, self.version
            ));
        }
        let count = self.words.len().max(other.words.len());
        let word = |words: &[String], at: usize| match words.get(at) {
            Some(word) => format!("\"{}\"", busbw_store::masked(word)),
            None => "nothing".to_owned(),
        };
        let at = (0..count).find(|at| self.words.get(*at) != other.words.get(*at))?;
        Some(format!(
            "was started with {} where rank 0 on {} has {}: start all with the same words",
            word(&other.words, at),
            self.host,
            word(&self.words, at)
        ))
    }
}
