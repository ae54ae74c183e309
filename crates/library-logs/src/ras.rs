//! The report of NCCL's RAS: which ranks of each communicator launched how many collectives, and who does not answer.
//! Not the connection to RAS (`busbw-ras-client`), and not RAS's lines in NCCL's log (`nccl::ras`).
//!
//! JSON is that of NCCL 2.28.7 to 2.32.3 (format strings of their libraries, src/ras/client_support.cc). Counts are of what was
//! launched on the host, not of what is over on the GPU; sends and receives are not counted. Text, which older releases write,
//! is recognised and refused: it names only some of the ranks.
//!
//! 2.28.7 and 2.28.9 print no comma between `nvml_dev` and `status` of a missing rank (jsonWriteMissingRank); 2.29 does. That comma is put in,
//! and nothing else: every other list and object of the printer is well formed from 2.28.7 to 2.30.7, the empty ones too. Where RAS does not know
//! a rank's process it prints the host `unknown` and the pid -1.

use std::{borrow::Cow, collections::BTreeMap};

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
    /// Its host's address. Empty: RAS does not know it.
    #[serde(deserialize_with = "host")]
    pub host: String,
    /// Its process; none where RAS does not know it.
    #[serde(deserialize_with = "pid")]
    pub pid: Option<u32>,
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
    /// Its host's address. Empty: RAS does not know it.
    #[serde(deserialize_with = "host")]
    pub host: String,
    /// Its process; none where RAS does not know it.
    #[serde(deserialize_with = "pid")]
    pub pid: Option<u32>,
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
            Some(b'{') => serde_json::from_slice(bytes).or_else(|error| {
                // The error is that of what was read: the repaired text has other columns.
                match with_comma(bytes) {
                    Cow::Owned(whole) => {
                        serde_json::from_slice(&whole).map_err(|_| error.to_string())
                    }
                    Cow::Borrowed(_) => Err(error.to_string()),
                }
            })?,
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

/// The text with the comma that 2.28 leaves out: between `"nvml_dev": N` and `"status"` with nothing but white space between them.
fn with_comma(bytes: &[u8]) -> Cow<'_, [u8]> {
    const BEFORE: &[u8] = b"\"nvml_dev\":";
    const BEHIND: &[u8] = b"\"status\":";
    let mut whole = Vec::new();
    let mut copied = 0;
    for at in memchr::memmem::find_iter(bytes, BEFORE) {
        let value = bytes.get(at + BEFORE.len()..).unwrap_or_default().trim_ascii_start();
        let rest = value.strip_prefix(b"-").unwrap_or(value);
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = rest.get(digits..).unwrap_or_default();
        if digits > 0 && rest.trim_ascii_start().starts_with(BEHIND) {
            let end = bytes.len() - rest.len();
            whole.extend_from_slice(bytes.get(copied..end).unwrap_or_default());
            whole.push(b',');
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(bytes);
    }
    whole.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Cow::Owned(whole)
}

/// `unknown`, which no address is, is what RAS prints of a process that it does not know.
fn host<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    Ok(if name == "unknown" { String::new() } else { name })
}

