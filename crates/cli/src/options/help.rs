//! What stands below the options in every command's help: notes, examples that can be pasted, exit codes.
//! Not the options' own lines, which stand at each option, and not the list of commands (`overview`).

use clap::Command as Grammar;

/// Examples that `-h` shows; `--help` shows all.
const BRIEF_EXAMPLES: usize = 3;

/// Comments stand in one column behind commands that are shorter.
const ALIGNED: usize = 42;

/// What stands below a command's options. Paragraphs are single lines: clap breaks them once, at the terminal's width.
pub(super) struct Below {
    /// Paragraphs.
    pub(super) notes: &'static [&'static str],
    /// Commands, and what is said of each. `{}` is the command's own name. `needs …` is what the machine must have.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// What the exit codes mean.
    pub(super) exits: &'static str,
}

impl Below {
    /// This text below the options of a command: all of it for `--help`, a few examples for `-h`.
    pub(super) fn under(&self, grammar: Grammar) -> Grammar {
        let name = grammar.get_name().to_owned();
        let examples = self.lines(&name);
        let brief = examples.get(..BRIEF_EXAMPLES).unwrap_or(&examples);
        let more = format!("All options, examples and exit codes: busbw {name} --help");
        let more = more.replace("busbw busbw", "busbw");
        let short = format!("Examples:\n{}\n{more}", brief.join("\n"));
        let notes = self.notes.iter().map(|note| (*note).to_owned());
        let long = notes.chain([format!("Examples:\n{}", examples.join("\n"))]);
        let long = long.chain([format!("Exit codes: {}", self.exits)]);
        grammar.after_help(short).after_long_help(long.collect::<Vec<_>>().join("\n\n"))
    }

    /// The examples, as lines that a shell takes.
    fn lines(&self, name: &str) -> Vec<String> {
        let commands: Vec<String> =
            self.examples.iter().map(|(command, _)| command.replace("{}", name)).collect();
        let width =
            commands.iter().map(String::len).filter(|width| *width < ALIGNED).max().unwrap_or(0);
        let with = |(command, (_, about)): (&String, &(&str, &str))| match about.is_empty() {
            true => format!("  {command}"),
            false => format!("  {command:width$}  # {about}"),
        };
        commands.iter().zip(self.examples).map(with).collect()
    }
}

const BENCH_EXITS: &str = "0 ok, 1 a gate was missed or internal, 2 usage, 3 a library failed, 4 timeout, 5 not possible on this machine, 6 a rank was lost, 7 wrong data or NCCL_TESTS_MIN_BW missed, 130 interrupted";

