//! What is asked of a fabric.
//! Not how it is answered (`answer`).

use busbw_core::Collective;

use super::groups::Placement;
use super::job::{BadJob, Job};
use crate::fabric::shape::Unbuildable;
use crate::fabric::{BadFailure, Fabric, Failure};
use crate::prediction::NoPrediction;
use crate::tuning::Version;

/// A collective on a fabric, at some sizes, with failures.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The fabric.
    pub fabric: Fabric,
    /// The collective.
    pub collective: Collective,
    /// GPUs that take part.
    pub gpus: usize,
    /// Their groups: all groups of a dimension run the collective at once, one dimension after the other.
    pub job: Job,
    /// Where ranks run.
    pub placement: Placement,
    /// Sizes in bytes, as nccl-tests' size column has them.
    pub sizes: Vec<u64>,
    /// What is lost or slow.
    pub failures: Vec<Failure>,
    /// The release of NCCL that chooses.
    pub nccl: Version,
    /// Seed of the hash of ECMP.
    pub seed: u64,
    /// Connections of a pair of NICs that ECMP places one by one (NCCL's channels of a NIC × NCCL_IB_QPS_PER_CONNECTION).
    pub connections: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unanswerable {
    /// The fabric cannot be built.
    #[error("the fabric cannot be built: {}", .0.why)]
    Fabric(Unbuildable),
    /// A failure is none of this fabric.
    #[error(transparent)]
    Failure(#[from] BadFailure),
    /// The groups do not fit the GPUs.
    #[error(transparent)]
    Job(#[from] BadJob),
    /// More GPUs than the fabric has, or none.
    #[error("{asked} GPUs of a fabric that has {there}: ask for 2 to {there}")]
    Gpus {
        /// GPUs that were asked for.
        asked: usize,
        /// GPUs of the fabric.
        there: usize,
    },
    /// A collective that is not modelled.
    #[error(
        "{0} is not modelled on fabrics; all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, alltoallv, \
         sendrecv, gather, scatter and hypercube are"
    )]
    Collective(&'static str),
    /// A hypercube among these ranks.
    #[error("no forecast of hypercube: {0}")]
    HyperCube(String),
    /// Failures are counted for collectives whose bytes are all on their way at once.
    #[error(
        "how many may fail is not counted for {0}, whose steps follow one another over other links: ask what one failure costs, \
         without --target"
    )]
    Steps(&'static str),
    /// The GPUs' links within a host are not known.
    #[error("the machine's file does not say enough: {0}")]
    Machine(String),
    /// What the machines alone would do is not known.
    #[error("no forecast: {0}; write it into a machine file and name that in the fabric file")]
    Alone(#[from] NoPrediction),
    /// What links carry cannot be counted.
    #[error(
        "an alltoall among ranks that are spread unevenly over so many hosts is not counted link by link: fill whole hosts or \
         NVLink domains, or ask for fewer GPUs"
    )]
    Uncounted,
    /// Every number of failures would have to be simulated.
    #[error(
        "how many may fail is simulated where connections are hashed, and would take minutes for so many GPUs: ask for fewer, or \
         write routing = \"spray\", of which it is counted"
    )]
    TooLong,
    /// A failure leaves a host without a way.
    #[error(
        "after the failure a host is cut off from others: NCCL's own network has no other way for its NIC, and the job ends with \
         an error"
    )]
    CutOff,
}

impl Question {
    /// Every GPU of a fabric in one group, packed, with nothing lost, as the newest release that is known chooses.
    pub fn new(fabric: Fabric, collective: Collective, sizes: Vec<u64>) -> Question {
        let gpus = fabric.gpus();
        Question {
            fabric,
            collective,
            gpus,
            job: Job::all(gpus),
            placement: Placement::Packed,
            sizes,
            failures: Vec::new(),
            nccl: Version::last_of(*Version::KNOWN.end()),
            seed: 1,
            connections: 2,
        }
    }

    /// Of an alltoallv the alltoall that moves as many bytes: who sends more to whom is not known before a run.
    pub(super) fn uniform(&self) -> Option<Question> {
        let collective = Collective::AllToAll;
        let is_it = self.collective == Collective::AllToAllV;
        is_it.then(|| Question { collective, ..self.clone() })
    }

    /// The same for some of the GPUs, in one group.
    pub fn over(self, gpus: usize) -> Question {
        Question { gpus, job: Job::all(gpus), ..self }
    }
}
