//! Defaults by name, and every refusal.

use std::ffi::OsString;

use busbw_core::{exit::Exit, plan::Step};

use super::*;

/// A request for the host's memory, where the line says nothing of a backend.
fn request(line: &str, environment: &Environment) -> Result<Request, BadOption> {
    let host = Some("host".to_owned());
    request_without_gpus(line, &Environment { backend: host, ..environment.clone() })
}

fn request_without_gpus(line: &str, environment: &Environment) -> Result<Request, BadOption> {
    let words = line.split_whitespace().map(OsString::from);
    let Ok(super::super::Command::Bench { benchmark, style, program, mut arguments }) =
        super::super::parse(words)
    else {
        panic!("{line} does not parse");
    };
    arguments.complete(environment)?;
    let gpus = Err("there is no driver".to_owned());
    let host_resources =
        HostResources { cores: 4, cores_of_parent: 4, gpus, mpi: Err(String::new()), seed: 1 };
    plan(benchmark, style, &program, &arguments, environment, &host_resources)
}

#[test]
fn names_of_nccl_tests_measure_no_host_unasked() {
    let none = Environment::default();
    let refused = request_without_gpus("all_gather_perf -g 2", &none).unwrap_err();
    assert_eq!(refused.exit, Exit::Impossible);
    let text = refused.to_string();
    assert!(text.starts_with("all_gather_perf measures GPUs"), "{text}");
    assert!(text.contains("since there is no driver; to"), "{text}");
    // A mistake in the options is told first.
    let mistaken = request_without_gpus("all_gather_perf -b 8 -e 4", &none).unwrap_err();
    assert_eq!(mistaken.exit, Exit::Usage);
    for line in ["all_gather_perf --backend host", "all_gather_perf --backend fake"] {
        assert_eq!(request_without_gpus(line, &none).unwrap().preamble, None);
    }
    assert!(request("all_gather_perf", &none).is_ok());
    let ours = request_without_gpus("busbw all_gather", &none).unwrap();
    assert_eq!(ours.preamble.as_deref(), Some("# host memory, no GPU"));
    let bogus = Environment { backend: Some("hots".to_owned()), ..none };
    let text = request_without_gpus("busbw all_gather", &bogus).unwrap_err().to_string();
    assert!(text.contains("BUSBW_BACKEND=hots"), "{text}");
}

fn planned(line: &str) -> Plan {
    request(line, &Environment::default()).unwrap().plan
}

#[test]
fn defaults_follow_the_name() {
    let ours = planned("busbw all_reduce");
    assert_eq!((ours.min_bytes, ours.max_bytes, ours.step), (8, 128 << 20, Step::Factor(2)));
    assert_eq!((ours.ranks(), ours.sampling.min_batches), (4, 6));
    let theirs = planned("all_reduce_perf");
    assert_eq!(
        (theirs.min_bytes, theirs.max_bytes, theirs.step),
        (32 << 20, 32 << 20, Step::Bytes(1 << 20))
    );
    assert_eq!((theirs.ranks(), theirs.sampling.min_batches), (1, 1));
    assert_eq!(planned("busbw all_reduce -i 1M -b 1M").step, Step::Bytes(1 << 20));
    assert_eq!(planned("busbw all_reduce -b 1G").max_bytes, 1 << 30);
    assert_eq!(planned("broadcast_perf -g 3 -r all").roots, [0, 1, 2]);
    assert_eq!(planned("broadcast_perf -g 3 -r -1").roots, [0, 1, 2]);
}

#[test]
fn what_cannot_be_used_is_refused() {
    for line in [
        "all_reduce_perf -b 0 -e 1M -f 2",
        "all_reduce_perf -b 8 -e 16 -i 0",
        "all_reduce_perf -b 64M",
        "all_reduce_perf -b 8 -e 4",
        "all_reduce_perf -b 1T",
        "all_reduce_perf -o bogus",
        "all_reduce_perf -d flaot",
        "all_reduce_perf -g 0",
        "all_reduce_perf -t -1",
        "all_reduce_perf -n 0",
        "all_reduce_perf -m 0",
        "all_reduce_perf -z 4",
        "all_reduce_perf -a 4",
        "all_reduce_perf -f -2",
        "all_reduce_perf -D 1",
        "reduce_perf -g 2 -r 2",
        "busbw all_reduce --repeat 3 -N 2",
    ] {
        assert!(request(line, &Environment::default()).is_err(), "{line}");
    }
    let near = request("all_reduce_perf -d flaot", &Environment::default()).unwrap_err();
    assert!(near.to_string().contains("perhaps float"), "{near}");
}

#[test]
fn zero_bytes_alone_are_one_row() {
    assert_eq!(planned("all_reduce_perf -b 0 -e 0 -f 2").sizes().collect::<Vec<_>>(), [0]);
}

#[test]
fn gpu_options_are_waived_on_host() {
    let request = request("all_reduce_perf -G 2 -R 1 -y 1", &Environment::default()).unwrap();
    let options: Vec<_> = request.waived.iter().map(|w| w.option.as_str()).collect();
    assert_eq!(options, ["-G 2", "-y 1", "-R 1"]);
    assert_eq!(request.plan.graph, 0);
}

#[test]
fn environment_is_checked() {
    let set = |name: &'static str, value: &'static str| {
        Environment::read(move |n| (n == name).then(|| value.to_owned()))
    };
    let four = "all_reduce_perf -g 4";
    let split = request(four, &set("NCCL_TESTS_SPLIT", "MOD 2")).unwrap().plan;
    assert_eq!(split.colours, [0, 1, 0, 1]);
    assert_eq!(split.groups(), [vec![0, 2], vec![1, 3]]);
    let rooted = "reduce_perf -g 4 -r all";
    assert_eq!(request(rooted, &set("NCCL_TESTS_SPLIT", "MOD 2")).unwrap().plan.roots, [0, 1]);
    assert!(request("reduce_perf -g 4 -r 3", &set("NCCL_TESTS_SPLIT", "MOD 2")).is_err());
    for (name, value) in [
        ("NCCL_TESTS_SPLIT", "MOD 0"),
        ("NCCL_TESTS_SPLIT_MASK", "zz"),
        ("NCCL_TESTS_MIN_BW", "fast"),
        // JSON has no infinity: the plan that ranks get would have no gate at all.
        ("NCCL_TESTS_MIN_BW", "inf"),
        ("NCCL_TESTS_MIN_BW", "1e400"),
        ("NCCL_TESTS_DEVICE", "x"),
    ] {
        assert!(request(four, &set(name, value)).is_err(), "{name}={value}");
    }
    let launched = Environment::read(|n| match n {
        "OMPI_COMM_WORLD_SIZE" => Some("8".to_owned()),
        "OMPI_COMM_WORLD_RANK" => Some("3".to_owned()),
        _ => None,
    });
    assert!(request(four, &launched).is_err());
    let alone = Environment::read(|n| n.starts_with("OMPI_COMM").then(|| "1".to_owned()));
    assert!(request(four, &alone).is_ok());
}
