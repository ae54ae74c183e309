//! What a launcher's variables tell a process: its number among several, the job, and the coordinator's address.
//! Not the rendezvous itself (`rendezvous`).

mod coordinator;
mod hosts;
mod nodes;

use std::ops::Range;

use busbw_core::environment::{INTERFACE, JOB_SECRET};
use busbw_ffi::mpi::Launcher;

pub use self::coordinator::CoordinatorAddress;

/// One of a launcher's processes, by the launcher's variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The variables that give the number of processes and this one's number, as NAME=value.
    pub variables: String,
    /// This process's number, from 0.
    pub rank: usize,
    /// The number of processes; at least 2.
    pub size: usize,
    /// This process's number among those of its host.
    pub local_rank: Option<usize>,
    /// Processes on this host.
    pub local_size: Option<usize>,
    /// Whether all processes are on this host.
    pub one_host: bool,
    /// Whose launcher it is.
    pub by: Launcher,
    /// Identifies the job among all that this user may run at once; none where no variable does.
    pub job: Option<String>,
    /// A secret that only processes of the job know: BUSBW_JOB_SECRET, or the launcher's own.
    pub secret: Option<String>,
    /// Where workers on other hosts connect to the coordinator.
    pub coordinator: Option<CoordinatorAddress>,
    /// The host of every process, where a variable tells; else empty.
    pub hosts: Vec<String>,
    /// The interface of control connections: --interface, or BUSBW_INTERFACE.
    pub interface: Option<String>,
}

/// A launcher's variables. A name is empty where the launcher has none.
struct LauncherVariables {
    by: Launcher,
    size: &'static str,
    rank: &'static str,
    local_size: &'static str,
    local_rank: &'static str,
    /// Together they identify a job.
    job: &'static [&'static str],
}

/// The innermost launcher first: torchrun is started by others, mpirun and mpiexec by Slurm.
const LAUNCHERS: [LauncherVariables; 7] = [
    LauncherVariables {
        // torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers.
        by: Launcher::Other,
        size: "WORLD_SIZE",
        rank: "RANK",
        local_size: "LOCAL_WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        job: &["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"],
    },
    LauncherVariables {
        by: Launcher::OpenMpi,
        size: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        job: &["PMIX_NAMESPACE"],
    },
    LauncherVariables {
        // Hydra; Slurm with --mpi=pmi2 sets PMI_JOBID, too.
        by: Launcher::Hydra,
        size: "PMI_SIZE",
        rank: "PMI_RANK",
        local_size: "MPI_LOCALNRANKS",
        local_rank: "MPI_LOCALRANKID",
        job: &["PMI_JOBID"],
    },
    LauncherVariables {
        by: Launcher::Slurm,
        size: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        local_size: "",
        local_rank: "SLURM_LOCALID",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    LauncherVariables {
        by: Launcher::Hydra,
        size: "MV2_COMM_WORLD_SIZE",
        rank: "MV2_COMM_WORLD_RANK",
        local_size: "MV2_COMM_WORLD_LOCAL_SIZE",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        job: &[],
    },
    LauncherVariables {
        by: Launcher::Other,
        size: "PALS_SIZE",
        rank: "PALS_RANKID",
        local_size: "",
        local_rank: "PALS_LOCAL_RANKID",
        job: &["PALS_APID"],
    },
    // By hand, or another framework.
    LauncherVariables {
        by: Launcher::Other,
        size: "WORLD_SIZE",
        rank: "RANK",
        local_size: "LOCAL_WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        job: &["MASTER_ADDR", "MASTER_PORT"],
    },
];

impl Launched {
    /// Reads the variables through `lookup`; none for a process without a launcher, or in a job of one process.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Launched> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let number = |name: &str| lookup(name)?.trim().parse::<usize>().ok();
        let names = innermost(lookup)?;
        let (size, rank) = (number(names.size)?, number(names.rank)?);
        if size < 2 {
            return None;
        }
        let slurm = names.rank == "SLURM_PROCID" || names.job == ["PMI_JOBID"];
        let nodes = if slurm { number("SLURM_STEP_NUM_NODES") } else { None };
        let job: Option<Vec<String>> = names.job.iter().map(|name| lookup(name)).collect();
        let secret = lookup(JOB_SECRET).or_else(|| lookup("OMPI_MCA_orte_precondition_transports"));
        Some(Launched {
            variables: format!("{}={size}, {}={rank}", names.size, names.rank),
            rank,
            size,
            local_rank: number(names.local_rank)
                .or_else(|| if slurm { number("SLURM_LOCALID") } else { None })
                .or_else(|| number("LOCAL_RANK")),
            local_size: number(names.local_size),
            by: names.by,
            one_host: nodes == Some(1) || number(names.local_size) == Some(size),
            job: job.filter(|parts| !parts.is_empty()).map(|parts| parts.join(" ")),
            secret,
            coordinator: CoordinatorAddress::read(names.by, lookup),
            hosts: hosts::of_ours(size, lookup)
                .or_else(|| hosts::of_slurm(size, lookup).filter(|_| slurm))
                .unwrap_or_default(),
            interface: lookup(INTERFACE).map(|word| word.trim().to_owned()),
        })
    }

    /// What process 0 of a job that is not started yet will read.
    pub fn planned(size: usize, one_host: bool) -> Launched {
        Launched {
            variables: format!("{size} processes of --launcher or -H"),
            rank: 0,
            size,
            local_rank: Some(0),
            local_size: one_host.then_some(size),
            one_host,
            by: Launcher::Other,
            job: None,
            secret: None,
            coordinator: None,
            hosts: Vec::new(),
            interface: None,
        }
    }

    /// The numbers of all processes of this host, if the launcher numbers them host by host.
    pub fn processes_of_host(&self) -> Option<Range<usize>> {
        let (place, count) = (self.local_rank?, self.local_size?);
        let first = self.rank.checked_sub(place)?;
        (place < count && first + count <= self.size).then(|| first..first + count)
    }

    /// The variable by which a launcher tells that this is its only process, as NAME=value.
    pub fn sole_process(lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
        let names = innermost(&lookup)?;
        let size = lookup(names.size)?;
        (size.trim() == "1").then(|| format!("{}=1", names.size))
    }
}

