//! What `--help` says for OSU's names: the options that the program has, in our words.
//! Not their meaning (`settings`).

use busbw_core::osu::{Program, Takes};

/// Every option: letter, long name, value, what it does.
const OPTIONS: [(char, &str, &str, &str); 26] = [
    (
        'm',
        "message-size",
        "[FIRST:]LAST",
        "sizes, doubling: 128, 2:128, 2: or :128; K, M and G are known",
    ),
    ('i', "iterations", "N", "timed iterations of every size"),
    ('x', "warmup", "N", "untimed iterations before"),
    ('W', "window-size", "N", "messages under way at once (64)"),
    ('V', "vary-window", "", "each window of 1, 2, 4 … 128 messages, as a grid"),
    ('p', "num-pairs", "N", "pairs that talk (half the ranks)"),
    ('R', "print-rate", "0|1", "messages a second (1)"),
    ('f', "full", "", "fastest and slowest rank's mean, iterations"),
    ('c', "validation", "", "check every byte; a column Validation, exit 7 where one is wrong"),
    ('z', "tail-lat", "[P,P…]", "up to five percentiles of all samples of all ranks (50,90,99)"),
    ('T', "type", "TYPE", "mpi_char, mpi_int, mpi_float or all (mpi_char)"),
    ('M', "mem-limit", "BYTES", "memory of a process; larger sizes are left out (512 MiB)"),
    ('k', "root-rank", "fixed:RANK", "the root (0)"),
    ('l', "in-place", "", "one buffer to send from and to receive in"),
    ('b', "buffer-num", "single|multiple", "one buffer, or one for each message of a window"),
    ('d', "accelerator", "cuda|rocm", "buffers on GPUs"),
    ('u', "validation-warmup", "N", "waived: checks run apart"),
    ('G', "graph", "FORM", "waived: busbw show --plot"),
    ('I', "session", "", "waived"),
    ('t', "num-test-calls", "N", "waived"),
    ('a', "array-size", "N", "waived"),
    ('r', "cuda-target", "TARGET", "waived"),
    ('D', "ddt", "TYPE", "refused: there are no derived types"),
    ('P', "papi", "EVENTS", "refused: there are no PAPI counters"),
    ('h', "help", "", "this"),
    ('v', "version", "", "the first line of the output"),
];

/// The help of a program.
pub(super) fn text(program: &Program) -> String {
    let words = if program.benchmark.messages().is_some() { " [D|H D|H]" } else { "" };
    let mut text = format!(
        "The output and options of {} in the OSU Micro-Benchmarks {}, measured by busbw\n\nUsage: busbw {0} [options]{words}\n\nOptions:\n",
        program.name,
        busbw_core::osu::VERSION
    );
    for (letter, long, value, about) in OPTIONS {
        let Some(takes) = program.takes(letter) else { continue };
        let value = match takes {
            Takes::Nothing => "",
            Takes::Value | Takes::Attached => value,
        };
        let lead = format!("-{letter}, --{long} {value}");
        text += &format!("  {:<36} {about}\n", lead.trim_end());
    }
    if !words.is_empty() {
        text += "  D|H D|H                              buffers of each side on a GPU or in host memory\n";
    }
    text + OURS
}

/// What does not differ between programs.
const OURS: &str = "Options of busbw's own:
  -g, --ngpus N                        ranks, where no launcher says how many
  --backend host|mpi|nccl              who moves the bytes (osu_xccl_*: nccl)
  --mpi PATH, --nccl PATH              its library
  -H HOSTS, --launcher NAME, --np N    have busbw start the ranks: docs/launchers.md
  --csv, --json                        instead of the table
  --quiet, --verbose                   nothing but the table and errors; or more
  --record PATH, --no-record           where the record goes; busbw show prints it again
  --batches N, --precision PERCENT     several batches of -i iterations; figures are medians
  --timeout SECONDS                    for one wait
Differences from OSU: docs/osu.md
Exit codes: 0 ok, 1 internal, 2 usage, 3 library, 4 timeout, 5 not possible here, 6 rank lost,
            7 wrong data, 130 interrupted
";