/// -1 is what RAS prints of a process that it does not know.
fn pid<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match i64::deserialize(from)? {
        -1 => Ok(None),
        pid => u32::try_from(pid).map(Some).map_err(serde::de::Error::custom),
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
        assert_eq!((one.size, one.ranks[0].pid), (2, Some(1_524_344)));
        assert_eq!(one.ranks[0].collective_counts["AllReduce"], 7);
        assert!(one.missing_ranks[0].status.unresponsive);
    }

    /// As `rasDumpCommsToJSON` of 2.28.9 prints a communicator of four ranks; 2.29 with the comma.
    fn printed(version: &str, comma: &str, ranks: &[&str], missing: &[&str]) -> String {
        let whole = [ranks.join(",\n"), missing.join(",\n")];
        format!(
            "{{\n  \"nccl_version\": \"{version}\",\n  \"cuda_runtime_version\": 13000,\n  \"cuda_driver_version\": 13000,\n  \
             \"timestamp\": \"2026-11-27 16:58:48\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n    {{\n      \
             \"hash\": \"0x9eb7c0b4cab9bad4\",\n      \"secondary_hash\": \"0x1:0x2\",\n      \"size\": 4,\n      \
             \"ranks_count\": {},\n      \"missing_ranks_count\": {},\n      \"ranks\": [\n{}\n      ],\n      \
             \"missing_ranks\": [\n{}\n      ]\n    }}\n  ],\n  \"ras\": {{\n    \"collection_time_sec\": 0.001,\n    \
             \"timeouts_count\": 0\n  }}\n}}\n",
            ranks.len(),
            missing.len(),
            whole[0],
            whole[1].replace("@", comma)
        )
    }

    const RANK: &str = "        {\n          \"rank\": 0,\n          \"host\": \"192.0.2.2\",\n          \"pid\": 40294,\n          \"cuda_dev\": 0,\n          \"nvml_dev\": 0,\n          \"status\": {\n            \"init_state\": 0,\n            \"async_error\": 0,\n            \"finalize_called\": false,\n            \"destroy_flag\": false,\n            \"abort_flag\": false\n          },\n          \"collective_counts\": {\n            \"Broadcast\": 0,\n            \"Reduce\": 0,\n            \"AllGather\": 0,\n            \"ReduceScatter\": 0,\n            \"AllReduce\": 8\n          }\n        }";
    const MISSING: &str = "        {\n          \"rank\": 2,\n          \"host\": \"192.0.2.2\",\n          \"pid\": 40296,\n          \"cuda_dev\": 2,\n          \"nvml_dev\": 2@\n          \"status\": {\n            \"unresponsive\": true,\n            \"considered_dead\": true\n          }\n        }";

    #[test]
    fn the_comma_that_2_28_leaves_out() {
        let other =
            MISSING.replace("\"rank\": 2", "\"rank\": 3").replace("dead\": true", "dead\": false");
        for (version, comma) in [("2.28.7", ""), ("2.28.9", ""), ("2.29.2", ","), ("2.30.7", ",")] {
            let text = printed(version, comma, &[RANK], &[MISSING, &other]);
            assert!(RasReport::is_one(text.as_bytes()));
            let report = RasReport::parse(text.as_bytes()).unwrap();
            let one = &report.communicators[0];
            assert_eq!(
                (one.ranks.len(), one.missing_ranks.len(), one.size),
                (1, 2, 4),
                "{version}"
            );
            let missing = &one.missing_ranks[0];
            assert_eq!((missing.rank, missing.pid), (2, Some(40296)));
            assert!(missing.status.considered_dead && missing.status.unresponsive);
            assert!(!one.missing_ranks[1].status.considered_dead);
        }
    }

    #[test]
    fn nothing_else_is_repaired() {
        let text = printed("2.28.9", "", &[RANK], &[MISSING]);
        for (from, to) in [
            ("\"cuda_dev\": 2,", "\"cuda_dev\": 2"),
            ("\"pid\": 40296,", "\"pid\": 40296"),
            ("\"size\": 4,", "\"size\": 4"),
            ("\"considered_dead\": true", "\"considered_dead\": true,"),
            ("\"nvml_dev\": 2", "\"nvml_dev\": "),
            ("\"nvml_dev\": 2", "\"nvml_dev\": 2 2"),
        ] {
            assert!(text.contains(from), "{from}");
            let damaged = text.replace(from, to);
            let error = RasReport::parse(damaged.as_bytes()).unwrap_err();
            assert!(error.contains("line"), "{to}: {error}");
        }
    }

    /// No list of the printer has a trailing comma, and an empty one is two brackets.
    #[test]
    fn empty_lists_and_processes_that_ras_does_not_know() {
        let unknown = MISSING.replace("192.0.2.2", "unknown").replace("40296", "-1");
        for comma in ["", ","] {
            let report =
                RasReport::parse(printed("2.28.9", comma, &[], &[&unknown]).as_bytes()).unwrap();
            let missing = &report.communicators[0].missing_ranks[0];
            assert_eq!((missing.host.as_str(), missing.pid), ("", None));
        }
        let whole = printed("2.28.9", "", &[RANK], &[]);
        assert!(
            RasReport::parse(whole.as_bytes()).unwrap().communicators[0].missing_ranks.is_empty()
        );
        let from = whole.find("    {\n      \"hash").unwrap();
        let to = whole.find("\n  ],\n  \"ras\"").unwrap();
        let none = format!("{}{}", &whole[..from], &whole[to..]);
        assert!(RasReport::parse(none.as_bytes()).unwrap().communicators.is_empty());
        let wrong = whole.replace("40294", "-2");
        assert!(RasReport::parse(wrong.as_bytes()).is_err());
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
