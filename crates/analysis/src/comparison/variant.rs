//! What tells the runs of one test in one file apart: settings, hosts and memory. A page that shows one test over three fabrics has three results,
//! whose mean is no result of any.
//! Not runs of several files: they are launches of a side, as the user names them.

use std::collections::{BTreeMap, BTreeSet};

use busbw_logs::measurement::{Measurement, Memory};

/// Settings that change what is printed, not how fast it is.
const HARMLESS: [&str; 3] = ["NCCL_DEBUG", "_DUMP_FILE", "UCX_LOG_LEVEL"];

/// For each run what it has unlike other runs of its test and file; none where they are alike, or where busbw recorded it.
pub(super) fn variants(runs: &[&Measurement]) -> Vec<Option<String>> {
    let all: Vec<BTreeMap<String, String>> = runs.iter().map(|run| facts(run)).collect();
    let mut files: BTreeMap<(&str, &str, Option<usize>), Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| !run.source.form.facts().recorded) {
        let key = (run.source.name.as_str(), run.test_name(), run.rank_count());
        files.entry(key).or_default().push(at);
    }
    let mut found = vec![None; runs.len()];
    for file in files.values() {
        let of_file = || file.iter().filter_map(|at| all.get(*at));
        let names: BTreeSet<&String> = of_file().flat_map(BTreeMap::keys).collect();
        let differs = |name: &&&String| {
            let mut values = of_file().map(|facts| facts.get(**name));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let unlike: Vec<&&String> = names.iter().filter(differs).collect();
        if unlike.is_empty() {
            continue;
        }
        for at in file {
            let (Some(facts), Some(place)) = (all.get(*at), found.get_mut(*at)) else { continue };
            let said =
                unlike.iter().filter_map(|name| Some(format!("{name}={}", facts.get(**name)?)));
            let said: Vec<String> = said.collect();
            *place =
                Some(if said.is_empty() { "default settings".to_owned() } else { said.join(" ") });
        }
    }
    found
}

/// Settings by the command line and the environment, the number of hosts, and the buffers' memory.
fn facts(run: &Measurement) -> BTreeMap<String, String> {
    let words = run.command.iter().flat_map(|command| command.split_ascii_whitespace());
    let passed = words
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let set = run.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let ours = |name: &str| ["NCCL_", "RCCL_", "UCX_"].iter().any(|begin| name.starts_with(begin));
    let counts = |name: &str| ours(name) && !HARMLESS.iter().any(|part| name.contains(part));
    let hosts = run.hosts.map(|hosts| ("hosts".to_owned(), hosts.to_string()));
    let memory = run.test.memory.map(|memory| match memory.value {
        Memory::Device => ("memory".to_owned(), "device".to_owned()),
        Memory::Host => ("memory".to_owned(), "host".to_owned()),
    });
    passed.chain(set).filter(|(name, _)| counts(name)).chain(hosts).chain(memory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: &str, command: &str, hosts: Option<usize>) -> Measurement {
        let mut run =
            Measurement { command: Some(command.to_owned()), hosts, ..Measurement::default() };
        run.source.name = file.to_owned();
        run
    }

    #[test]
    fn runs_of_one_file_that_differ_are_told_apart() {
        let page = [
            run("page", "mpirun -x NCCL_DEBUG=WARN -x NCCL_IB_HCA=mlx5 x", Some(2)),
            run("page", "mpirun -x NCCL_IB_DISABLE=1 -x NCCL_IB_HCA=mlx5 x", Some(2)),
            run("other", "mpirun -x NCCL_IB_DISABLE=1 x", Some(2)),
        ];
        let found = variants(&page.iter().collect::<Vec<_>>());
        assert_eq!(found[0].as_deref(), Some("default settings"));
        assert_eq!(found[1].as_deref(), Some("NCCL_IB_DISABLE=1"));
        assert_eq!(found[2], None);
        let same = [run("page", "x -n 5", None), run("page", "x -n 20", None)];
        assert_eq!(variants(&same.iter().collect::<Vec<_>>()), [None, None]);
        let hosts = [run("page", "x", Some(1)), run("page", "x", Some(2))];
        assert_eq!(variants(&hosts.iter().collect::<Vec<_>>())[1].as_deref(), Some("hosts=2"));
    }
}
