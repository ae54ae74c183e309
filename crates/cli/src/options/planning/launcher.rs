//! A launcher's part in a plan: the backends that its processes can use, and the GPUs of each.
//! Not how they join (`busbw_job::rendezvous`).

use busbw_core::{
    plan::{BackendChoice, BackendSpec, RankHolder},
    record::Waiver,
};

use super::{Asked, BenchArguments, gpus, variables};
use crate::options::BadOption;
use crate::options::Environment;
use busbw_job::launched::Launched;

/// Refuses options that a launcher's processes cannot honour.
pub(super) fn possible(
    launched: &Launched,
    asked: &Asked<'_>,
    backend: &BackendChoice,
) -> Result<(), BadOption> {
    let said = &launched.variables;
    if asked.arguments.repeat.is_some_and(|launches| launches > 1) {
        return Err(BadOption::new(format!(
            "--repeat starts new rank processes, which only their launcher can do ({said}): start busbw several times, or without a launcher"
        )));
    }
    let spec = backend.spec();
    let name = spec.name;
    if spec.rank_holder == RankHolder::Simulated {
        return Err(BadOption::new(format!(
            "--backend {name} has no ranks, and would print a table for each process of the launcher ({said}): start busbw without it, with -g for the number of ranks"
        )));
    }
    if spec.shares_memory && !launched.one_host {
        gpus::needed(asked)?;
        let why = match gpus::absence(asked) {
            Some(why) => format!(", and no GPU is used, since {why}"),
            None => String::new(),
        };
        return Err(BadOption::new(format!(
            "--backend {name} measures the memory of one machine, and not all processes of the launcher are known to be on this one ({said}){why}"
        )));
    }
    Ok(())
}

/// Refuses several ranks in a process that can hold one, and a start without the launcher that it takes.
pub(super) fn held(
    launched: Option<&Launched>,
    backend: &BackendSpec,
    threads: usize,
    devices: usize,
) -> Result<(), BadOption> {
    let name = backend.name;
    if backend.needs_launcher && launched.is_none() {
        return Err(BadOption::new(format!(
            "--backend {name} needs processes that an MPI launcher starts, and no launcher started this one: put `mpirun -n 2`, `mpiexec -n 2` or `srun -n 2` in front"
        )));
    }
    let each = threads * devices;
    match (backend.rank_holder, launched) {
        (RankHolder::Process, Some(_)) if each != 1 => Err(BadOption::new(format!(
            "--backend {name} has one rank a process, not -t × -g = {each}: leave out -t and -g, and start as many processes as ranks"
        ))),
        (RankHolder::Process, None) if threads != 1 => Err(BadOption::new(format!(
            "--backend {name} has a process for each rank: use -g, not -t"
        ))),
        _ => Ok(()),
    }
}

/// Waives `--interface` where all ranks are on this host.
pub(super) fn waived(launched: Option<&Launched>, a: &BenchArguments) -> Option<Waiver> {
    let word =
        a.interface.as_ref().filter(|_| launched.is_none_or(|launched| launched.one_host))?;
    let reason = "all ranks are on this host, and need no interface".to_owned();
    Some(Waiver { option: format!("--interface {word}"), reason })
}

/// Ranks on this host, as far as the launcher says, at `each` a process.
pub(super) fn ranks_here(launched: Option<&Launched>, each: usize) -> usize {
    each * launched.map_or(1, |launched| if launched.one_host { launched.size } else { 1 })
}

