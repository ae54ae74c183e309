//! The launcher that started this process, and where its MPI is installed: an MPI connects its
//! ranks only under its own launcher. Derived from variables and from the ancestors of this
//! process.
//! Nothing is run.

use std::path::{Path, PathBuf};

use super::{Candidate, Environment, Origin, below};

/// Families of MPI whose launchers do not start each other's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

/// A launcher above this process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Starter {
    family: Family,
    /// Folders of libraries beside it.
    pub(super) folders: Vec<PathBuf>,
}

/// The most ancestors of this process that are examined: busbw's supervisor, a shell, a wrapper or
/// two.
const MAX_ANCESTORS: usize = 8;

impl Starter {
    /// The nearest launcher among the ancestors; without one the launcher that variables name.
    pub(super) fn find(environment: &Environment, root: &Path) -> Option<Starter> {
        let set = |name: &str| environment.get(name).is_some();
        let programs = above(root);
        let mut programs = programs.iter().filter_map(|p| family_of_program(p).map(|f| (f, p)));
        let told = match programs.next() {
            Some((family, program)) => {
                Some((family, program.parent().and_then(Path::parent).map(Path::to_owned)))
            }
            // srun's PMI works with either family.
            None if set("OMPI_COMM_WORLD_SIZE") => Some((Family::OpenMpi, None)),
            None if set("PMI_SIZE") && !set("SLURM_STEP_ID") => Some((Family::Mpich, None)),
            None => None,
        };
        let (family, beside) = told?;
        // Variables with the installation folder: Open MPI's mpirun --prefix, Intel MPI.
        let variable = if family == Family::OpenMpi { "OPAL_PREFIX" } else { "I_MPI_ROOT" };
        let named = environment.get(variable).map(PathBuf::from);
        let triplet = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let folders = named.into_iter().chain(beside).flat_map(|prefix| {
            ["lib", "lib64", &triplet, "lib/release"].map(|folder| prefix.join(folder))
        });
        Some(Starter { family, folders: folders.collect() })
    }

    /// Moves copies of the other family to the end, behind those that can connect their ranks.
    pub(super) fn prefer(&self, candidates: &mut [Candidate]) {
        candidates.sort_by_key(|candidate| match candidate.origin {
            Origin::Named | Origin::Loaded => 0,
            _ if family_of_library(candidate).is_none_or(|family| family == self.family) => 1,
            _ => 2,
        });
    }
}

fn family_of_library(candidate: &Candidate) -> Option<Family> {
    let name = candidate.file.file_name()?.to_str()?;
    if candidate.symbols.iter().any(|symbol| symbol == "ompi_mpi_comm_self") {
        Some(Family::OpenMpi)
    } else if name.starts_with("libmpi_abi.") {
        None
    } else {
        Some(Family::Mpich)
    }
}

fn family_of_program(program: &Path) -> Option<Family> {
    match program.file_name()?.to_str()? {
        "orterun" | "orted" | "prterun" | "prted" | "prte" | "mpirun.openmpi"
        | "mpiexec.openmpi" => Some(Family::OpenMpi),
        "hydra_pmi_proxy" | "mpiexec.hydra" | "mpiexec.mpich" | "mpirun.mpich" => {
            Some(Family::Mpich)
        }
        _ => None,
    }
}

/// The programs of the processes above this one, the nearest first: proc_pid_stat(5), proc_pid_exe(5).
fn above(root: &Path) -> Vec<PathBuf> {
    let parent_of = |process: &str| {
        let stat = std::fs::read_to_string(root.join("proc").join(process).join("stat")).ok()?;
        // The name in parentheses may contain any character; the state and the parent follow it.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let mut programs = Vec::new();
    let mut process = parent_of("self");
    for _ in 0..MAX_ANCESTORS {
        let Some(number) = process.filter(|number| *number > 1) else { break };
        let number = number.to_string();
        let link = below(root, Path::new("/proc")).join(&number).join("exe");
        programs.extend(std::fs::read_link(link).ok());
        process = parent_of(&number);
    }
    programs
}
