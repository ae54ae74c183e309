//! The processes of one job: who starts them, how they join, exchange a few bytes, and learn of a loss.
//! Not the data path, and not what ranks measure.

/// Hosts and how many processes each gets.
pub mod hosts;
/// What a launcher says of this process.
pub mod launched;
/// Who starts processes elsewhere.
pub mod launchers;
/// Many ranks and hosts in few words.
pub mod naming;
/// The limit on open files.
pub mod open_files;
/// How the processes of a launcher become one job.
pub mod rendezvous;
/// Who takes part, and how they find each other.
pub mod world;
