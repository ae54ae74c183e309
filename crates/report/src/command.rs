//! The command that gives a run again, as one would paste it: with the variables that were set, and the launcher.
//! Not what it measured.

use busbw_core::shell::{line, quoted};
use busbw_logs::measurement::Measurement;
use busbw_store as store;

/// Variables that Open MPI sets for its own processes; the rest of what begins with OMPI_ is the user's.
const OPEN_MPIS_OWN: [&str; 14] = [
    "OMPI_APP_CTX",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_COMM_WORLD_",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_ess",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix",
    "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
];

/// Variables that busbw sets for the processes that it starts.
const RELAYED: &str = "BUSBW_RELAYED";

/// The command that repeats a run.
pub(super) fn reproduce(run: &Measurement, command: &str) -> String {
    if !run.source.form.facts().recorded {
        // Nobody masked it when it was written.
        return store::masked(command);
    }
    let mut words = without_record(shlex::split(command).unwrap_or_default());
    let relayed = run.environment.contains_key(RELAYED);
    if let (true, Some(program)) = (relayed, words.first_mut()) {
        // A copy of busbw that went with the run.
        "busbw".clone_into(program);
    }
    let set: Vec<(&String, &String)> = run
        .environment
        .iter()
        .filter(|(name, value)| {
            let own = OPEN_MPIS_OWN.iter().any(|start| name.starts_with(start));
            // What was masked cannot be pasted.
            !own && !value.contains("***") && *name != RELAYED
        })
        .collect();
    let command = line(words.iter().map(String::as_str));
    let before: String =
        set.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
    let processes = run.options.get("processes").and_then(|count| count.parse::<usize>().ok());
    match processes.filter(|count| *count > 1 && !relayed) {
        None => before + &command,
        Some(processes) if run.environment.contains_key("OMPI_COMM_WORLD_SIZE") => {
            let given: String = set
                .iter()
                .map(|(name, value)| format!("-x {} ", quoted(&format!("{name}={value}"))))
                .collect();
            format!("mpirun -n {processes} {}{given}{command}", hosts(run, processes))
        }
        Some(processes) => format!(
            "# a launcher started {processes} processes of this: put it in front, such as srun -n {processes}\n{before}{command}"
        ),
    }
}

/// Open MPI's option for the hosts of a run; empty on one host.
fn hosts(run: &Measurement, processes: usize) -> String {
    let mut ranks: Vec<(&str, usize)> = Vec::new();
    for device in &run.devices {
        match ranks.iter_mut().find(|(host, _)| *host == device.host) {
            Some((_, count)) => *count += 1,
            None => ranks.push((&device.host, 1)),
        }
    }
    let each = (run.devices.len() / processes).max(1);
    if ranks.len() < 2 {
        return String::new();
    }
    let slots = ranks.iter().map(|(host, count)| format!("{host}:{}", count / each));
    format!("--host {} ", quoted(&slots.collect::<Vec<_>>().join(",")))
}

/// Without the file of the record, which is there already.
fn without_record(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--record" {
            words.next();
        } else if !word.starts_with("--record=") {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_logs::measurement::{Device, Form};

    fn run(variables: &[(&str, &str)], processes: usize, hosts: &[&str]) -> Measurement {
        let mut run = Measurement::default();
        run.source.form = Form::Record;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        run.environment = variables.iter().map(owned).collect();
        run.options.insert("processes".to_owned(), processes.to_string());
        run.devices = hosts
            .iter()
            .map(|host| Device { host: (*host).to_owned(), ..Device::default() })
            .collect();
        run
    }

    #[test]
    fn what_is_pasted_runs() {
        let alone = run(&[("NCCL_ALGO", "Ring,Tree"), ("NCCL_IB_HCA", "^mlx5 0")], 1, &["a"]);
        assert_eq!(
            reproduce(&alone, "busbw all_reduce --record 'my run.jsonl' -b 8"),
            "NCCL_ALGO=Ring,Tree NCCL_IB_HCA='^mlx5 0' busbw all_reduce -b 8"
        );
        let launched = [
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_MCA_orte_hnp_uri", "***"),
            ("OMPI_MCA_btl", "tcp,self"),
            ("NCCL_DEBUG", "INFO"),
        ];
        assert_eq!(
            reproduce(&run(&launched, 4, &["a", "a", "b", "b"]), "busbw all_reduce -g 1"),
            "mpirun -n 4 --host a:2,b:2 -x NCCL_DEBUG=INFO -x OMPI_MCA_btl=tcp,self busbw all_reduce -g 1"
        );
        let relayed =
            [("BUSBW_RELAYED", "1"), ("BUSBW_JOB_SECRET", "***"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(
            reproduce(&run(&relayed, 2, &["a", "b"]), "/tmp/copy/busbw all_reduce -H a:1,b:1"),
            "busbw all_reduce -H a:1,b:1"
        );
        let unknown = reproduce(&run(&[], 8, &["a"]), "busbw all_reduce");
        assert!(unknown.starts_with("# a launcher started 8 processes"), "{unknown}");
    }
}
