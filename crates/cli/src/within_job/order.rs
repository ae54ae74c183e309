//! One launch as process 0 orders it, and the environment of the child that runs a process's part of it.
//! Not who sends it (`leader`) and who runs it (`follower`).

use std::process::Command;

use busbw_core::environment::{COORDINATOR_FILE, JOB_SECRET, SWEPT, TERMINATION_LOG};
use serde::{Deserialize, Serialize};

/// Beginnings of the variables by which launchers number processes. A child must not take part in the launcher's own job:
/// its number is in RANK and WORLD_SIZE.
const LAUNCHERS: [&str; 9] = [
    "OMPI_",
    "PMIX_",
    "PMI_",
    "MPI_LOCAL",
    "SLURM_",
    "PALS_",
    "MV2_COMM_",
    "TORCHELASTIC_",
    "GROUP_",
];

/// A launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    /// The program's arguments, the same in every process.
    pub words: Vec<String>,
    /// Variables that are set, or removed where there is no value.
    pub variables: Vec<(String, Option<String>)>,
    /// This process's number in the job, and the number of processes.
    pub rank: usize,
    /// See `rank`.
    pub size: usize,
    /// The same on its host.
    pub local_rank: usize,
    /// See `local_rank`.
    pub local_size: usize,
    /// The port of this launch's rendezvous.
    pub port: u16,
    /// The secret that this launch's processes share.
    pub secret: String,
}

impl Order {
    /// Gives a child the environment of its part: process 0 is at `address`.
    pub(super) fn apply(&self, command: &mut Command, address: &str) {
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if LAUNCHERS.iter().any(|beginning| text.starts_with(beginning)) {
                command.env_remove(&name);
            }
        }
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        command.env(SWEPT, names.join(",")).env(JOB_SECRET, &self.secret);
        command.env("MASTER_ADDR", address).env("MASTER_PORT", self.port.to_string());
        // The address is the one that is reached, and the job's own process says in its pod how the job ends.
        command.env_remove(COORDINATOR_FILE).env(TERMINATION_LOG, "");
        for (name, number) in [
            ("RANK", self.rank),
            ("WORLD_SIZE", self.size),
            ("LOCAL_RANK", self.local_rank),
            ("LOCAL_WORLD_SIZE", self.local_size),
        ] {
            command.env(name, number.to_string());
        }
    }
}
