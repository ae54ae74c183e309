//! The facts about the transports of a process's messages through MPI, and the source of each.
//! Not how they were read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CaptureDisabled;

/// The facts that the MPI library of one process logged; an absent field was not logged. The last
/// one of a rank counts: libraries name a peer's transport at the first message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MpiFacts {
    /// World rank of the process.
    pub rank: usize,
    /// The first line of MPI_Get_library_version.
    #[serde(default)]
    pub version: String,
    /// MPICH's device, by its MPI_Get_library_version, such as `ch4:ucx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Open MPI's PML, by its log, such as `ob1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pml: Option<String>,
    /// Open MPI's BTLs, by its log, such as `vader`: the first and last of each run of world ranks that
    /// messages go to over it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub btls: BTreeMap<String, Vec<[u32; 2]>>,
    /// The facts in UCX's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ucx: Option<Ucx>,
    /// What is unknown about the transports, and why: half-sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Distinct names and endpoints beyond those that are kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// The facts in UCX's log of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ucx {
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The kinds of endpoints that it created.
    pub endpoints: Vec<Endpoint>,
}

/// One kind of UCX's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// `self`, `intra-node` or `inter-node`, where UCX logs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Its lanes, such as `sysv/memory` or `rc_mlx5/mlx5_0:1`, by purpose: `tag`, `am`, `rma`.
    pub lanes: BTreeMap<String, Vec<String>>,
}

impl Endpoint {
    /// Its lanes for messages: tag lanes, else those for active messages.
    pub fn for_messages(&self) -> &[String] {
        self.lanes.get("tag").or_else(|| self.lanes.get("am")).map_or(&[], Vec::as_slice)
    }

    /// Whether it leads to the process itself.
    pub fn is_to_itself(&self) -> bool {
        match self.to.as_deref() {
            Some(to) => to == "self",
            None => self.for_messages().iter().any(|lane| lane.starts_with("self/")),
        }
    }
}

impl MpiFacts {
    /// Whether messages to a world rank go over a BTL.
    pub fn reaches(&self, peer: usize, btl: &str) -> bool {
        let ranges = self.btls.get(btl).map_or(&[][..], Vec::as_slice);
        ranges.iter().any(|[first, last]| (*first as usize..=*last as usize).contains(&peer))
    }

    /// How many other ranks messages go to over a BTL.
    pub fn connections(&self, btl: &str) -> u64 {
        let length =
            |[first, last]: &[u32; 2]| (u64::from(*last) + 1).saturating_sub((*first).into());
        let all: u64 = self.btls.get(btl).map_or(0, |ranges| ranges.iter().map(length).sum());
        all - u64::from(self.reaches(self.rank, btl))
    }

    /// UCX's endpoints to other processes.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.ucx.iter().flat_map(|ucx| &ucx.endpoints).filter(|endpoint| !endpoint.is_to_itself())
    }

    /// Whether UCX carries everything: it is Open MPI's PML.
    pub fn is_all_ucx(&self) -> bool {
        self.pml.as_deref() == Some("ucx")
    }
}

/// The device that a text of MPI_Get_library_version names.
pub(super) fn device(version: &str) -> Option<String> {
    let named = version.lines().find_map(|line| line.strip_prefix("MPICH Device:"))?;
    let word = named.split_whitespace().next()?;
    (word.len() <= 64).then(|| word.to_owned())
}

/// What is unknown, and why.
pub(super) fn unknown(facts: &MpiFacts, alone: bool, disabled: &CaptureDisabled) -> Vec<String> {
    let or =
        |reason: &Option<String>, text: &str| reason.clone().unwrap_or_else(|| text.to_owned());
    let mut unknown = Vec::new();
    let mut by_ucx = facts.is_all_ucx();
    match (&facts.device, facts.pml.as_deref()) {
        (Some(device), _) if device == "ch4:ucx" => {
            by_ucx = true;
            if !alone {
                let text = "within a host MPICH's own shared memory may take messages before UCX sees them, \
                            and no log line shows it";
                unknown.push(text.to_owned());
            }
        }
        (Some(device), _) => {
            unknown.push(format!("no log line names the transport of MPICH's device {device}"))
        }
        (None, Some("ob1")) if facts.btls.keys().all(|btl| facts.connections(btl) == 0) => {
            unknown.push(or(&disabled.open_mpi, "Open MPI named no BTL to another rank"));
        }
        (None, Some("ob1" | "ucx")) => {}
        (None, Some(pml)) => {
            unknown.push(format!("no log line names the transport of Open MPI's PML {pml}"))
        }
        (None, None) if facts.version.starts_with("Open MPI") => {
            unknown.push(or(&disabled.open_mpi, "Open MPI named no PML"));
        }
        (None, None) => unknown.push(format!("no log line of {} names a transport", facts.version)),
    }
    if by_ucx && facts.endpoints().next().is_none() {
        unknown.push(or(&disabled.ucx, "UCX named no lanes to another process"));
    }
    unknown
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