/// Below the list of commands.
pub(super) const EVERYTHING: Below = Below {
    notes: &[
        "Names are understood as people write them: allreduce, all-reduce and AllReduce are all_reduce; fp16, bf16 and float32 are types.",
        "busbw help COMMAND is busbw COMMAND --help.",
    ],
    examples: &[
        ("busbw all_reduce -b 8 -e 128M -f 2 -g 2", "two ranks, 8 B to 128 MiB"),
        ("busbw explain run.log --machine dgx-h100", "how good, and what limits it"),
        ("busbw doctor", "what is wrong with this node"),
        ("busbw all_reduce", "every GPU, or every core"),
        ("busbw alltoall -d bf16 -e 1M --precision 5%", "until within 5 %"),
        ("busbw all_reduce_perf -g 4", "needs GPUs: nccl-tests' defaults"),
        ("busbw all_reduce -e 1M --latency", "mean, slowest rank, percentiles"),
        ("busbw all_reduce -H hostA:8,hostB:8", "needs two hosts: by ssh"),
        ("busbw osu_allreduce -f -z50,99", "OSU's options and output"),
        ("busbw pairs", "which pair, which link is slow?"),
        ("busbw show", "the newest run again"),
        ("busbw lint job.sh", "mistakes in NCCL_* settings"),
        ("busbw import logs/", "what the logs of a folder hold"),
        ("busbw list", "past runs: when, on what, how fast"),
        ("busbw compare before.jsonl after.jsonl", "faster, slower or same"),
        ("busbw report -o newest.html", "the newest run as a page"),
        ("busbw topo", "GPUs, NICs and their links"),
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce", "needs GPUs"),
        ("busbw transports all_reduce", "needs GPUs: which transport ran?"),
        ("busbw algorithms", "which algorithm is fastest here"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a collective.
pub(super) const COLLECTIVES: Below = Below {
    notes: &["Every option of nccl-tests 2.19.6 is taken, with its meaning."],
    examples: &[
        ("busbw {} -b 8 -e 16M -f 2 -g 2", "two ranks, 8 B to 16 MiB"),
        ("busbw {} -e 1M --precision 5%", "until within 5 %"),
        ("busbw {} -e 1M -d bf16 -c 5", "another type, five checks a row"),
        ("busbw {} -e 1M --latency", "percentiles of every iteration"),
        ("busbw {} -e 1M -J out.json", "nccl-tests' JSON report as well"),
        ("busbw {} -H hostA:8,hostB:8", "needs two hosts: by ssh"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw barrier`.
pub(super) const BARRIER: Below = Below {
    notes: &[],
    examples: &[
        ("busbw barrier -g 2", "two ranks"),
        ("busbw barrier -g 2 -n 1000", "1000 barriers a batch"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a collective under nccl-tests' name.
pub(super) const NCCL_TESTS: Below = Below {
    notes: &[
        "Options, defaults and output are those of nccl-tests 2.19.6. Without a GPU it ends with exit code 5; --backend host measures host memory.",
    ],
    examples: &[
        ("busbw {} -b 8 -e 1M -f 2 -g 2 --backend host", ""),
        ("busbw {} -b 8 -e 8G -f 2 -g 8", "needs eight GPUs"),
        ("mpirun -n 8 busbw {} -b 8 -e 8G -f 2", "needs eight GPUs"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of a test of messages.
pub(super) const MESSAGES: Below = Below {
    notes: &["The loops are OSU's; osu_latency and its like print as they do, too."],
    examples: &[
        ("busbw {} -b 8 -e 1M -f 2", "8 B to 1 MiB, doubling"),
        ("busbw {} -e 64K -n 1000 -w 100", "iterations: timed, untimed"),
        ("mpirun -n 2 busbw {} -e 64K --backend mpi", "through MPI"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw pairs`.
pub(super) const PAIRS: Below = Below {
    notes: &[
        "Pairs are measured in rounds, all ranks at once, in both directions: latency at the first size (-b), bandwidth at the last (-e). What seems slow is measured again before it is named: docs/pairs.md.",
    ],
    examples: &[
        ("busbw pairs", "every pair of GPUs, or of cores"),
        ("busbw pairs --only bw -e 16M --strict", "exit with 1 if one is slow"),
        ("srun busbw pairs --sample 8", "needs Slurm: 8 random peers a rank"),
        ("busbw pairs --rails --launcher mpirun -H a:8,b:8", "needs two hosts"),
    ],
    exits: BENCH_EXITS,
};

/// Below the options of `busbw doctor`.
pub(super) const DOCTOR: Below = Below {
    notes: &[
        "Verdicts: fine; absent (not here, not needed); note; unknown (cannot be read here); slow (costs performance); error (something fails). Nothing on the machine is changed.",
    ],
    examples: &[
        ("busbw doctor", ""),
        ("busbw doctor --json", ""),
        ("sudo busbw doctor", "needs root: what the kernel keeps for it (ACS, XIDs)"),
        ("busbw doctor -g 8", "needs eight GPUs: what differs between ranks"),
    ],
    exits: "0 nothing is wrong, 1 something is, 2 usage, 5 more ranks than GPUs",
};

/// Below the options of `busbw explain`.
pub(super) const EXPLAIN: Below = Below {
    notes: &[
        "Measured, limit and percent; what sets the limit; a sentence; then what stands out, each finding with its evidence, how sure it is, what to do, and the command that would confirm it. What is missing for a better answer is named. The machine comes from --machine, a record, or the log as far as it names it.",
    ],
    examples: &[
        ("busbw explain all_reduce.log --machine dgx-h100", ""),
        ("busbw explain all_reduce.log --machine topo.xml --nodes 2", ""),
        ("busbw explain --list-machines", "what --machine knows"),
        ("busbw explain table.txt nccl-debug.log", "and NCCL's own lines"),
        ("busbw explain osu_latency-device.txt osu_latency-host.txt", ""),
        ("kubectl logs job/test | busbw explain - --json", "needs Kubernetes"),
        ("busbw explain all_reduce.log --markdown > comment.md", ""),
    ],
    exits: "0 explained, 2 a source is no log or cannot be read, or --machine describes none",
};

/// Below the options of `busbw topo`.
pub(super) const TOPO: Below = Below {
    notes: &[
        "Prints the tree, the way between each two devices in nvidia-smi's words, every link with its line rate, payload and what NCCL expects (GB/s one way), and what is wrong. Nothing is measured.",
    ],
    examples: &[
        ("busbw topo", "this machine"),
        ("busbw topo nccl-topo.xml", "what NCCL_TOPO_DUMP_FILE wrote"),
        ("busbw topo dgx-h100", "a machine that one has only read about"),
        ("busbw topo --xml=this.xml", "this machine, for NCCL_TOPO_FILE"),
        ("nvidia-smi topo -m | busbw topo -", "needs a GPU"),
    ],
    exits: "0 read, whatever was found; 2 the file is none of these",
};

/// Below the options of `busbw sweep`.
pub(super) const SWEEP: Below = Below {
    notes: &[
        "Every launch is a run of its own with a record; rows are sizes, columns environments. `unset`, or nothing, among the values means that the variable is not set; `\\,` is a comma within a value.",
    ],
    examples: &[
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce -b 1M -e 1G -f 4", "needs GPUs"),
        ("busbw sweep -x NCCL_PROTO=unset,LL,Simple all_reduce -e 64K", "needs GPUs"),
        ("busbw sweep -x NCCL_ALGO=Ring,Tree all_reduce --time 120s", "needs GPUs"),
    ],
    exits: "0 every environment ran, else that of the first that failed; 2 usage, 130 interrupted",
};

/// Below the options of `busbw transports`.
pub(super) const TRANSPORTS: Below = Below {
    notes: &[
        "Each transport is the environment that selects it, and the evidence that it ran: NCCL's log, and bytes that devices counted. A transport that NCCL replaced is marked; one that cannot run here is waived.",
    ],
    examples: &[
        ("busbw transports all_reduce -b 1M -e 1G -f 4", "needs GPUs"),
        ("busbw transports all_reduce --only p2p,shm,socket", "needs GPUs"),
        ("busbw transports all_reduce --virtual-nodes 2", "needs GPUs"),
    ],
    exits: "0 all that can run here ran, else that of the first that failed; 2 usage, 5 none can run here, 130 interrupted",
};

/// Below the options of `busbw show`.
pub(super) const SHOW: Below = Below {
    notes: &[],
    examples: &[
        ("busbw show", "the newest run"),
        ("busbw show --plot", "its curve, as wide as the terminal"),
        ("busbw show run.jsonl --units Gb/s", "a record's table in bits"),
    ],
    exits: "0 shown, 2 there is no such run, or it cannot be read",
};

/// Below the options of `busbw lint`.
pub(super) const LINT: Below = Below {
    notes: &[],
    examples: &[
        ("busbw lint job.sh", ""),
        ("env | busbw lint --nccl 2.28.9 -", "this shell's variables"),
    ],
    exits: "0 nothing found, 1 something found, 2 a file cannot be read",
};

/// Below the options of `busbw algorithms`.
pub(super) const ALGORITHMS: Below = Below {
    notes: &[],
    examples: &[
        ("busbw algorithms", "what was measured, or the defaults"),
        ("busbw algorithms --measure -g 2", "measure anew, and keep"),
    ],
    exits: "0 printed, 2 usage, 5 not possible on this machine",
};

/// Below the options of `busbw list`.
pub(super) const LIST: Below = Below {
    notes: &["A record that is damaged, or was cut, is listed as such."],
    examples: &[
        ("busbw list --collective all_reduce -n 10", ""),
        ("busbw list --since 2d --failed", "what went wrong since two days"),
        ("busbw compare --last 2", "the two newest runs"),
        ("busbw list --prune 30d", "old runs; --yes removes them"),
    ],
    exits: "0 listed, 2 usage",
};

/// Below the options of `busbw compare`.
pub(super) const COMPARE: Below = Below {
    notes: &[
        "Points are compared where test, type, operator, root, ranks, size and place are equal. \"same\", \"faster\" and \"slower\" are said only where at least 4 launches a side tell (--repeat, or several runs a side), or, with fewer, 20 earlier launches of the same on this machine; else \"inconclusive\" with what is missing. Ratios are of speeds: 1.05 is 5 % faster than the baseline.",
        "--fail-below counts what launches or history call slower, and takes fewer than 4 launches as they are. It fails as well where a point of the baseline is missing, data are wrong, or a run did not complete; what noise hides it names.",
    ],
    examples: &[
        ("busbw compare before.jsonl after.jsonl --fail-below 0.95", ""),
        ("busbw compare nightly/monday nightly/tuesday --markdown", ""),
        ("busbw compare mine.log --with 8x-h200-nvlink", "a reference"),
        ("busbw compare --last 2", "the two newest runs"),
        ("busbw compare all_reduce.log --machine dgx-h100 --fail-below-limit 80%", ""),
        ("busbw compare --by nodes 1node.log 2nodes.log 4nodes.log", ""),
    ],
    exits: "0 compared, 1 a gate does not hold, or nothing was compared, 2 a side cannot be read, or --fail-below-limit finds no limit",
};

/// Below the options of `busbw import`.
pub(super) const IMPORT: Below = Below {
    notes: &[
        "What is recognised is kept, what is not is counted and shown. Each bandwidth is computed again from size, time, collective and ranks; those that disagree, and a stated average that the rows do not give, are named.",
    ],
    examples: &[
        ("busbw import all_reduce.log", ""),
        ("busbw import logs/ --json > runs.jsonl", "a run a line"),
        ("kubectl logs job/test | busbw import", "needs Kubernetes"),
    ],
    exits: "0 read, 2 a file that was named gives nothing, or no file of a folder does",
};

/// Below the options of `busbw references`.
pub(super) const REFERENCES: Below = Below {
    notes: &[],
    examples: &[
        ("busbw references", ""),
        ("busbw compare mine.log --with 8x-h200-nvlink", "with one of them"),
    ],
    exits: "0 listed",
};

/// Below the options of `busbw schema`.
pub(super) const SCHEMA: Below = Below {
    notes: &[
        "Keys may be added without a new version; a reader ignores those that it does not know.",
    ],
    examples: &[
        ("busbw schema", "the names"),
        ("busbw schema explain > explain.json", "one of them"),
    ],
    exits: "0 printed, 2 there is no such schema",
};

/// Below the options of `busbw report`.
pub(super) const REPORT: Below = Below {
    notes: &["One HTML file that needs nothing else: charts, findings, setup, all rows with CSV."],
    examples: &[
        ("busbw report -o newest.html", "the newest run"),
        ("busbw report before.jsonl after.jsonl -o both.html", ""),
        ("busbw report all_reduce.log --machine dgx-h100 --redact", "for a vendor"),
        ("busbw report sweep-folder/ --title Four --force", "a sweep"),
    ],
    exits: "0 written, 2 a source cannot be read, or the page is there already (--force)",
};

/// Below the options of `busbw plugin`.
pub(super) const PLUGIN: Below = Below {
    notes: &[],
    examples: &[
        ("NCCL_NET_PLUGIN=$(busbw plugin path) ./train", "needs your program"),
        ("busbw plugin check busbw", "busbw's own"),
        ("busbw plugin check /opt/ofi/lib/libnccl-net.so", "needs that plugin"),
        ("busbw latency -e 64K --backend net", "how fast it is"),
    ],
    exits: "0 no rule failed, 1 some did, 3 it cannot be loaded",
};

/// Below the options of `busbw completions`.
pub(super) const COMPLETIONS: Below = Below {
    notes: &["Releases hold these files in the usual places."],
    examples: &[
        ("source <(busbw completions bash)", "this shell"),
        ("busbw completions zsh > _busbw", "into a folder of $fpath"),
        ("busbw completions fish > busbw.fish", "~/.config/fish/completions"),
    ],
    exits: "0 printed, 2 usage",
};

/// Below the options of `busbw man`.
pub(super) const MAN: Below = Below {
    notes: &["Releases hold these files in the usual places."],
    examples: &[
        ("busbw man all_reduce | man -l -", "needs man: read one"),
        ("busbw man --all man1", "a page for each command, into the folder"),
    ],
    exits: "0 printed or written, 2 usage",
};

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::options::parse;

    use super::super::command_line::{WORDS, grammar};

    /// What is printed for `line`, in a terminal of `width` columns.
    fn help(line: &str, width: usize) -> String {
        let mut whole = grammar().term_width(width);
        let words = line.split_whitespace().map(OsString::from);
        whole.try_get_matches_from_mut(words).unwrap_err().render().to_string()
    }

    fn names() -> Vec<String> {
        let whole = grammar();
        let shown = whole.get_subcommands();
        shown
            .map(|command| command.get_name().to_owned())
            .filter(|name| !WORDS.contains(&name.as_str()))
            .collect()
    }

    #[test]
    fn short_help_is_one_screen() {
        for name in names().iter().map(|name| format!("busbw {name} -h")).chain(["busbw -h".into()])
        {
            let text = help(&name, 80);
            assert!(text.lines().count() <= 40, "{name}: {} lines\n{text}", text.lines().count());
            assert!(text.lines().count() >= 8, "{name}: {text}");
        }
    }

    /// Lines are broken once: none is longer than the terminal, and an example is a line as it was written.
    #[test]
    fn help_wraps_once_and_examples_can_be_pasted() {
        for name in names().iter().map(|name| format!("{name} ")).chain([String::new()]) {
            for length in ["-h", "--help"] {
                for width in [80, 100] {
                    let line = format!("busbw {name}{length}");
                    let text = help(&line, width);
                    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                    assert!(longest <= width, "{line} at {width}: {text}");
                    let examples =
                        text.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{line}"));
                    for example in examples.lines().take_while(|line| line.starts_with("  ")) {
                        assert!(example.contains("busbw"), "{line}: a broken example: {example}");
                    }
                }
            }
            // A paragraph fills its lines, but for the last one.
            let text = help(&format!("busbw {name}--help"), 100);
            let below = text.split("\nOptions:\n").nth(1).unwrap_or(&text);
            for pair in below.lines().collect::<Vec<_>>().windows(2) {
                let [first, second] = pair else { continue };
                let is_text =
                    |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                let word = second.split(' ').next().unwrap_or_default();
                if is_text(first) && is_text(second) && !second.starts_with("Exit codes") {
                    assert!(first.chars().count() + word.chars().count() >= 100, "{name}: {first}");
                }
            }
        }
    }

    /// Every option that takes a value says what it is without.
    #[test]
    fn every_default_is_shown() {
        let mut whole = grammar();
        whole.build();
        for command in whole.get_subcommands() {
            for option in command.get_opts().filter(|option| {
                !option.is_hide_set()
                    && !option.is_required_set()
                    && option.get_action().takes_values()
            }) {
                let says = |help: Option<&clap::builder::StyledStr>| {
                    help.is_none_or(|help| help.to_string().contains("[default: "))
                };
                let has = !option.get_default_values().is_empty()
                    || (option.get_help().is_some()
                        && says(option.get_help())
                        && says(option.get_long_help()));
                assert!(has, "{} {}: {:?}", command.get_name(), option.get_id(), option.get_help());
            }
        }
    }

    #[test]
    fn help_and_version_are_words_too() {
        let said = |line: &str| {
            let error = parse(line.split_whitespace().map(OsString::from)).unwrap_err();
            (error.exit_code(), error.render().to_string())
        };
        for (word, option) in [
            ("busbw help", "busbw --help"),
            ("busbw version", "busbw --version"),
            ("busbw help all_reduce", "busbw all_reduce --help"),
            ("busbw help AllReduce", "busbw all_reduce --help"),
            ("busbw help plugin check", "busbw plugin check --help"),
            ("busbw help all_reduce_perf", "busbw all_reduce_perf --help"),
        ] {
            assert_eq!(said(word), said(option), "{word}");
            assert_eq!(said(word).0, 0, "{word}");
        }
        assert_eq!(said("busbw help nonsense").0, 2);
    }
}
