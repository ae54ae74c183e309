//! What NCCL, MPI and UCX print of themselves, and what any program of a job prints when it fails, read into
//! facts that go into a record.
//! Not who captures the output, not benchmark tables (`busbw-logs`), and not what the facts mean.
#![forbid(unsafe_code)]

/// What failed in a run, by its log: incidents, and the one that caused the others.
pub mod failure;
/// What MPI and UCX say of who carries messages.
pub mod mpi;
/// What NCCL and RCCL say of themselves.
pub mod nccl;
/// What NCCL's RAS reports of a job.
pub mod ras;
