//! The report of NCCL's RAS: which ranks of each communicator launched how many collectives, and who does not answer.
//! Not the connection to RAS (`busbw-ras-client`), and not RAS's lines in NCCL's log (`nccl::ras`).
//!
//! JSON is that of NCCL 2.28.7 to 2.32.3 (format strings of their libraries, src/ras/client_support.cc). Counts are of what was
//! launched on the host, not of what is over on the GPU; sends and receives are not counted. Text, which older releases write,
//! is recognised and refused: it names only some of the ranks.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The most ranks of a report that are kept.
const MAX_RANKS: usize = 1 << 20;

/// A report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasReport {
    /// Such as `2.32.3`.
    pub nccl_version: String,
    /// The job's communicators.
    pub communicators: Vec<RasCommunicator>,
    /// How RAS fared.
    pub ras: RasConduct,
}

/// How RAS fared while it collected a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasConduct {
    /// Answers that did not come in time.
    pub timeouts_count: u64,
}

/// A communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasCommunicator {
    /// `0xae94423cfbb2ef4a`.
    pub hash: String,
    /// Tells apart communicators of the same hash.
    pub secondary_hash: String,
    /// Its ranks in all.
    pub size: u32,
    /// Those that answered.
    pub ranks: Vec<RasRank>,
    /// Those that did not.
    pub missing_ranks: Vec<RasMissing>,
}

/// A rank that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasRank {
    /// In the communicator.
    pub rank: u32,
    /// Its host's address.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its state.
    pub status: RasStatus,
    /// Collectives that it launched, by NCCL's name.
    pub collective_counts: BTreeMap<String, u64>,
}

/// The state of a rank that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasStatus {
    /// An `ncclResult_t`: of an error that NCCL met in the background; 7 is in progress.
    pub async_error: i64,
    /// It is ending in order.
    pub finalize_called: bool,
    /// It was told to give up.
    pub abort_flag: bool,
}

/// A rank that did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasMissing {
    /// In the communicator.
    pub rank: u32,
    /// Its host's address.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Why it did not.
    pub status: RasAbsence,
}

/// Why a rank did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RasAbsence {
    /// It gave no answer in time.
    pub unresponsive: bool,
    /// It gave none for a minute: RAS has given it up.
    pub considered_dead: bool,
}

impl RasReport {
    /// Whether a file that begins so is a report.
    pub fn is_one(head: &[u8]) -> bool {
        let has = |word: &str| memchr::memmem::find(head, word.as_bytes()).is_some();
        match head.trim_ascii_start().first() {
            Some(b'{') => has("\"communicators_count\"") && has("\"nccl_version\""),
            _ => has("Communicators...") && has("Job summary"),
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(bytes: &[u8]) -> Result<RasReport, String> {
        let report: RasReport = match bytes.trim_ascii_start().first() {
            None => return Err("it is empty".to_owned()),
            Some(b'{') => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
            _ => {
                let why = "it is RAS's text: busbw reads RAS's JSON, which NCCL has from 2.28.7 on (ncclras -f json)";
                return Err(why.to_owned());
            }
        };
        let ranks = |one: &RasCommunicator| one.ranks.len() + one.missing_ranks.len();
        if report.communicators.iter().map(ranks).sum::<usize>() > MAX_RANKS {
            return Err(format!("it has more than {MAX_RANKS} ranks"));
        }
        Ok(report)
    }
}

impl RasCommunicator {
    /// What tells it from others.
    pub fn id(&self) -> String {
        match self.secondary_hash.as_str() {
            "" => self.hash.clone(),
            second => format!("{} {second}", self.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use proptest::prelude::*;

    use super::*;

    const JSON: &str = r#"{ "nccl_version": "2.32.3", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
      "timestamp": "2026-11-23 13:06:53", "communicators_count": 1, "communicators": [ { "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0x1:0x2", "size": 2, "ranks_count": 1, "missing_ranks_count": 1, "ranks": [ { "rank": 0,
      "host": "172.16.64.245", "pid": 1524344, "cuda_dev": 0, "nvml_dev": 0, "status": { "init_state": 0, "async_error": 0,
      "finalize_called": false, "destroy_flag": false, "abort_flag": false }, "collective_counts": { "Broadcast": 0,
      "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": 7 } } ], "missing_ranks": [ { "rank": 1, "host": "b",
      "pid": 1, "cuda_dev": 1, "nvml_dev": 1, "status": { "unresponsive": true, "considered_dead": false } } ] } ],
      "ras": { "collection_time_sec": 0.000, "timeouts_count": 0 } }"#;

    #[test]
    fn json_of_2_32() {
        assert!(RasReport::is_one(JSON.as_bytes()));
        let report = RasReport::parse(JSON.as_bytes()).unwrap();
        let one = &report.communicators[0];
        assert_eq!((one.size, one.ranks[0].pid), (2, 1_524_344));
        assert_eq!(one.ranks[0].collective_counts["AllReduce"], 7);
        assert!(one.missing_ranks[0].status.unresponsive);
    }

    #[test]
    fn damaged_ones() {
        for end in 0..JSON.len() {
            assert!(RasReport::parse(&JSON.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(RasReport::parse(JSON.replace("\"size\": 2", "\"size\": -2").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = RasReport::is_one(&bytes);
            let _ = RasReport::parse(&bytes);
        }
    }
}
