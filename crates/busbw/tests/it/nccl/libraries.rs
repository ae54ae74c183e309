//! Which libraries are used: the documented order, what older NCCLs lack, and what happens without.
//! Not the search in detail: `busbw_ffi::search` has its own tests.

use std::{fs, path::Path, process::Command};

use super::shims::{LIMIT, folder, on, run, well};

const WORDS: &str = "all_reduce -g 2 -b 1K -e 1K -n 2 --batches 1";

fn at(part: &str) -> String {
    folder().join(part).display().to_string()
}

/// NCCL's version code, from the first line.
#[track_caller]
fn library(options: &str, variables: &[(&str, &str)]) -> u32 {
    well(&format!("{WORDS} {options}"), variables).read_record().run.nccl[1]
}

#[test]
fn without_gpus_the_host_is_measured_and_why_is_said() {
    let empty = tempfile::tempdir().unwrap();
    let driver = tempfile::tempdir().unwrap();
    fs::copy(at("libcuda.so.1"), driver.path().join("libcuda.so.1")).unwrap();
    for (libraries, gpus, why) in [
        (empty.path(), "8", "there is no CUDA driver (libcuda.so.1)"),
        (driver.path(), "8", "there is no NCCL (libnccl.so.2)"),
        (folder().as_path(), "0", "CUDA_ERROR_NO_DEVICE (100)"),
    ] {
        let variables = [("BUSBW_SHIM_GPUS", gpus)];
        let ended = on(&libraries.to_owned(), WORDS, &variables).start().end(LIMIT);
        ended.exits(0).says("no GPU is used, since ").says(why);
        ended.says("this measures memory of this machine (--backend host)");
        assert!(ended.stdout.contains("nccl-library=0"), "{}", ended.stdout);
        assert!(ended.stdout.starts_with("# host memory, no GPU\n"), "{}", ended.stdout);
        // A health check that runs nccl-tests' names reads the exit code.
        let theirs = WORDS.replace("all_reduce", "all_reduce_perf").replace(" --batches 1", "");
        let ended = on(&libraries.to_owned(), &theirs, &variables).start().end(LIMIT);
        ended.exits(5).says("all_reduce_perf measures GPUs, and none is used, since ").says(why);
        assert_eq!(ended.stdout, "");
        let asked = [variables[0], ("BUSBW_BACKEND", "host")];
        on(&libraries.to_owned(), &theirs, &asked).start().end(LIMIT).exits(0);
        // Who asked for GPUs gets no other figures.
        let words = format!("{WORDS} --backend nccl");
        let ended = on(&libraries.to_owned(), &words, &variables).start().end(LIMIT);
        ended.exits(5).says("--backend nccl cannot run here: ").says(why);
        assert_eq!(ended.stdout, "");
    }
}

/// A health check as people write it: nccl-tests' name and its exit code, nothing else. Every kind of absence fails it.
#[test]
fn a_health_check_that_trusts_the_exit_code_fails_without_gpus() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("check.sh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_busbw"), place.path().join("all_reduce_perf"))
        .unwrap();
    fs::write(&script, "all_reduce_perf -b 8 -e 8 -n 2 >/dev/null && echo healthy\n").unwrap();
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap_or_default());
    let check = |libraries: &Path, variable: (&str, &str)| {
        let output = Command::new("sh")
            .arg(&script)
            .env("PATH", &path)
            .env("LD_LIBRARY_PATH", libraries)
            .env("XDG_DATA_HOME", place.path())
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env_remove("BUSBW_BACKEND")
            .env(variable.0, variable.1)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let shims = folder().as_path();
    let healthy = check(shims, ("BUSBW_SHIM_GPUS", "1"));
    assert_eq!((healthy.0, healthy.1.as_str()), (Some(0), "healthy\n"), "{}", healthy.2);

    let empty = tempfile::tempdir().unwrap();
    let driver = tempfile::tempdir().unwrap();
    fs::copy(at("libcuda.so.1"), driver.path().join("libcuda.so.1")).unwrap();
    // The driver cannot say that nodes are missing: it says that there is no device, or that it does not know.
    let nodes = match Path::new("/dev/nvidiactl").exists() {
        true => "",
        false => {
            "; there is no /dev/nvidiactl: load the driver's kernel module, or start the container with its GPUs"
        }
    };
    for (libraries, variable, why) in [
        (empty.path(), ("BUSBW_SHIM_GPUS", "1"), "there is no CUDA driver (libcuda.so.1)"),
        (driver.path(), ("BUSBW_SHIM_GPUS", "1"), "there is no NCCL (libnccl.so.2)"),
        (shims, ("BUSBW_SHIM_GPUS", "0"), "CUDA_ERROR_NO_DEVICE (100)"),
        (shims, ("BUSBW_SHIM_RETAIN", "46"), "CUDA_ERROR_DEVICE_UNAVAILABLE (46)"),
        (shims, ("BUSBW_SHIM_RETAIN", "46"), "another process holds the GPU in exclusive mode"),
        (shims, ("BUSBW_SHIM_CUINIT", "999"), "CUDA_ERROR_UNKNOWN (999)"),
        (shims, ("BUSBW_SHIM_CUINIT", "999"), nodes),
        (shims, ("BUSBW_SHIM_GPUS", "0"), nodes),
    ] {
        let (code, stdout, stderr) = check(libraries, variable);
        assert_eq!((code, stdout.as_str()), (Some(5), ""), "{variable:?}: {stderr}");
        assert!(stderr.contains(why), "{variable:?}: {stderr}");
    }
}

