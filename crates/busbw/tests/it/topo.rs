//! `busbw topo` from outside: what it reads, what it refuses, its exit codes. What it says of hosts is
//! tested beside its code.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn topo(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw")).arg("topo").args(words).output().unwrap()
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware/tests/data/topology");
    folder.join(name).to_str().unwrap().to_owned()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn temporary(name: &str, content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    (folder, path)
}

#[test]
fn this_machine_is_read_whatever_it_is() {
    let report = json(&topo(&["--json"]));
    assert_eq!(report["schema"], 2);
    assert!(!report["system"]["cpus"].as_array().unwrap().is_empty());
    let printed = topo(&[]);
    let printed_text = text(printed.stdout);
    assert_eq!(printed.status.code(), Some(0));
    assert!(printed_text.starts_with("# busbw ") && !printed_text.contains('\x1b'));
}

#[test]
fn findings_do_not_fail() {
    let report = json(&topo(&["--json", &file("rtx4090_cx5_ib.xml")]));
    let finding = &report["findings"][0];
    assert_eq!(finding["cause"], "the slot (7.88) is narrower than the NIC (12.5)");
    assert_eq!(finding["rule"], "slot");
    assert_eq!(report["nccl_paths"][0][2], "PHB");
    assert_eq!(report["matrices"][0]["cells"][0][1], "PIX");
    assert_eq!(report["machine"]["node"]["nics"][0]["slot"]["width"], 8);
}

#[test]
fn every_form_is_recognised_by_its_content() {
    for (name, words) in [
        ("h200x8.xml", "18 NVLinks"),
        ("mi350x8.xml", "RCCL's topology"),
        ("graphs.xml", "Ring: 2 channels"),
        ("gb200_smi.txt", "nvidia-smi topo -m"),
        ("markdown_smi.txt", "GPU1"),
    ] {
        let output = topo(&[&file(name)]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(text(output.stdout).contains(words), "{name}");
    }
    let (_keep, path) =
        temporary("mine.toml", "nodes = 1\ngpus = 2\nmodel = \"RTX 4090\"\npcie = \"4.0 x16\"\n");
    let output = topo(&[path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(output.stdout).contains("PCIe 4.0 x16"));
    assert!(text(topo(&["dgx-h100"]).stdout).contains("18 NVLinks"));
}

#[test]
fn bad_input_is_one_line_and_exit_two() {
    let (_keep, garbage) = temporary("garbage", "this is\nno topology\n");
    let (_keep_too, machine) = temporary("bad.toml", "gpus = \"many\"\n");
    for (word, reason) in [
        (file("ascend_npu_smi.txt"), "npu-smi"),
        (file("p2p_ok_smi.txt"), "topo -p2p"),
        (garbage.to_str().unwrap().to_owned(), "neither NCCL's XML"),
        (machine.to_str().unwrap().to_owned(), "line 1"),
        ("/nowhere/topo.xml".to_owned(), "cannot read"),
        ("/".to_owned(), "cannot read"),
    ] {
        let output = topo(&[&word]);
        let said = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{word}: {said}");
        assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
        assert!(output.stdout.is_empty());
    }
    let output = topo(&["--xml", &file("gb200_smi.txt")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(topo(&["--root", "/nowhere"]).status.code(), Some(2));
}

#[test]
fn what_it_writes_it_reads() {
    for name in ["rtx4090_cx5_sockets.xml", "h200x8.xml", "mi350x8.xml"] {
        let written = topo(&["--xml", &file(name)]);
        assert_eq!(written.status.code(), Some(0));
        let (keep, path) = temporary("written.xml", &text(written.stdout));
        let (first, second) = (&["--json", &file(name)], &["--json", path.to_str().unwrap()]);
        assert_eq!(json(&topo(first))["system"], json(&topo(second))["system"], "{name}");
        let to = keep.path().join("again.xml");
        let output = topo(&[&format!("--xml={}", to.display()), &file(name)]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
        assert_eq!(fs::read(to).unwrap(), fs::read(path).unwrap());
    }
}

#[test]
fn standard_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["topo", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let table = fs::read(file("a800x8_smi.txt")).unwrap();
    child.stdin.take().unwrap().write_all(&table).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(output.stdout).contains("NV8"));
}

/// A record says which GPUs and NICs its run had, and so does what topo itself printed.
#[test]
fn records_and_its_own_json() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    let words = ["all_reduce", "--backend", "host", "-g", "2", "-b", "8", "-e", "8", "--record"];
    let run = Command::new(env!("CARGO_BIN_EXE_busbw")).args(words).arg(&record).output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    let refused = topo(&[record.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(refused.stderr).contains("not of GPUs of one known model"));
    let written = fs::read_to_string(&record).unwrap();
    let name = json_line(&written)["devices"][0]["name"].as_str().unwrap().to_owned();
    fs::write(&record, written.replace(&format!("\"{name}\""), "\"NVIDIA H200\"")).unwrap();
    let report = json(&topo(&["--json", record.to_str().unwrap()]));
    assert_eq!(report["machine"]["node"]["gpu"]["name"], "H200 SXM");

    let first = json(&topo(&["--json", &file("h200x8.xml")]));
    let again = folder.path().join("topo.json");
    fs::write(&again, first.to_string()).unwrap();
    let second = json(&topo(&["--json", again.to_str().unwrap()]));
    assert_eq!(first["system"], second["system"]);
    assert_eq!(first["machine"]["node"], second["machine"]["node"]);
}

fn json_line(record: &str) -> Value {
    serde_json::from_str(record.lines().next().unwrap()).unwrap()
}

#[test]
fn one_stdin_holds_one_thing() {
    let explain = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["explain", "--machine", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(explain.status.code(), Some(2));
    assert!(text(explain.stderr).contains("cannot both be stdin"));
}
