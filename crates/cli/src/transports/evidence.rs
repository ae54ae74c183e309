//! Which transport ran: what NCCL's log names and what devices counted, judged against what was asked for.
//! Two witnesses, each of whom says only what it saw: `log` and `counters`.

use busbw_core::{plan::BackendChoice, record::Folded};
use serde::{Deserialize, Serialize};

use super::{
    counters, log,
    moved::Moved,
    profile::{Profile, Scope, Way},
};

/// What was asked for, and what is known of what ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// What was asked for.
    pub asked: String,
    /// Between which ranks.
    pub scope: Scope,
    /// What ran, in NCCL's words; empty where nothing did.
    pub found: String,
    /// The judgement.
    pub verdict: Verdict,
    /// What NCCL's log says.
    pub log: Witness,
    /// What counters say.
    pub counters: Witness,
    /// The rule by which NCCL chose another, or why nothing is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Bytes, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Percent of the limit at the largest size, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Percent>,
}

/// Percent of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Percent {
    /// So much of it.
    Known(f64),
    /// Why it is not known.
    Unknown(String),
}

/// One witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Whether it speaks for what was asked for, against it, or neither.
    pub says: Says,
    /// Its words.
    pub words: String,
}

/// For or against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// It was this.
    Yes,
    /// In part.
    Partly,
    /// It was not.
    No,
    /// It cannot tell.
    Silent,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It ran, and a witness says so.
    Proven,
    /// Some ranks used it, others another.
    Mixed,
    /// NCCL took another.
    Replaced,
    /// The witnesses contradict each other.
    Doubted,
    /// Nobody says anything.
    Unproven,
}

impl Verdict {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Proven => "proven",
            Verdict::Mixed => "mixed",
            Verdict::Replaced => "REPLACED",
            Verdict::Doubted => "DOUBTED",
            Verdict::Unproven => "unproven",
        }
    }
}

impl Transport {
    /// Judges an environment's launches.
    pub fn judge(profile: &Profile, records: &[&Folded], nodes: usize) -> Transport {
        let moved = Moved::of(records, profile.scope, nodes);
        let (found, log) = match &profile.way {
            Way::Host => own_memory(records),
            _ => log::heard(profile, records, nodes),
        };
        let counters = moved.as_ref().map_or_else(
            || Witness::silent("no counters"),
            |moved| counters::counted(&profile.way, profile.scope, moved),
        );
        let verdict = match (log.says, counters.says) {
            (Says::Yes, Says::No) => Verdict::Doubted,
            (Says::Yes, _) | (Says::Silent, Says::Yes) => Verdict::Proven,
            (Says::Partly, _) => Verdict::Mixed,
            (Says::No, Says::Yes) | (Says::Silent, Says::No) => Verdict::Doubted,
            (Says::No, _) => Verdict::Replaced,
            (Says::Silent, _) => Verdict::Unproven,
        };
        let why = match verdict {
            Verdict::Replaced | Verdict::Mixed => rule(&profile.way, &found),
            Verdict::Unproven => Some(format!("{}; {}", log.words, counters.words)),
            Verdict::Doubted => Some(format!("NCCL's log: {}; {}", log.words, counters.words)),
            Verdict::Proven => None,
        };
        let (asked, scope) = (profile.name().to_owned(), profile.scope);
        Transport { asked, scope, found, verdict, log, counters, why, moved, limit: None }
    }

    /// Who proved it: `log`, `counters`, both.
    pub fn by(&self) -> String {
        let log = (self.log.says == Says::Yes).then_some(match self.asked.as_str() {
            "shm" if self.found == OWN => "busbw itself",
            _ => "log",
        });
        let counters = (self.counters.says == Says::Yes).then(|| self.counters.words.clone());
        let named = [log.map(str::to_owned), counters];
        let named: Vec<String> = named.into_iter().flatten().collect();
        if named.is_empty() { "-".to_owned() } else { named.join(" + ") }
    }
}

impl Witness {
    /// One that cannot tell, and why.
    pub(super) fn silent(words: &str) -> Witness {
        Witness { says: Says::Silent, words: words.to_owned() }
    }
}

/// What the host backend uses.
const OWN: &str = "shared memory";

/// The host backend is this program: it knows what it does.
fn own_memory(records: &[&Folded]) -> (String, Witness) {
    let host = |record: &&&Folded| record.run.plan.backend == BackendChoice::Host;
    if records.iter().filter(host).count() == records.len() && !records.is_empty() {
        let words = "the host backend has nothing else".to_owned();
        return (OWN.to_owned(), Witness { says: Says::Yes, words });
    }
    (String::new(), Witness::silent("a cost model: nothing moves"))
}

/// By which rule NCCL took another way.
fn rule(way: &Way, found: &str) -> Option<String> {
    let has = |word: &str| found.contains(word);
    let text = match way {
        Way::Socket(_) if has("NET/IB") => {
            "IB or RoCE wins over sockets, whatever NCCL_SOCKET_IFNAME says: it names the interface of sockets, and does not choose them"
        }
        Way::Socket(_) if has("NET/Socket") => {
            "without IB the fastest interface wins, unless exactly one is named"
        }
        Way::Socket(_) | Way::Rdma { .. } if has("NET/") => {
            "a net plugin wins over NCCL's own networks, unless NCCL_NET names one of these"
        }
        Way::Plugin(_) if has("NET/") => {
            "a plugin that does not load, or finds no device, is passed over: then IB or RoCE, then sockets"
        }
        Way::Socket(_) | Way::Rdma { .. } | Way::Plugin(_) => {
            "within a node P2P wins over SHM, and SHM over the network"
        }
        Way::Shm if has("P2P") => "within a node P2P wins over SHM",
        Way::P2p | Way::Shm if has("SHM") || has("NET/") => {
            "what a pair of ranks cannot have is passed over: P2P without peer access, SHM without a common /dev/shm; then the next way is taken"
        }
        Way::Nvls | Way::CollNet => {
            "what a communicator has not set up is passed over, and rings and trees stay"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_who_wins() {
        let eno2 = Way::Socket("eno2".to_owned());
        assert!(rule(&eno2, "NET/IB/GDRDMA (mlx5_0)").unwrap().starts_with("IB or RoCE wins"));
        assert!(rule(&eno2, "P2P/CUMEM").unwrap().starts_with("within a node P2P"));
        assert!(rule(&Way::P2p, "SHM/direct").unwrap().contains("peer access"));
        assert_eq!(rule(&Way::Default, "x"), None);
    }
}
