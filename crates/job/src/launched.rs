//! What a launcher's variables tell a process: its number among several, the job, and the coordinator's address.
//! Not the rendezvous itself (`rendezvous`).

mod coordinator;
mod hosts;
mod nodes;
mod pods;
mod variables;

use std::ops::Range;

use busbw_core::environment::{INTERFACE, JOB_SECRET, JOB_SECRET_FILE};
use busbw_ffi::mpi::Launcher;

pub use self::coordinator::CoordinatorAddress;
pub(crate) use self::coordinator::bare;
use self::variables::Numbers;

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

impl Launched {
    /// Reads the variables through `lookup`; none for a process without a launcher, or in a job of one process.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Launched> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let number = |name: &str| lookup(name)?.trim().parse::<usize>().ok();
        let Numbers { size, rank, variables, names, host } = Numbers::read(lookup)?;
        if size < 2 {
            return None;
        }
        let slurm = names.rank == "SLURM_PROCID" || names.job == ["PMI_JOBID"];
        let nodes = if slurm { number("SLURM_STEP_NUM_NODES") } else { None };
        let job: Option<Vec<String>> = names.job.iter().map(|name| lookup(name)).collect();
        let secret = lookup(JOB_SECRET)
            .or_else(|| secret_of(&lookup(JOB_SECRET_FILE)?))
            .or_else(|| lookup("OMPI_MCA_orte_precondition_transports"));
        // One process a pod, which sees no other pod's processes and devices.
        let (place, count) = if names.pod { (Some(0), Some(1)) } else { (None, None) };
        Some(Launched {
            variables,
            rank,
            size,
            local_rank: place
                .or_else(|| number(names.local_rank))
                .or_else(|| if slurm { number("SLURM_LOCALID") } else { None })
                .or_else(|| number("LOCAL_RANK")),
            local_size: count.or_else(|| number(names.local_size)),
            by: names.by,
            one_host: nodes == Some(1) || number(names.local_size) == Some(size),
            job: job.filter(|parts| !parts.is_empty()).map(|parts| parts.join(" ")),
            secret,
            coordinator: CoordinatorAddress::read(names, host, lookup),
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
        let numbers = Numbers::read(lookup)?;
        (numbers.size == 1).then(|| format!("{}=1", numbers.names.size))
    }
}

/// The secret of a file; none where it cannot be read, and then the rendezvous is refused by those that have it.
fn secret_of(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
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

    /// What `env` shows in pods, beside KUBERNETES_SERVICE_HOST and the like.
    mod pods {
        use super::*;

        const INDEXED_JOB: [(&str, &str); 5] = [
            ("HOSTNAME", "bench-2"),
            ("JOB_COMPLETION_INDEX", "2"),
            ("BUSBW_PODS", "4"),
            ("MASTER_ADDR", "bench-0.bench"),
            ("MASTER_PORT", "29500"),
        ];
        /// Kubeflow's training-operator 1.8, nprocPerNode: 8.
        const PYTORCH_JOB: [(&str, &str); 9] = [
            ("MASTER_ADDR", "train-master-0"),
            ("MASTER_PORT", "23456"),
            ("WORLD_SIZE", "16"),
            ("RANK", "1"),
            ("PET_NNODES", "2"),
            ("PET_NODE_RANK", "1"),
            ("PET_NPROC_PER_NODE", "8"),
            ("PET_MASTER_ADDR", "train-master-0"),
            ("PET_MASTER_PORT", "23456"),
        ];
        /// Kubeflow Trainer 2, whose pods are an indexed Job's.
        const TRAIN_JOB: [(&str, &str); 6] = [
            ("JOB_COMPLETION_INDEX", "1"),
            ("PET_NNODES", "4"),
            ("PET_NPROC_PER_NODE", "auto"),
            ("PET_NODE_RANK", "1"),
            ("PET_MASTER_ADDR", "train-node-0-0.train"),
            ("PET_MASTER_PORT", "29400"),
        ];
        const LEADER_WORKER_SET: [(&str, &str); 4] = [
            ("HOSTNAME", "serve-0-3"),
            ("LWS_LEADER_ADDRESS", "serve-0.serve.default"),
            ("LWS_GROUP_SIZE", "4"),
            ("LWS_WORKER_INDEX", "3"),
        ];
        const VOLCANO: [(&str, &str); 6] = [
            ("HOSTNAME", "my-job-gpu-node-1"),
            ("VC_TASK_INDEX", "1"),
            ("VK_TASK_INDEX", "1"),
            ("VC_GPU_NODE_HOSTS", "my-job-gpu-node-0.my-job,my-job-gpu-node-1.my-job"),
            ("VC_GPU_NODE_NUM", "2"),
            ("VC_NODE_HOSTS", "my-job-node-0.my-job,my-job-node-1.my-job"),
        ];
        const STATEFUL_SET: [(&str, &str); 4] = [
            ("HOSTNAME", "ring-1"),
            ("BUSBW_PODS", "3"),
            ("MASTER_ADDR", "ring-0.ring"),
            ("MASTER_PORT", "29500"),
        ];

        fn is(
            variables: &[(&str, &str)],
            (rank, size): (usize, usize),
            at: (&str, u16),
            told: &str,
        ) {
            let launched = read(variables).unwrap();
            assert_eq!((launched.rank, launched.size), (rank, size), "{variables:?}");
            assert_eq!((launched.local_rank, launched.local_size), (Some(0), Some(1)));
            assert_eq!((launched.one_host, place(&launched)), (false, Some(at)));
            assert_eq!(launched.variables, told);
        }

        #[test]
        fn of_every_kind() {
            let first = ("bench-0.bench", 29500);
            is(&INDEXED_JOB, (2, 4), first, "BUSBW_PODS=4, JOB_COMPLETION_INDEX=2");
            let first = ("train-master-0", 23456);
            is(&PYTORCH_JOB, (1, 2), first, "PET_NNODES=2, PET_NODE_RANK=1");
            let first = ("train-node-0-0.train", 29400);
            is(&TRAIN_JOB, (1, 4), first, "PET_NNODES=4, PET_NODE_RANK=1");
            let first = ("serve-0.serve.default", 29500);
            is(&LEADER_WORKER_SET, (3, 4), first, "LWS_GROUP_SIZE=4, LWS_WORKER_INDEX=3");
            let first = ("my-job-gpu-node-0.my-job", 29500);
            is(&VOLCANO, (1, 2), first, "2 hosts in VC_GPU_NODE_HOSTS, VC_TASK_INDEX=1");
            is(&STATEFUL_SET, (1, 3), ("ring-0.ring", 29500), "BUSBW_PODS=3, HOSTNAME=ring-1");
        }

        /// Whatever starts processes within a pod counts, not the pod's own numbers.
        #[test]
        fn the_innermost_launcher_counts() {
            let with = |more: &[(&str, &str)]| read(&[&TRAIN_JOB[..], more].concat()).unwrap();
            let torchrun = [
                ("WORLD_SIZE", "32"),
                ("RANK", "9"),
                ("LOCAL_WORLD_SIZE", "8"),
                ("LOCAL_RANK", "1"),
                ("MASTER_ADDR", "train-node-0-0.train"),
                ("MASTER_PORT", "29400"),
            ];
            let launched = with(&torchrun);
            assert_eq!((launched.size, launched.rank, launched.local_rank), (32, 9, Some(1)));
            let launched = with(&OPEN_MPI);
            assert_eq!((launched.size, launched.by), (4, Launcher::OpenMpi));
            assert!(launched.one_host);
        }

        #[test]
        fn what_tells_no_number() {
            // Nobody tells an indexed Job's pod how many there are.
            assert_eq!(read(&INDEXED_JOB[..2]), None);
            // Elastic: from two nodes to four.
            assert_eq!(read(&[("PET_NNODES", "2:4"), ("PET_NODE_RANK", "0")]), None);
            let named = |name| read(&[("BUSBW_PODS", "3"), ("HOSTNAME", name)]);
            for name in ["ring", "ring-", "ring-3", "ring-x", "web-7d4b9c6f5-28961", "ring-+1"] {
                assert_eq!(named(name), None, "{name}");
            }
            // Another task's list, and a pod that was renamed.
            let volcano = |name| {
                read(&[
                    ("HOSTNAME", name),
                    ("VC_TASK_INDEX", "1"),
                    ("VC_NODE_HOSTS", "job-node-0.job,job-node-1.job"),
                ])
            };
            assert!(volcano("job-node-1").is_some());
            for name in ["job-gpu-node-1", "job-node-0", "node-1", "-1", "gpu17"] {
                assert_eq!(volcano(name), None, "{name}");
            }
        }

        /// A file tells the coordinator's address alone, or before a name.
        #[test]
        fn a_file_tells_the_address() {
            let file = ("BUSBW_COORDINATOR_FILE", "/etc/podinfo/coordinator");
            let of = |variables: &[(&str, &str)]| {
                let first = read(&[variables, &[file]].concat()).unwrap().coordinator.unwrap();
                assert_eq!(first.file.as_deref(), Some(std::path::Path::new(file.1)));
                (first.hosts.join(" "), first.port)
            };
            assert_eq!(of(&INDEXED_JOB[..3]), (String::new(), 29500));
            assert_eq!(of(&INDEXED_JOB), ("bench-0.bench".to_owned(), 29500));
            assert_eq!(read(&INDEXED_JOB[..3]).unwrap().coordinator, None);
        }
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
