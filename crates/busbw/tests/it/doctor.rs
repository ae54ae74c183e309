//! `busbw doctor` from outside, on whatever machine runs the tests. What it finds on recorded nodes is
//! tested beside its code.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use busbw_core::finding::Severity;
use busbw_host::doctor::Report;

fn doctor(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.arg("doctor").args(words).env_remove("BUSBW_NCCL").envs(variables.iter().copied());
    command.output().unwrap()
}

fn report(output: &Output) -> Report {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_exit_code_is_the_gate() {
    let output = doctor(&["--json"], &[]);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(i32::from(report.severity.is_wrong())));
    assert_eq!(report.severity, report.findings.iter().map(|f| f.severity).max().unwrap());
    for finding in report.findings.iter().filter(|finding| finding.severity.is_wrong()) {
        let advised = [&finding.cost, &finding.remedy, &finding.confirm];
        assert!(advised.iter().all(|text| text.is_some()), "{finding:?}");
    }
}

#[test]
fn a_pipe_gets_no_colour() {
    let output = doctor(&[], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("# busbw ") && !text.contains('\x1b'), "{text}");
}

#[test]
fn a_named_library_that_is_none_is_an_error() {
    for output in [
        doctor(&["--json"], &[("BUSBW_NCCL", "/nowhere/libnccl.so.2")]),
        doctor(&["--json", "--nccl", "/nowhere/libnccl.so.2"], &[]),
    ] {
        assert_eq!(output.status.code(), Some(1));
        let error = report(&output).findings.into_iter().find(|f| f.severity == Severity::Error);
        assert!(error.unwrap().cause.starts_with("/nowhere/libnccl.so.2 (named by the user)"));
    }
}

/// On one host ranks see the same but for their GPUs.
#[test]
fn ranks_are_compared() {
    let one = report(&doctor(&["--json", "-g", "1"], &[]));
    assert_eq!(one.ranks, Some(1));
    let gpus = report(&doctor(&["--json"], &[])).findings;
    if gpus.iter().any(|finding| finding.subject == "GPU 0") {
        return println!("waived: how many GPUs there are decides how many ranks there can be");
    }
    let output = doctor(&["--json", "-g", "3"], &[]);
    let compared = report(&output);
    assert_eq!(compared.ranks, Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!compared.findings.iter().any(|f| f.rule == "ranks"));
}

#[test]
fn help_names_the_exit_codes() {
    let output = doctor(&["--help"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("0 nothing is wrong, 1 something is"), "{text}");
}

/// The shim of NVML: tests/shims/README.md. None where it, or a C++ compiler, is not there.
fn nvml_shim() -> Option<PathBuf> {
    let shims = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/shims");
    if !shims.join("nvml.cc").exists() {
        return None;
    }
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-libnvidia-ml.so.1");
    let built = Command::new("g++")
        .args(["-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-o"])
        .arg(&library)
        .args([shims.join("nvml.cc"), shims.join("nvml_state.cc")])
        .args(["-ldl", "-lpthread"])
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the shim of NVML does not compile");
            Some(library)
        }
        Err(_) => None,
    }
}

#[test]
fn gpus_are_judged_by_what_nvml_says() {
    let Some(library) = nvml_shim() else {
        return println!("waived: no shim of NVML, or no g++ to build it with");
    };
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("nvml");
    fs::write(&planted, "1 throttle 0x48\n2 nvlink.4.state 0\n3 ecc.uncorrected 1\n").unwrap();
    let variables = [
        ("BUSBW_NVML", library.to_str().unwrap()),
        ("BUSBW_SHIM_GPUS", "4"),
        ("BUSBW_SHIM_NVML_FILE", planted.to_str().unwrap()),
    ];
    let output = doctor(&["--json", "-g", "4"], &variables);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<(String, String)> = report(&output)
        .findings
        .into_iter()
        .filter(|f| f.severity.is_wrong() && f.rule != "cores" && f.rule != "libraries")
        .map(|f| (f.subject, f.cause))
        .collect();
    let want = [
        ("GPU 1", "the hardware slows its clocks down: heat"),
        ("GPU 3", "uncorrected memory errors since the driver was loaded: 1"),
        ("GPU 2", "17 of 18 NVLinks are up"),
        ("rank 2", "NVLinks up 17 where 3 others have 18"),
    ];
    assert_eq!(found, want.map(|(subject, seen)| (subject.to_owned(), seen.to_owned())));

    let many = doctor(&["-g", "5"], &variables);
    assert_eq!(many.status.code(), Some(5), "more ranks than GPUs");
}
