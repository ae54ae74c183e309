//! A command line that starts a test, as a page or a script shows it: ranks, hosts, and settings of every launcher's form.
//! Not a shell: nothing is expanded, and not a judgement of the options (`busbw-lint`).

/// Words that begin a command line that starts ranks, and those that may stand before it.
const LAUNCHERS: [&str; 9] =
    ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "env", "sudo", "numactl"];

/// What a command line says of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    /// Ranks: processes times threads times GPUs of each.
    pub ranks: Option<usize>,
    /// Hosts.
    pub hosts: Option<usize>,
    /// Settings that `NAME=value` alone does not show: `-genv NAME value`.
    pub settings: Vec<(String, String)>,
}

/// The text behind a prompt.
pub(super) fn without_prompt(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("$ ").or_else(|| line.strip_prefix("% ")).unwrap_or(line).trim_start()
}

/// Whether a line begins as a command does: with a launcher, a setting or a test's program.
pub(super) fn begins(line: &str) -> bool {
    let Some(first) = without_prompt(line).split_ascii_whitespace().next() else { return false };
    LAUNCHERS.contains(&base(first)) || is_setting(first) || is_test(first)
}

/// `osu_bw`, `./build/all_reduce_perf_mpi`.
pub(super) fn is_test(word: &str) -> bool {
    let name = base(word);
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    plain && (name.starts_with("osu_") || name.contains("_perf"))
}

/// `NAME=value`, with a name in capitals.
pub(super) fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

impl Command {
    /// Reads a command line.
    pub(super) fn read(line: &str) -> Command {
        let words: Vec<&str> = without_prompt(line).split_ascii_whitespace().collect();
        let at = words.iter().position(|word| is_test(word)).unwrap_or(words.len());
        let (launch, test) = words.split_at(at);
        let launched =
            launch.iter().any(|word| LAUNCHERS.iter().take(6).any(|one| *one == base(word)));
        let processes =
            number(launch, &["-np", "-n", "--np", "--ntasks"]).or((!launched).then_some(1));
        let each = |option| number(test, &[option]).unwrap_or(1);
        let per_process = each("-t").saturating_mul(each("-g"));
        let nccl = test.first().is_some_and(|word| base(word).contains("_perf"));
        let ranks =
            processes.map(|count| if nccl { count.saturating_mul(per_process) } else { count });
        let ranks = ranks.filter(|_| at < words.len() && (launched || nccl));
        let listed = value(launch, &["-H", "--host", "-host", "--hosts", "-hosts"]).map(hosts_of);
        let per_host =
            number(launch, &["-N", "-npernode", "--npernode", "-ppn", "--ntasks-per-node"])
                .or_else(|| value(launch, &["--map-by", "-map-by"]).and_then(per_resource));
        let by_node = value(launch, &["--map-by", "-map-by"]) == Some("node");
        let spread = processes.zip(per_host.filter(|each| *each > 0));
        let spread =
            spread.filter(|(all, each)| all.is_multiple_of(*each)).map(|(all, each)| all / each);
        let hosts = match launched {
            // Slurm's -N is the number of hosts.
            true if launch.iter().any(|word| base(word) == "srun") => {
                number(launch, &["-N", "--nodes"])
            }
            true => listed.or(spread).or((by_node && processes == Some(2)).then_some(2)),
            false => ranks.map(|_| 1),
        };
        Command { ranks, hosts, settings: settings(launch) }
    }
}

/// `-genv NAME value`, `-env NAME value`.
fn settings(words: &[&str]) -> Vec<(String, String)> {
    let three = words.windows(3).filter_map(|three| match three {
        ["-genv" | "-env", name, value] if !name.contains('=') => {
            Some(((*name).to_owned(), (*value).to_owned()))
        }
        _ => None,
    });
    three.collect()
}

/// The value of an option, apart or behind `=`.
fn value<'w>(words: &[&'w str], options: &[&str]) -> Option<&'w str> {
    words.iter().enumerate().find_map(|(at, word)| {
        if options.contains(word) {
            return words.get(at + 1).copied();
        }
        let (option, value) = word.split_once('=')?;
        (option.starts_with('-') && options.contains(&option)).then_some(value)
    })
}

fn number(words: &[&str], options: &[&str]) -> Option<usize> {
    value(words, options)?.parse().ok().filter(|count| (1..=1 << 20).contains(count))
}

/// Hosts of `a:8,b:8`.
fn hosts_of(list: &str) -> usize {
    let mut names: Vec<&str> =
        list.split(',').map(|host| host.split(':').next().unwrap_or(host)).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// Ranks of a host of `ppr:8:node`.
fn per_resource(by: &str) -> Option<usize> {
    let (count, of) = by.strip_prefix("ppr:")?.split_once(':')?;
    of.starts_with("node").then(|| count.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_hosts_of_every_launcher() {
        for (line, ranks, hosts) in [
            ("mpirun -np 16 -N 8 ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1", Some(16), Some(2)),
            ("$ mpirun -np 2 -H a:1,b:1 all_reduce_perf_mpi -g 4", Some(8), Some(2)),
            ("mpirun -np 16 --map-by ppr:8:node all_reduce_perf", Some(16), Some(2)),
            ("mpirun -np 32 --hostfile hosts4 all_reduce_perf -n 5", Some(32), None),
            ("srun -N 2 --ntasks-per-node=8 -n 16 all_reduce_perf", Some(16), Some(2)),
            ("NCCL_P2P_DISABLE=1 ./build/all_reduce_perf -b 32M -g 8", Some(8), Some(1)),
            ("mpirun -np 2 --map-by node -x UCX_TLS=rc ./osu_bw H H", Some(2), Some(2)),
            ("osu_latency D D", None, None),
            ("export NCCL_DEBUG=INFO", None, None),
        ] {
            let command = Command::read(line);
            assert_eq!((command.ranks, command.hosts), (ranks, hosts), "{line}");
        }
        let intel = Command::read("mpiexec -genv NCCL_ALGO Ring -n 2 all_reduce_perf");
        assert_eq!(intel.settings, [("NCCL_ALGO".to_owned(), "Ring".to_owned())]);
    }

    #[test]
    fn lines_that_begin_a_command() {
        for line in ["mpirun \\", "  $ /usr/bin/mpirun -np 2 \\", "A=1 x", "./all_reduce_perf_mpi"]
        {
            assert!(begins(line), "{line}");
        }
        for line in ["The command was mpirun", "", "8 2 float sum \\\\", "| a=b |"] {
            assert!(!begins(line), "{line}");
        }
    }
}