#[test]
fn the_order_of_search() {
    let (older, oldest) = (at("nccl-2.27"), at("nccl-2.18"));
    assert_eq!(library("", &[]), 22809);
    assert_eq!(library(&format!("--nccl {older}/libnccl.so.2"), &[]), 22703);
    assert_eq!(library(&format!("--nccl {older}"), &[]), 22703);
    assert_eq!(library("--nccl libnccl.so.2", &[]), 22809);
    assert_eq!(library("", &[("BUSBW_NCCL", &oldest)]), 21805);
    assert_eq!(library(&format!("--nccl {older}"), &[("BUSBW_NCCL", &oldest)]), 22703);
    let path = format!("{older}:{}", folder().display());
    assert_eq!(library("", &[("LD_LIBRARY_PATH", &path)]), 22703);
    let path = format!("{}:{older}", folder().display());
    assert_eq!(library("", &[("LD_LIBRARY_PATH", &path)]), 22809);
}

/// A file that is no library is passed over in a search and refused where it was named.
#[test]
fn what_is_no_nccl() {
    let wrong = tempfile::tempdir().unwrap();
    let file = wrong.path().join("libnccl.so.2");
    fs::write(&file, "not a library").unwrap();
    let path = format!("{}:{}", wrong.path().display(), folder().display());
    assert_eq!(library("", &[("LD_LIBRARY_PATH", &path)]), 22809);
    for (named, exit, says) in [
        (file.as_path(), 5, "it is no 64-bit ELF library"),
        (Path::new("/nowhere/libnccl.so.2"), 5, "there is no such file"),
        (&folder().join("libcuda.so.1"), 3, "has no function ncclGetVersion: it is no NCCL"),
    ] {
        let ended = run(&format!("{WORDS} --nccl {}", named.display()), &[]);
        ended.exits(exit).says(says).says(&named.display().to_string());
        assert_eq!(ended.rows().len(), 0);
    }
    let ended = run(WORDS, &[("BUSBW_SHIM_NCCL_VERSION", "21403")]);
    ended.exits(3).says("2.18.0 is the oldest that is supported");
}

/// Alltoall, gather and scatter are sends and receives there; what else is missing is refused by the
/// version that has it.
#[test]
fn older_versions() {
    for (version, name) in [("2.18.5", "nccl-2.18"), ("2.27.3", "nccl-2.27")] {
        let nccl = at(name);
        for collective in ["all_reduce", "alltoall", "gather", "scatter", "alltoallv", "sendrecv"] {
            for layout in ["_perf -t 2 -g 2", " -g 3", "_perf -t 2 -g 2 -G 2"] {
                well(&format!("{collective}{layout} -b 1K -e 4K -n 2 --nccl {nccl}"), &[]);
            }
        }
        for (option, needed) in
            [("-R 1", "2.19.0"), ("-R 2", "2.27.0"), ("-x 1", "2.27.0"), ("-x 2", "2.28.0")]
        {
            let words = format!("{WORDS} {option} --nccl {nccl}");
            if needed <= version {
                well(&words, &[]);
                continue;
            }
            let ended = run(&words, &[]);
            ended.exits(5).says(&format!("{option} needs NCCL {needed}; this is {version}"));
        }
        // A type that came later is a row that says so.
        let rows = well(&format!("{WORDS} -d f8e4m3 --nccl {nccl}"), &[]).read_record().rows;
        let waived = rows[0].waived.as_deref().unwrap_or("");
        assert_eq!(waived.contains("it came with 2.24.0"), version == "2.18.5", "{waived}");
    }
}

/// What is set for NCCL reaches every process of ranks.
#[test]
fn the_environment_reaches_every_rank() {
    let words = "all_reduce -g 3 -b 1K -e 1K --fault rank=2,phase=timed,row=0,do=stop";
    let set = [("NCCL_NVLS_ENABLE", "0"), ("NCCL_CUMEM_HOST_ENABLE", "0")];
    let mut running = super::shims::bench(words, &set).start();
    let ranks = crate::processes::aftermath::until(LIMIT, "ranks", || {
        Some(running.ranks()).filter(|ranks| ranks.len() == 3)
    });
    for rank in ranks {
        let environment = fs::read(format!("/proc/{rank}/environ")).unwrap();
        let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        for (name, value) in set {
            assert!(variables.contains(&format!("{name}={value}").as_bytes()), "rank {rank}");
        }
    }
    running.end(LIMIT).exits(6);
}