/// The innermost launcher whose variables give the number of processes and this one's number.
fn innermost(lookup: impl Fn(&str) -> Option<String>) -> Option<&'static LauncherVariables> {
    let is_number = |name: &str| lookup(name).is_some_and(|n| n.trim().parse::<usize>().is_ok());
    LAUNCHERS.iter().find(|names| {
        let elastic = names.job.first() != Some(&"TORCHELASTIC_RUN_ID")
            || lookup("TORCHELASTIC_RUN_ID").is_some();
        elastic && is_number(names.size) && is_number(names.rank)
    })
}

#[cfg(test)]
mod tests {
    use busbw_core::environment::HOSTS;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<Launched> {
        Launched::read(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn place(launched: &Launched) -> Option<(&str, u16)> {
        let first = launched.coordinator.as_ref()?;
        Some((first.hosts.first()?.as_str(), first.port))
    }

    /// What `env` shows under Open MPI 4.1.4.
    const OPEN_MPI: [(&str, &str); 6] = [
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
        ("PMIX_NAMESPACE", "761397249"),
        ("OMPI_MCA_orte_precondition_transports", "0187880af9e4c493-4243a408072b6284"),
    ];

    #[test]
    fn open_mpi() {
        let launched = read(&OPEN_MPI).unwrap();
        assert_eq!((launched.rank, launched.size, launched.local_rank), (3, 4, Some(3)));
        assert!(launched.one_host);
        assert_eq!(launched.job.as_deref(), Some("761397249"));
        assert!(launched.secret.is_some() && launched.coordinator.is_none());
        assert_eq!(launched.variables, "OMPI_COMM_WORLD_SIZE=4, OMPI_COMM_WORLD_RANK=3");
    }

    /// busbw's own -H tells the hosts of processes that do not join.
    #[test]
    fn hosts_of_ours() {
        let of = |hosts| read(&[&OPEN_MPI[..], &[(HOSTS, hosts)]].concat()).unwrap().hosts;
        assert_eq!(of("a:3,[fd00::1]:1"), ["a", "a", "a", "fd00::1"]);
        assert_eq!(of("a:3"), [""; 0]);
        assert_eq!(of("a:x"), [""; 0]);
    }

    #[test]
    fn hydra_names_no_job() {
        let hydra = [
            ("PMI_SIZE", "2"),
            ("PMI_RANK", "1"),
            ("MPI_LOCALNRANKS", "1"),
            ("MPI_LOCALRANKID", "0"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
        ];
        let launched = read(&hydra).unwrap();
        assert_eq!((&launched.job, launched.one_host), (&None, false));
        assert_eq!(place(&launched), Some(("node1", 29500)));
    }

    #[test]
    fn slurm() {
        let slurm = |nodes, list| {
            read(&[
                ("SLURM_STEP_NUM_TASKS", "4"),
                ("SLURM_PROCID", "2"),
                ("SLURM_LOCALID", "0"),
                ("SLURM_STEP_NUM_NODES", nodes),
                ("SLURM_STEP_NODELIST", list),
                ("SLURM_JOB_ID", "4242"),
                ("SLURM_STEP_ID", "0"),
            ])
            .unwrap()
        };
        let several = slurm("2", "gpu[07-08]");
        assert_eq!((several.local_rank, several.one_host), (Some(0), false));
        assert_eq!(several.job.as_deref(), Some("4242 0"));
        let (host, port) = place(&several).unwrap();
        assert!(host == "gpu07" && coordinator::PORTS.contains(&port), "{host}:{port}");
        assert!(slurm("1", "gpu07").one_host);
    }

    /// torchrun within a Slurm step of one task a node.
    #[test]
    fn the_innermost_launcher_counts() {
        let both = [
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_PROCID", "1"),
            ("WORLD_SIZE", "16"),
            ("RANK", "9"),
            ("LOCAL_WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "none"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ];
        let launched = read(&both).unwrap();
        assert_eq!((launched.rank, launched.size, launched.local_rank), (9, 16, Some(1)));
        assert_eq!(place(&launched), Some(("node1", 29501)));
        assert_eq!(launched.job.as_deref(), Some("none node1 29500"));
        // Without torchrun's own variable they may be left over from somebody's profile.
        assert_eq!(read(&both[..8]).unwrap().size, 2);
    }

    #[test]
    fn a_launcher_says_that_it_started_one() {
        let alone = |variables: &[(&str, &str)]| {
            Launched::sole_process(|name| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        // Hydra within Open MPI's job: the outer one's variables come first.
        let within = [
            ("OMPI_COMM_WORLD_SIZE", "1"),
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("PMI_SIZE", "2"),
            ("PMI_RANK", "1"),
        ];
        assert_eq!(alone(&within).as_deref(), Some("OMPI_COMM_WORLD_SIZE=1"));
        assert_eq!(alone(&within[2..]), None);
        assert_eq!(alone(&[]), None);
    }

    #[test]
    fn alone_is_not_launched() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("WORLD_SIZE", "1"), ("RANK", "0")]), None);
        assert_eq!(read(&[("WORLD_SIZE", "8")]), None);
        assert_eq!(read(&[("WORLD_SIZE", "many"), ("RANK", "0")]), None);
        assert_eq!(read(&[("WORLD_SIZE", ""), ("RANK", "")]), None);
    }
}
