//! Suspicious options: a remark on stderr, and the run continues.
//! Not errors (`planning` refuses those), and not the environment (`busbw_lint`).

use busbw_core::{Benchmark, Collective, alltoallv::Traffic, collective::BufferShape, plan::Step};

use super::BenchArguments;

/// Verifications beyond which `-c` was probably meant as `-n`.
const MANY_CHECKS: i64 = 20;

/// `-i` below this is hardly a step in bytes.
const SMALL_STEP: u64 = 4096;

/// A remark for each suspicious option.
pub(super) fn suspicious_options(
    a: &BenchArguments,
    benchmark: Benchmark,
    traffic: &Traffic,
    ranks: usize,
    crowded: Option<String>,
    (min, max, step): (u64, u64, Step),
) -> Vec<String> {
    // Sizes of messages round to elements, as those of sendrecv do.
    let collective = benchmark.collective().unwrap_or(Collective::SendRecv);
    let mut remarks = Vec::new();
    if let (Some(by), Step::Factor(_)) = (&a.step_bytes, step) {
        remarks
            .push(format!("-i is the byte step, ignored with -f; for {by} iterations use -n {by}"));
    } else if let (Some(by), Step::Bytes(bytes)) = (&a.step_bytes, step)
        && bytes > 0
        && bytes < SMALL_STEP
        && (max - min) / bytes > 1000
    {
        remarks.push(format!(
            "-i {by} is a step of {bytes} bytes: {} sizes; for {by} iterations use -n {by}",
            (max - min) / bytes + 1
        ));
    }
    if let Some(checks) = a.check.filter(|c| *c > MANY_CHECKS) {
        remarks.push(format!(
            "-c {checks} repeats the verification of every row {checks} times; -c 1 verifies every element once, and iterations are -n"
        ));
    }
    remarks.extend(crowded);
    let element = match a.datatype.as_deref() {
        None if benchmark.is_between_pairs() => 1,
        Some("all") | None => 4,
        Some(name) => {
            busbw_core::DataType::from_spelling(name).map_or(4, busbw_core::DataType::bytes)
        }
    };
    let rounded =
        |bytes: u64| collective.counts(bytes as usize, element, ranks, traffic).bytes(element);
    if min > 0 && rounded(min) == 0 {
        let least = least_size(collective, element, ranks);
        let whole = if rounded(max) == 0 { "every size rounds" } else { "the first sizes round" };
        let why = if least == element {
            format!("an element has {element} bytes")
        } else {
            format!("{} gives each of {ranks} ranks a multiple of 16 bytes", collective.name())
        };
        remarks.push(format!("-b {min}: {whole} to 0 bytes, since {why}; start at -b {least}"));
    }
    if let (Step::Factor(factor), true) = (step, max > min)
        && max < min.saturating_mul(factor)
    {
        remarks.push(format!(
            "-e {max} is below -b times the factor {factor}: only the size {min} is measured"
        ));
    }
    if !a.words.is_empty() && benchmark != Benchmark::Replay {
        remarks.push(format!("'{}' is no option and is ignored", a.words.join(" ")));
    }
    remarks
}

/// The smallest size that does not round to 0.
fn least_size(collective: Collective, element: usize, ranks: usize) -> usize {
    match collective.spec().buffers {
        BufferShape::Whole => element,
        _ => 16 * ranks,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Environment, parse, plan};
    use crate::options::HostResources;
    use busbw_core::plan::BackendChoice;

    fn remarks(line: &str) -> Vec<String> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let Ok(Command::Bench { benchmark, style, program, mut arguments }) = parse(words) else {
            panic!("{line} does not parse");
        };
        // Asked for, so that nothing is said about GPUs.
        arguments.backend = Some(BackendChoice::Host);
        let host_resources = HostResources {
            cores: 4,
            cores_of_parent: 4,
            gpus: Err(String::new()),
            mpi: Err(String::new()),
            seed: 1,
        };
        plan(benchmark, style, &program, &arguments, &Environment::default(), &host_resources)
            .unwrap()
            .remarks
    }

    #[test]
    fn each_mistake_is_questioned() {
        for (line, words) in [
            ("all_reduce_perf -b 8 -e 1M -f 2 -i 100", "for 100 iterations use -n 100"),
            ("all_reduce_perf -b 8 -e 1M -i 100", "for 100 iterations use -n 100"),
            ("all_reduce_perf -c 100", "iterations are -n"),
            ("all_reduce_perf -g 8", "8 ranks share the 4 cores"),
            ("all_gather_perf -b 8 -e 1K -f 2 -g 4", "the first sizes round to 0 bytes"),
            ("all_gather_perf -b 8 -e 8 -g 4", "every size rounds to 0 bytes"),
            ("all_reduce_perf -b 8 -e 15 -f 2", "only the size 8"),
            ("all_reduce_perf stray", "'stray' is no option"),
            ("all_reduce_perf -I 2", "-I 2"),
            ("all_reduce_perf -K 3", "-K 3 belongs to -I 1"),
            ("all_reduce_perf -I 1 -K 20", "0 to 19"),
            ("all_reduce_perf -V 200", "1 to 128"),
        ] {
            let said = remarks(line);
            assert_eq!(said.len(), 1, "{line}: {said:?}");
            assert!(said[0].contains(words), "{line}: {said:?}");
        }
    }

    #[test]
    fn ordinary_lines_raise_no_question() {
        for line in [
            "all_reduce_perf -b 8 -e 128M -f 2 -g 4",
            "busbw all_reduce",
            "all_reduce_perf -b 1M -e 16M -i 1M -c 5",
            "alltoall_perf -b 128 -e 1G -f 2 -g 4",
        ] {
            assert_eq!(remarks(line), Vec::<String>::new(), "{line}");
        }
    }
}
