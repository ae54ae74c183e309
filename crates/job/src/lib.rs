//! The processes of one job: who starts them, how they join, exchange a few bytes, and learn of a loss.
//! Not the data path, and not what ranks measure.
#![forbid(unsafe_code)]

mod frame;
/// Heartbeats, and how long a process may be silent.
pub mod heartbeat;
/// Hosts and how many processes each gets.
pub mod hosts;
/// What a launcher's variables say of this process.
pub mod launched;
/// The launchers: ssh, mpirun, srun.
pub mod launchers;
/// Ends processes that are stopped.
pub mod leftover;
/// How messages name many ranks and hosts.
pub mod naming;
/// The limit on open files.
pub mod open_files;
/// The rendezvous of a launcher's processes.
pub mod rendezvous;
mod stopped_parent;
/// The ranks of one run: allgather, barrier, reports, aborts.
pub mod world;
