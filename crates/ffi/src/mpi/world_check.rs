//! Whether the processes that a launcher started are one MPI_COMM_WORLD, or each a world of its
//! own: compares the launcher's numbers with MPI's.
//! Not how either is read.

use std::fmt;

use super::library::Implementation;

/// The launcher of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// Open MPI's mpirun (OMPI_COMM_WORLD_SIZE).
    OpenMpi,
    /// MPICH's mpiexec.hydra or one of its family (PMI_SIZE).
    Hydra,
    /// srun (SLURM_NTASKS).
    Slurm,
    /// Another one, such as torchrun, which starts processes without MPI.
    Other,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi => "Open MPI's mpirun",
            Launcher::Hydra => "MPICH's mpiexec",
            Launcher::Slurm => "srun",
            Launcher::Other => "the launcher",
        })
    }
}

/// This process in the launcher's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The launcher.
    pub by: Launcher,
    /// This process's number.
    pub rank: usize,
    /// The number of processes that it started.
    pub ranks: usize,
}

/// This process in MPI's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The library's family.
    pub implementation: Implementation,
    /// The library's file.
    pub path: String,
    /// This process's rank in MPI_COMM_WORLD.
    pub rank: usize,
    /// Its size.
    pub ranks: usize,
}

/// The result of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// They agree, or there is no launcher and no other rank.
    Whole,
    /// The launcher started several processes, and each is alone in MPI: copies instead of ranks.
    Alone(Started, Joined),
    /// MPI has several ranks, but not those of the launcher.
    Other(Started, Joined),
}

impl Meeting {
    /// Compares the two.
    pub fn of(started: Option<Started>, joined: Joined) -> Meeting {
        match started {
            Some(s) if joined.ranks == 1 && s.ranks > 1 => Meeting::Alone(s, joined),
            Some(s) if (s.rank, s.ranks) != (joined.rank, joined.ranks) => {
                Meeting::Other(s, joined)
            }
            _ => Meeting::Whole,
        }
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meeting::Whole => f.write_str("launcher and MPI agree"),
            Meeting::Alone(started, joined) => {
                write!(
                    f,
                    "{} started {} processes, and {} ({}) says that each is alone, rank 0 of 1: {} copies instead \
                     of {} ranks. {}",
                    started.by,
                    started.ranks,
                    joined.implementation,
                    joined.path,
                    started.ranks,
                    started.ranks,
                    cure(started.by, joined.implementation)
                )
            }
            Meeting::Other(started, joined) => write!(
                f,
                "{} calls this process rank {} of {}, and {} ({}) calls it rank {} of {}: variables of one job were \
                 passed on to another. Start busbw from a shell without them (env | grep -E 'OMPI|PMI|SLURM')",
                started.by,
                started.rank,
                started.ranks,
                joined.implementation,
                joined.path,
                joined.rank,
                joined.ranks
            ),
        }
    }
}

/// The remedy for processes that are alone.
fn cure(launcher: Launcher, implementation: Implementation) -> String {
    let of_open_mpi = implementation == Implementation::OpenMpi;
    match launcher {
        Launcher::OpenMpi if !of_open_mpi => format!(
            "{implementation}'s library under Open MPI's mpirun: name Open MPI's library with --mpi, or start with \
             {implementation}'s mpiexec"
        ),
        Launcher::Hydra if of_open_mpi => {
            "Open MPI's library under MPICH's mpiexec: name MPICH's library with --mpi, or start with Open MPI's mpirun"
                .to_owned()
        }
        Launcher::OpenMpi | Launcher::Hydra => {
            "The launcher is of another installation than the library: name the library beside the launcher with --mpi"
                .to_owned()
        }
        Launcher::Slurm if of_open_mpi => {
            "srun did not offer what Open MPI asks for: try srun --mpi=pmix, or mpirun inside of salloc; if another MPI was \
             meant, name its library with --mpi"
                .to_owned()
        }
        Launcher::Slurm => {
            format!(
                "srun did not offer what {implementation} asks for: try srun --mpi=pmi2, or mpiexec inside of salloc; if \
                 another MPI was meant, name its library with --mpi"
            )
        }
        Launcher::Other => "This launcher does not start MPI: start busbw with the MPI's own mpirun or mpiexec".to_owned(),
    }
}

