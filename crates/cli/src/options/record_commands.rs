//! Commands that begin at what was measured before: their options and help.
//! Not which command was meant (`command_line`).

use std::path::PathBuf;

use clap::{Args, Command as Grammar};

/// Options of `busbw import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArguments {
    /// Logs and reports of nccl-tests, rccl-tests or OSU, NCCL_DEBUG=INFO logs, records, and folders of
    /// them; `-` or nothing is stdin
    #[arg(value_name = "FILE")]
    pub sources: Vec<PathBuf>,
    /// Print each run as a folded record {run, rows, end}, a line each
    #[arg(long)]
    pub json: bool,
}

const IMPORT_HELP: &str = "What is recognised is kept, what is not is counted and shown. Each bandwidth is computed again from size,
time, collective and ranks; those that disagree, and a stated average that the rows do not give, are named.
Examples:
  busbw import all_reduce.log
  busbw import logs/ --json > runs.jsonl
  kubectl logs job/nccl-test | busbw import
Exit codes: 0 read, 2 a file that was named gives nothing, or no file of a folder does";

/// Their grammars.
pub(super) fn record_commands() -> [Grammar; 1] {
    [ImportArguments::augment_args(Grammar::new("import"))
        .about("Read logs and records of any benchmark: what is in them, and whether it agrees with itself")
        .after_help(IMPORT_HELP)]
}
