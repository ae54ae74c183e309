//! What a process sends to join a run, and what must be equal in all processes of one.
//! Not its authentication (`authentication`).

use std::ffi::OsString;

use super::{JoinRequest, program_and_arguments};
use crate::launched::Launched;
use busbw_host::machine;

impl JoinRequest {
    /// The request of this process.
    pub fn of_this_process(launched: &Launched, args: &[OsString]) -> JoinRequest {
        JoinRequest {
            process: launched.rank,
            size: launched.size,
            pid: std::process::id(),
            host: machine::host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: program_and_arguments(args),
            backend: String::new(),
            tuner: String::new(),
            processes_of_host: launched.processes_of_host(),
            statement: String::new(),
            cores: machine::usable_cores(),
            failure: None,
        }
    }

    /// How the version or the command line of `other` differs from this one's.
    pub(super) fn difference(&self, other: &JoinRequest) -> Option<String> {
        if self.version != other.version {
            return Some(format!(
                "is busbw {}, and rank 0 on {} is busbw {}: install one version on all hosts",
                other.version, self.host, self.version
            ));
        }
        let count = self.arguments.len().max(other.arguments.len());
        let word = |words: &[String], at: usize| match words.get(at) {
            Some(word) => format!("\"{}\"", busbw_store::masked(word)),
            None => "nothing".to_owned(),
        };
        let at = (0..count).find(|at| self.arguments.get(*at) != other.arguments.get(*at))?;
        Some(format!(
            "was started with {} where rank 0 on {} has {}: start all processes with the same arguments",
            word(&other.arguments, at),
            self.host,
            word(&self.arguments, at)
        ))
    }

    /// How what the tuner of `other` chooses by differs from this one's. Ranks that choose otherwise than others hang,
    /// or corrupt each other's data.
    pub(super) fn other_tuner(&self, other: &JoinRequest) -> Option<String> {
        let said = |tuner: &str| match tuner {
            "" => "no BUSBW_TUNER".to_owned(),
            tuner => tuner.to_owned(),
        };
        (self.tuner != other.tuner).then(|| {
            format!(
                "has {}, and rank 0 on {} has {}: give all hosts the same file, and all processes the same value",
                said(&other.tuner),
                self.host,
                said(&self.tuner)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_tuner_is_named_with_both_values() {
        let request = |tuner: &str| JoinRequest {
            tuner: tuner.to_owned(),
            host: "a".to_owned(),
            ..JoinRequest::of_this_process(&Launched::planned(2, true), &["busbw".into()])
        };
        let (one, other) = (request("BUSBW_TUNER=/t#sha256=1"), request("BUSBW_TUNER=/t#sha256=2"));
        assert_eq!(one.other_tuner(&one), None);
        assert_eq!(request("").other_tuner(&request("")), None);
        let said = one.other_tuner(&other).unwrap();
        let begins = "has BUSBW_TUNER=/t#sha256=2, and rank 0 on a has BUSBW_TUNER=/t#sha256=1: ";
        assert!(said.starts_with(begins), "{said}");
        let said = one.other_tuner(&request("")).unwrap();
        assert!(said.starts_with("has no BUSBW_TUNER, and rank 0 on a has "), "{said}");
    }
}
