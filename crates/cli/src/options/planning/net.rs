//! Which net plugin is asked for, and what the `net` backend cannot do.
//! Not loading it: only ranks do.

use model::{Benchmark, plan::BackendChoice};

use super::{BadOption, BenchArguments, Environment};
use crate::backend::net::{COLLECTIVES, OWN_PLUGIN, REFERENCE, Reference, Wanted};

/// The plugin, where there is one: always on the `net` backend, on `nccl` where it is named.
pub(super) fn wanted(
    a: &BenchArguments,
    environment: &Environment,
    benchmark: Benchmark,
    backend: &BackendChoice,
) -> Result<Option<Wanted>, BadOption> {
    let on_gpus = matches!(backend, BackendChoice::Nccl(_));
    if *backend != BackendChoice::Net && !on_gpus {
        let option = match (&a.net, &a.reference) {
            (Some(word), _) => format!("--net {word}"),
            (None, Some(reference)) => format!("--reference {reference}"),
            (None, None) => return Ok(None),
        };
        return Err(BadOption::new(format!(
            "{option} is for --backend net, and for NCCL's ranks: --backend {} uses no net plugin",
            backend.name()
        )));
    }
    if let (false, Benchmark::Collective(collective)) = (on_gpus, benchmark)
        && !COLLECTIVES.contains(&collective)
    {
        let all: Vec<&str> = COLLECTIVES.iter().map(|collective| collective.name()).collect();
        return Err(BadOption::impossible(format!(
            "--backend net has no {}: of collectives it has {}; messages between ranks are there, too",
            collective.name(),
            all.join(" and ")
        )));
    }
    let word = match &a.net {
        Some(word) => word.clone(),
        None if !on_gpus || a.reference.is_some() => OWN_PLUGIN.to_owned(),
        None => return Ok(None),
    };
    if word == OWN_PLUGIN {
        let reference =
            a.reference.map_or_else(|| inherited(environment), |said| Ok(Some(said)))?;
        return Ok(Some(Wanted { word, reference }));
    }
    match a.reference {
        None => Ok(Some(Wanted { word, reference: None })),
        Some(reference) => Err(BadOption::new(format!(
            "--reference {reference} is what busbw's own plugin imitates, not {word}: leave out --net"
        ))),
    }
}

/// What the environment has our plugin imitate: ranks inherit it, so the record must say it.
fn inherited(environment: &Environment) -> Result<Option<Reference>, BadOption> {
    let Some(word) = environment.net_reference.as_deref().filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    word.parse().map(Some).map_err(|wrong| BadOption::new(format!("{REFERENCE}={word}: {wrong}")))
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

    use model::exit::Exit;

    use super::*;
    use crate::options::{self, Command, Request, Surroundings};

    fn planned(line: &str) -> Result<Request, BadOption> {
        planned_in(line, &Environment::default())
    }

    fn planned_in(line: &str, environment: &Environment) -> Result<Request, BadOption> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let none = || "there is none".to_owned();
        let surroundings = Surroundings { cores: 4, gpus: Err(none()), mpi: Err(none()), seed: 1 };
        options::plan(benchmark, style, &program, &arguments, environment, &surroundings)
    }

    #[test]
    fn our_own_plugin_unless_another_is_named() {
        let ours = planned("busbw latency --backend net").unwrap();
        assert_eq!((ours.plan.backend, ours.plan.ranks()), (BackendChoice::Net, 2));
        assert_eq!(ours.net, Some(Wanted { word: OWN_PLUGIN.to_owned(), reference: None }));
        let other = planned("busbw bw --backend net --net /a/b.so").unwrap();
        assert_eq!(other.net.unwrap().word, "/a/b.so");
        let reference = planned("busbw bw --backend net --reference socket:4x4").unwrap();
        assert_eq!(reference.net.unwrap().reference.unwrap().to_string(), "socket:4x4");
        assert_eq!(planned("busbw latency --backend host").unwrap().net, None);
    }

    #[test]
    fn what_ranks_inherit_is_said() {
        let planned = |line, word: &str| {
            let net_reference = Some(word.to_owned());
            planned_in(line, &Environment { net_reference, ..Environment::default() })
        };
        let said = |line, word| planned(line, word).unwrap().net.unwrap().reference;
        assert_eq!(said("busbw bw --backend net", "socket:2x2"), "socket:2x2".parse().ok());
        assert_eq!(said("busbw bw --backend net", ""), None);
        assert_eq!(said("busbw bw --backend net --net /a/b.so", "socket"), None);
        let line = "busbw bw --backend net --reference socket:4x4";
        assert_eq!(said(line, "socket"), "socket:4x4".parse().ok());
        let refused = planned("busbw bw --backend net", "sockets").unwrap_err().to_string();
        assert!(refused.contains("BUSBW_NET_REFERENCE=sockets"), "{refused}");
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for (line, exit, why) in [
            ("busbw all_gather --backend net", Exit::Impossible, "all_reduce and sendrecv"),
            ("busbw latency --backend net -t 2", Exit::Usage, "use -g"),
            ("busbw latency --backend host --net x", Exit::Usage, "uses no net plugin"),
            ("busbw bw --backend net --net x --reference socket", Exit::Usage, "imitates"),
        ] {
            let refused = planned(line).unwrap_err();
            assert_eq!(refused.exit, exit, "{line}");
            assert!(refused.to_string().contains(why), "{line}: {refused}");
        }
    }
}
