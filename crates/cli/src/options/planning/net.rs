//! Which net plugin is asked for, and what the `net` backend cannot do.
//! Not loading it: only ranks do.

use busbw_core::{Benchmark, plan::BackendChoice};

use super::BenchArguments;
use crate::options::BadOption;
use busbw_runner::backend::net::{COLLECTIVES, OWN_PLUGIN, Wanted};

/// The plugin, where there is one: always on the `net` backend, on `nccl` where it is named.
pub(super) fn wanted(
    a: &BenchArguments,
    benchmark: Benchmark,
    backend: &BackendChoice,
) -> Result<Option<Wanted>, BadOption> {
    let on_gpus = matches!(backend, BackendChoice::Nccl(_));
    if *backend != BackendChoice::Net && !on_gpus {
        let Some(word) = &a.net else { return Ok(None) };
        return Err(BadOption::new(format!(
            "--net {word} is for --backend net, and for NCCL's ranks: --backend {} uses no net plugin",
            backend.name()
        )));
    }
    if let (false, Benchmark::Collective(collective)) = (on_gpus, benchmark)
        && !COLLECTIVES.contains(&collective)
    {
        let all: Vec<&str> = COLLECTIVES.iter().map(|collective| collective.name()).collect();
        return Err(BadOption::impossible(format!(
            "--backend net has no {}: its collectives are {}, and it has all tests of messages between ranks",
            collective.name(),
            all.join(" and ")
        )));
    }
    let word = match &a.net {
        Some(word) => word.clone(),
        None if !on_gpus => OWN_PLUGIN.to_owned(),
        None => return Ok(None),
    };
    Ok(Some(Wanted { word }))
}

/// Refuses several ranks in a process: a plugin is loaded once in each.
pub(super) fn one_each(launched: bool, threads: usize, devices: usize) -> Result<(), BadOption> {
    let text = match (launched, threads, devices) {
        (_, 2.., _) => "--backend net has a process for each rank: use -g, not -t",
        (true, _, 2..) => {
            "--backend net has a process for each rank: leave out -g, and start as many processes as ranks"
        }
        _ => return Ok(()),
    };
    Err(BadOption::new(text))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use busbw_core::exit::Exit;

    use super::*;
    use crate::options::HostResources;
    use crate::options::{self, Command};
    use busbw_runner::request::Request;

    fn planned(line: &str) -> Result<Request, BadOption> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let none = || "there is none".to_owned();
        let host_resources =
            HostResources { cores: 4, gpus: Err(none()), mpi: Err(none()), seed: 1 };
        options::plan(
            benchmark,
            style,
            &program,
            &arguments,
            &crate::options::Environment::default(),
            &host_resources,
        )
    }

    #[test]
    fn our_own_plugin_unless_another_is_named() {
        let ours = planned("busbw latency --backend net").unwrap();
        assert_eq!((ours.plan.backend, ours.plan.ranks()), (BackendChoice::Net, 2));
        assert_eq!(ours.net, Some(Wanted { word: OWN_PLUGIN.to_owned() }));
        let other = planned("busbw bw --backend net --net /a/b.so").unwrap();
        assert_eq!(other.net.unwrap().word, "/a/b.so");
        assert_eq!(planned("busbw latency --backend host").unwrap().net, None);
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for (line, exit, why) in [
            ("busbw all_gather --backend net", Exit::Impossible, "all_reduce and sendrecv"),
            ("busbw latency --backend net -t 2", Exit::Usage, "use -g"),
            ("busbw latency --backend host --net x", Exit::Usage, "uses no net plugin"),
        ] {
            let refused = planned(line).unwrap_err();
            assert_eq!(refused.exit, exit, "{line}");
            assert!(refused.to_string().contains(why), "{line}: {refused}");
        }
    }
}
