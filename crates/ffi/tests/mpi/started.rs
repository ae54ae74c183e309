//! What the launcher of a test says in variables. Not what MPI says.

use busbw_ffi::mpi::{Launcher, Started};

/// By the names that Open MPI's mpirun and Hydra set; none of a process that neither started.
pub fn started() -> Option<Started> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let open = number("OMPI_COMM_WORLD_RANK").zip(number("OMPI_COMM_WORLD_SIZE"));
    let hydra = number("PMI_RANK").zip(number("PMI_SIZE"));
    let of = |by: Launcher| move |(rank, ranks): (usize, usize)| Started { by, rank, ranks };
    open.map(of(Launcher::OpenMpi)).or(hydra.map(of(Launcher::Hydra)))
}