/// Whether the (rank, size) pairs of all processes of a launcher are one world: each rank once.
///
/// # Errors
/// They are not: what is wrong.
pub fn one_world(said: &[(usize, usize)]) -> Result<(), String> {
    let processes = said.len();
    if processes > 1 && said.iter().all(|one| *one == (0, 1)) {
        return Err(format!(
            "{processes} copies instead of {processes} ranks: each process is alone in MPI_COMM_WORLD"
        ));
    }
    if let Some((_, size)) = said.iter().find(|(_, size)| *size != processes) {
        return Err(format!("{processes} processes take part, and MPI counts {size} ranks"));
    }
    let mut ranks: Vec<usize> = said.iter().map(|(rank, _)| *rank).collect();
    ranks.sort_unstable();
    match ranks.iter().enumerate().find(|(want, rank)| want != *rank) {
        Some((want, _)) => {
            Err(format!("of {processes} processes none, or more than one, is rank {want}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(implementation: Implementation, rank: usize, ranks: usize) -> Joined {
        Joined { implementation, path: "/usr/lib/libmpi.so".to_owned(), rank, ranks }
    }

    fn started(by: Launcher, rank: usize, ranks: usize) -> Option<Started> {
        Some(Started { by, rank, ranks })
    }

    #[test]
    fn the_wrong_launcher() {
        let (open, mpich) = (Implementation::OpenMpi, Implementation::Mpich);
        for (launcher, library, words) in [
            (Launcher::OpenMpi, mpich, "MPICH's library under Open MPI's mpirun"),
            (Launcher::Hydra, open, "Open MPI's library under MPICH's mpiexec"),
            (Launcher::Slurm, open, "srun --mpi=pmix"),
            (Launcher::Slurm, mpich, "srun --mpi=pmi2"),
            (Launcher::Hydra, Implementation::Intel, "another installation"),
            (Launcher::Other, open, "does not start MPI"),
        ] {
            let meeting = Meeting::of(started(launcher, 2, 4), joined(library, 0, 1));
            assert!(matches!(meeting, Meeting::Alone(..)));
            let said = meeting.to_string();
            assert!(said.contains("4 copies instead of 4 ranks") && said.contains(words), "{said}");
        }
    }

    #[test]
    fn agreement_and_other_jobs() {
        let open = Implementation::OpenMpi;
        assert_eq!(Meeting::of(None, joined(open, 0, 1)), Meeting::Whole);
        assert_eq!(Meeting::of(started(Launcher::Slurm, 0, 1), joined(open, 0, 1)), Meeting::Whole);
        assert_eq!(
            Meeting::of(started(Launcher::OpenMpi, 1, 2), joined(open, 1, 2)),
            Meeting::Whole
        );
        let other = Meeting::of(started(Launcher::Slurm, 0, 1), joined(open, 1, 2));
        assert!(other.to_string().contains("rank 0 of 1, and Open MPI"), "{other}");
    }

    #[test]
    fn worlds() {
        assert_eq!(one_world(&[(0, 1)]), Ok(()));
        assert_eq!(one_world(&[(1, 3), (0, 3), (2, 3)]), Ok(()));
        let of = |said: &[(usize, usize)]| one_world(said).unwrap_err();
        assert!(of(&[(0, 1), (0, 1)]).contains("2 copies instead of 2 ranks"));
        assert!(of(&[(0, 2), (1, 2), (0, 2), (1, 2)]).contains("counts 2 ranks"));
        assert!(of(&[(0, 2), (0, 2)]).contains("rank 1"));
    }

    proptest! {
        #[test]
        fn only_a_permutation_is_one_world(said in prop::collection::vec((0_usize..4, 1_usize..5), 1..5)) {
            let n = said.len();
            let whole = (0..n).all(|rank| said.iter().filter(|one| **one == (rank, n)).count() == 1);
            prop_assert_eq!(one_world(&said).is_ok(), whole);
        }
    }
}
