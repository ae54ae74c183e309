//! What a run cannot have is refused: with the exit code that says whose fault it is, and the way out.
//! Not libraries that are missing (`libraries`), not what fails later (`loss`).

use super::shims::{run, well};

#[test]
fn options_that_exclude_each_other() {
    for (options, says) in [
        ("-G 2 -z 1", "-z 1 and -z 2 wait within what -G captures"),
        ("-G 2 -z 2", "-z 1 and -z 2 wait within what -G captures"),
        ("-G 2 -y 1", "-y 1 uses the default stream, which CUDA does not capture"),
        ("-x 3", "-x 3: it must be between -1 and 2"),
        ("-R 3", "-R 3: it must be between 0 and 2"),
        ("-D 1", "needs symmetric registration: add -R 2"),
        ("--share-gpus", "--share-gpus needs a process for each rank"),
    ] {
        let ended = run(&format!("all_reduce_perf -g 2 -b 1K -e 1K {options}"), &[]);
        ended.exits(2).says(says);
        assert_eq!(ended.stdout, "", "{options}");
    }
}

#[test]
fn gpus_that_are_not_there() {
    let most = "Invalid number of GPUs: 9 requested but only 8 were found";
    for (words, variables, says) in [
        ("all_reduce -g 9", &[][..], most),
        ("all_reduce_perf -t 3 -g 3", &[], most),
        ("all_reduce -g 2", &[("NCCL_TESTS_DEVICE", "7")], most),
        ("all_reduce -g 3", &[("CUDA_VISIBLE_DEVICES", "1,3")], "only 2 were found"),
    ] {
        let ended = run(&format!("{words} -b 1K -e 1K"), variables);
        ended.exits(5).says(says);
        assert_eq!(ended.stdout, "", "{words}");
    }
}

/// What is there is used: from the first device on, and only what is visible.
#[test]
fn gpus_that_are_chosen() {
    let devices = |words: &str, variables: &[(&str, &str)]| {
        let run = well(&format!("{words} -b 1K -e 1K"), variables).read_record().run;
        run.devices.iter().map(|d| (d.device, d.address.clone())).collect::<Vec<_>>()
    };
    let of = |list: &[(usize, &str)]| {
        list.iter().map(|(device, bus)| (*device, format!("0000:{bus}:00"))).collect::<Vec<_>>()
    };
    assert_eq!(
        devices("all_reduce -g 2", &[("NCCL_TESTS_DEVICE", "6")]),
        of(&[(6, "16"), (7, "17")])
    );
    // All that are visible, numbered anew.
    assert_eq!(
        devices("all_reduce", &[("CUDA_VISIBLE_DEVICES", "1,3")]),
        of(&[(0, "11"), (1, "13")])
    );
    assert_eq!(devices("all_reduce -g 3 --share-gpus", &[("BUSBW_SHIM_GPUS", "2")]).len(), 3);
}

/// A GPU without room for the buffers: nobody reads "unhandled cuda error" in that case.
#[test]
fn a_gpu_that_is_full_names_who_fills_it() {
    let folder = tempfile::tempdir().unwrap();
    let nvml = folder.path().join("nvml");
    std::fs::write(&nvml, "* process 4242 943718400 train\n").unwrap();
    let variables =
        [("BUSBW_SHIM_USED", "1073000000"), ("BUSBW_SHIM_NVML_FILE", nvml.to_str().unwrap())];
    for name in ["all_reduce", "all_reduce_perf"] {
        let ended = run(&format!("{name} -g 2 -b 1M -e 1M"), &variables);
        ended.exits(5).says("MiB free of 1024 MiB, and 3 buffers need 3 MiB");
        ended.says("it is used by process 4242 (train, 900 MiB); free the GPU, or lower -e");
    }
    // Without NVML's word the rest of the sentence stands.
    let ended = run("all_reduce -g 2 -b 1M -e 1M -c 0", &variables[..1]);
    ended.exits(5).says("and 2 buffers need 2 MiB; free the GPU, or lower -e");
}

/// PTX 8.0 needs a driver of CUDA 12: who does not check needs no kernels.
#[test]
fn a_driver_older_than_the_kernels() {
    let old = [("BUSBW_SHIM_DRIVER", "11080")];
    let ended = run("all_reduce -g 2 -b 1K -e 1K", &old);
    ended.exits(3).says("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
    ended.says("the driver is older than CUDA 12.0: update it, or run without checks (-c 0)");
    well("all_reduce -g 2 -b 1K -e 1K -c 0", &old);
}

#[test]
fn missing_peer_access_is_said() {
    let ended = well("all_reduce -g 2 -b 1K -e 1K", &[("BUSBW_SHIM_NO_PEER", "1")]);
    ended
        .says("GPU 0 has no peer access to GPU 1: between such GPUs NCCL goes through host memory");
    assert!(ended.read_record().run.remarks.iter().any(|r| r.contains("no peer access")));
    for (words, variables) in
        [("all_reduce -g 1", &[("BUSBW_SHIM_NO_PEER", "1")][..]), ("all_reduce -g 2", &[])]
    {
        let ended = well(&format!("{words} -b 1K -e 1K"), variables);
        assert!(!ended.stderr.contains("peer access"), "{}", ended.stderr);
    }
}