/// The first of `gpus` GPUs of this process, or core on `host`: NCCL_TESTS_DEVICE, else its place among those of its
/// host with `each` GPUs a process (nccl-tests src/common.cu:1565-1568). Where it sees no more than `each`,
/// the launcher has dealt them out already.
pub(super) fn first_device(
    environment: &Environment,
    gpus: Option<usize>,
    share: bool,
    each: usize,
) -> Result<usize, BadOption> {
    let (Some(gpus), Some(launched), None) = (gpus, &environment.launched, &environment.device)
    else {
        return variables::first_device(environment);
    };
    if gpus == each && !share {
        return Ok(0);
    }
    let Some(place) = launched.local_rank else {
        return Err(BadOption::new(format!(
            "the launcher gives this process's rank ({}), but not its local rank: set LOCAL_RANK, or NCCL_TESTS_DEVICE to its first GPU",
            launched.variables
        )));
    };
    Ok(place * each)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use busbw_core::plan::{Plan, RankLayout};

    use super::*;
    use crate::options::{self, Command, HostResources};
    use busbw_runner::backend::nccl::{Gpus, Libraries};
    use busbw_runner::request::Request;

    fn gpus(count: usize) -> Result<Gpus, String> {
        let libraries = Libraries { amd: false, driver: "d".into(), nccl: "n".into() };
        Ok(Gpus { count, memory: 1 << 34, libraries })
    }

    /// Process 3 of 4 by Open MPI, with more variables.
    fn plan(
        line: &str,
        more: &[(&str, &str)],
        gpus: Result<Gpus, String>,
    ) -> Result<Plan, BadOption> {
        let mpi = Err(String::new());
        let resources = HostResources { cores: 8, cores_of_parent: 8, gpus, mpi, seed: 1 };
        request(line, more, &resources).map(|request| request.plan)
    }

    fn request(
        line: &str,
        more: &[(&str, &str)],
        resources: &HostResources,
    ) -> Result<Request, BadOption> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let mut variables = vec![
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
        ];
        variables.splice(0..0, more.iter().copied());
        let environment = Environment::read(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        });
        options::plan(benchmark, style, &program, &arguments, &environment, resources)
    }

    #[test]
    fn cores_that_the_launcher_gave_are_shared_by_ranks_of_one_process() {
        let shared = |line: &str, cores, cores_of_parent| {
            let (gpus, mpi) = (Err("none".to_owned()), Err(String::new()));
            let resources = HostResources { cores, cores_of_parent, gpus, mpi, seed: 1 };
            let remarks = request(line, &[], &resources).unwrap().remarks;
            remarks.into_iter().find(|remark| remark.contains("share"))
        };
        assert_eq!(shared("busbw all_reduce --backend host", 1, 4), None);
        assert!(
            shared("busbw all_reduce --backend host", 1, 1)
                .unwrap()
                .contains("4 ranks share the one core of this machine")
        );
        let two = shared("busbw all_reduce -t 2 --backend host", 1, 4).unwrap();
        assert!(
            two.contains("2 ranks share the one core to which the launcher binds them"),
            "{two}"
        );
    }

    #[test]
    fn ranks_are_processes_times_threads_times_devices() {
        let one_each = plan("busbw all_reduce", &[], gpus(8)).unwrap();
        assert_eq!((one_each.ranks(), one_each.rank_layout), (4, RankLayout::Launched));
        let theirs = plan("all_reduce_perf -t 2 -g 1", &[], gpus(8)).unwrap();
        assert_eq!(
            (theirs.ranks(), theirs.rank_threads(), theirs.rank_layout),
            (8, 8, RankLayout::Threads)
        );
        let ours = plan("busbw all_reduce -g 2", &[], gpus(8)).unwrap();
        assert_eq!((ours.ranks(), ours.rank_threads(), ours.processes()), (8, 8, 4));
        let host = plan("busbw all_reduce -t 2", &[], Err("none".to_owned())).unwrap();
        assert_eq!(
            (host.ranks(), host.rank_layout, host.first_device),
            (8, RankLayout::Launched, 0)
        );
    }

    #[test]
    fn the_place_on_the_host_chooses_gpus() {
        let first = |line, more: &[(&str, &str)], count| plan(line, more, gpus(count));
        let four = "busbw all_reduce";
        assert_eq!(first(four, &[], 8).unwrap().first_device, 3);
        assert_eq!(first("all_reduce_perf -g 2", &[], 8).unwrap().first_device, 6);
        // nccl-tests' own variable holds for every process.
        assert_eq!(first(four, &[("NCCL_TESTS_DEVICE", "1")], 8).unwrap().first_device, 1);
        // A launcher that lets each process see its own.
        assert_eq!(first(four, &[], 1).unwrap().first_device, 0);
        assert_eq!(first("busbw all_reduce --share-gpus", &[], 1).unwrap().first_device, 3);
        let lacking = first(four, &[], 3).unwrap_err().to_string();
        assert!(lacking.contains("4 requested but only 3 were found"), "{lacking}");
        let unknown = [("OMPI_COMM_WORLD_LOCAL_RANK", "?")];
        assert!(first(four, &unknown, 8).unwrap_err().to_string().contains("set LOCAL_RANK"));
        let by_hand = [unknown[0], ("LOCAL_RANK", "2")];
        assert_eq!(first(four, &by_hand, 8).unwrap().first_device, 2);
    }

    #[test]
    fn an_interface_is_for_several_hosts() {
        let a = BenchArguments { interface: Some("eth0".to_owned()), ..BenchArguments::default() };
        assert_eq!(waived(None, &a).unwrap().option, "--interface eth0");
        assert_eq!(waived(None, &BenchArguments::default()), None);
        let launched = |on_host| {
            let size = [("WORLD_SIZE", "4"), ("RANK", "0"), ("LOCAL_WORLD_SIZE", on_host)];
            Launched::read(|name| {
                size.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(waived(launched("4").as_ref(), &a).is_some());
        assert!(waived(launched("2").as_ref(), &a).is_none());
    }

    #[test]
    fn what_launched_processes_cannot_do() {
        let apart = [("OMPI_COMM_WORLD_LOCAL_SIZE", "2")];
        let none = || Err("there is no driver".to_owned());
        for (line, more, gpus, why) in [
            ("busbw all_reduce --backend fake", &[][..], none(), "a table for each process"),
            ("busbw all_reduce --repeat 2", &[], gpus(8), "start busbw several times"),
            ("busbw all_reduce", &apart, none(), "since there is no driver"),
            ("busbw all_reduce --share-gpus -g 2", &[], gpus(4), "leave out -t and -g"),
            ("busbw all_reduce -t 64 -g 64", &[], gpus(8), "4096 are the most"),
        ] {
            let refused = plan(line, more, gpus).unwrap_err().to_string();
            assert!(refused.contains(why), "{line}: {refused}");
        }
        assert!(plan("busbw all_reduce", &apart, gpus(8)).is_ok());
    }
}
