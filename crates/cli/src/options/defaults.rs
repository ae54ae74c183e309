//! What an option of a benchmark is where it is not given, as its help shows it.
//! Not where the plan takes it from (`planning`); a test holds the two together.

use busbw_core::{Benchmark, plan::Style};
use clap::Command as Grammar;

/// The grammar of a benchmark, with `[default: …]` behind each option that has one.
pub(super) fn with_defaults(grammar: Grammar, benchmark: Benchmark, style: Style) -> Grammar {
    grammar.mut_args(|mut argument| {
        let Some(value) = default_of(argument.get_id().as_str(), benchmark, style) else {
            return argument;
        };
        let with = |help: &dyn std::fmt::Display| format!("{help} [default: {value}]");
        if let Some(long) = argument.get_long_help().map(|help| with(help)) {
            argument = argument.long_help(long);
        }
        match argument.get_help().map(|help| with(help)) {
            Some(short) => argument.help(short),
            None => argument,
        }
    })
}

/// By the option's field in `BenchArguments`; none where its help has the words already, and of flags.
fn default_of(option: &str, benchmark: Benchmark, style: Style) -> Option<&'static str> {
    let theirs = style == Style::NcclTests;
    Some(match (option, benchmark) {
        ("threads" | "aggregated" | "cycles" | "average" | "repeat" | "check", _) => "1",
        ("virtual_nodes", _) => "1",
        ("devices", _) if theirs => "1",
        ("devices", Benchmark::Messages(test)) if !test.is_multiple() => "2",
        ("devices", _) => "all",
        ("min_bytes" | "max_bytes", Benchmark::Collective(_)) if theirs => "32M",
        ("min_bytes", Benchmark::Messages(_)) => "1",
        ("min_bytes", _) => "8",
        ("max_bytes", Benchmark::Messages(_)) => "4M",
        ("max_bytes", Benchmark::Pairs) => "64M",
        ("max_bytes", Benchmark::Collective(_)) => "128M; on GPUs 8G",
        ("step_bytes", Benchmark::Pairs) | ("step_factor", Benchmark::Pairs) => {
            "none, two sizes are measured"
        }
        ("step_bytes", Benchmark::Collective(_)) if theirs => "1M",
        ("step_bytes", _) => "none, -f decides",
        ("step_factor", Benchmark::Collective(_)) if theirs => "none, -i decides",
        ("step_factor", _) => "2",
        ("iterations", Benchmark::Messages(test)) if test.is_latency() => "1000; above 8K 100",
        ("iterations", Benchmark::Messages(_)) => "20; above 8K 5",
        ("iterations", Benchmark::Pairs) => "200; for bandwidth 2",
        ("iterations", Benchmark::Collective(c)) if !c.moves_data() => "200",
        ("iterations", _) => "20; --latency 200",
        ("warmup", Benchmark::Messages(test)) if test.is_latency() => "100; above 8K 10",
        ("warmup", Benchmark::Messages(_)) => "2; above 8K 1",
        ("warmup", Benchmark::Pairs) => "20; for bandwidth 1",
        ("warmup", Benchmark::Collective(c)) if !c.moves_data() => "20",
        ("warmup", _) => "1; --latency 20",
        ("window", Benchmark::Pairs) => "32",
        ("window", _) => "64",
        ("batches", _) if theirs => "1",
        ("batches", _) => "6",
        ("max_time", _) => "30",
        ("op", _) => "sum",
        ("datatype", Benchmark::Collective(_)) => "float",
        ("datatype", _) => "int8",
        ("root" | "unalign" | "blocking" | "timeout" | "graph" | "local_register", _) => "0",
        ("per_iteration" | "per_iteration_skip" | "timestamps" | "cpu_time" | "memory", _) => "0",
        ("parallel_init" | "stream_null" | "device_implementation", _) => "0",
        ("cta_policy", _) => "-1, NCCL decides",
        ("algorithm", _) => "auto",
        ("min_ctas" | "max_ctas", _) => "auto, NCCL decides",
        ("device_cta_count", _) => "16",
        ("units", _) => "GB/s",
        ("nccl_tests_version", _) => "2.19.6",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use busbw_core::{messages::Messages, plan::Step, size};

    use crate::options::{Command, Environment, HostResources, parse, plan};

    use super::*;

    /// The words before the first `;` or `,`.
    fn first(option: &str, benchmark: Benchmark, style: Style) -> &'static str {
        let text = default_of(option, benchmark, style).unwrap_or_default();
        text.split([';', ',']).next().unwrap_or_default()
    }

    #[test]
    fn help_and_plan_have_the_same_defaults() {
        let ours = ["all_reduce", "barrier", "latency", "bw", "mbw_mr", "pairs", "all_reduce_perf"];
        for name in ours {
            let words = ["busbw", name, "--backend", "host"].map(OsString::from);
            let Ok(Command::Bench { benchmark, style, program, arguments }) = parse(words) else {
                panic!("{name}");
            };
            let cores = HostResources {
                cores: 4,
                cores_of_parent: 4,
                gpus: Err(String::new()),
                mpi: Err(String::new()),
                seed: 1,
            };
            let request =
                plan(benchmark, style, &program, &arguments, &Environment::default(), &cores);
            let plan = request.unwrap().plan;
            let said = |option: &str| first(option, benchmark, style);
            let number = |option: &str| said(option).parse::<f64>().unwrap_or(f64::NAN);
            let is_barrier = plan.benchmark.collective().is_some_and(|c| !c.moves_data());
            if !is_barrier {
                assert_eq!(size::parse(said("min_bytes")).unwrap(), plan.min_bytes, "{name}");
                assert_eq!(size::parse(said("max_bytes")).unwrap(), plan.max_bytes, "{name}");
                assert_eq!(number("check"), f64::from(plan.check), "{name}");
            }
            match plan.step {
                _ if is_barrier || benchmark == Benchmark::Pairs => {}
                Step::Factor(factor) => {
                    assert_eq!(said("step_factor"), factor.to_string(), "{name}")
                }
                Step::Bytes(step) => {
                    assert_eq!(size::parse(said("step_bytes")).unwrap(), step, "{name}");
                }
            }
            let devices = if said("devices") == "all" { 4.0 } else { number("devices") };
            assert_eq!(devices as usize, plan.devices, "{name}");
            assert_eq!(number("iterations"), f64::from(plan.iterations), "{name}");
            assert_eq!(number("warmup"), f64::from(plan.warmup), "{name}");
            assert_eq!(number("window"), f64::from(plan.messaging.window), "{name}");
            assert_eq!(number("batches"), f64::from(plan.sampling.min_batches), "{name}");
            assert_eq!(number("max_time"), plan.sampling.max_time, "{name}");
            assert_eq!(number("repeat"), f64::from(plan.sampling.launches), "{name}");
            assert_eq!(number("aggregated"), f64::from(plan.aggregated), "{name}");
            assert_eq!(number("cycles"), plan.cycles as f64, "{name}");
            assert_eq!(number("threads"), plan.threads as f64, "{name}");
            assert_eq!(said("datatype"), plan.datatypes[0].name(), "{name}");
            assert_eq!(said("op"), plan.ops[0].name(), "{name}");
            assert_eq!(number("root"), plan.roots[0] as f64, "{name}");
        }
        assert_eq!(first("devices", Messages::Bandwidth.into(), Style::Busbw), "2");
    }
}
