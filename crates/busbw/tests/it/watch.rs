//! `busbw watch` from outside: its text, JSON, exit codes, metrics, and what it refuses. What it finds is tested where it is
//! found (`busbw-watch`); the files are of a made-up job (crates/watch/examples/files.rs).

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn job(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch").join(name)
}

fn watch(words: &[&str], sources: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.arg("watch").args(words).args(sources).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes_say_how_the_job_is() {
    for (name, code, state, last) in [
        ("healthy", 0, "fine", "nobody is late beyond the noise"),
        ("late", 1, "late", "its GPU is busy"),
    ] {
        let output = watch(&["--once"], &[job(name)]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = text(&output.stdout);
        assert!(said.lines().last().unwrap().contains(last), "{said}");
        let json: Value =
            serde_json::from_slice(&watch(&["--once", "--json"], &[job(name)]).stdout).unwrap();
        assert_eq!(json["state"], state);
        assert_eq!(json["processes"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn one_rank_alone_cannot_tell() {
    let output = watch(&["--once"], &[job("late").join("h0.3.jsonl")]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("have no file here") && said.contains("cannot tell"), "{said}");
}

#[test]
fn a_limit_and_a_run_stand_beside() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.jsonl");
    let record = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["all_reduce", "--backend", "fake", "-g", "2", "-b", "16M", "-e", "16M", "--record"])
        .arg(&run)
        .output()
        .unwrap();
    assert!(record.status.success(), "{record:?}");
    let words = ["--once", "--json", "--machine", "dgx-h100", "--against", run.to_str().unwrap()];
    let json: Value = serde_json::from_slice(&watch(&words, &[job("healthy")]).stdout).unwrap();
    let speeds = json["groups"].as_array().unwrap().iter();
    let mut speeds = speeds.flat_map(|group| group["speeds"].as_array().unwrap());
    let speed = speeds.find(|speed| speed["most"] == 16 << 20).unwrap();
    assert!(speed["limit"].as_f64().unwrap() > 100.0, "{speed}");
    assert!(speed["earlier"].as_f64().unwrap() > 0.0, "{speed}");
}

#[test]
fn what_is_no_job_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, foreign) = (folder.path().join("empty"), folder.path().join("foreign"));
    for path in [&empty, &foreign] {
        fs::create_dir(path).unwrap();
    }
    fs::write(foreign.join("x.jsonl"), "{\"kind\":\"run\"}\n").unwrap();
    for (sources, why) in [
        (vec![empty], "no file of a profiler"),
        (vec![foreign], "not that of a file of busbw's profiler"),
        (vec![folder.path().join("none")], "cannot read"),
    ] {
        let output = watch(&["--once"], &sources);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{sources:?}: {said}");
        assert!(said.contains(why), "{sources:?}: {said}");
    }
    let output = watch(&["--once", "--pid", "1"], &[job("healthy")]);
    assert!(text(&output.stderr).contains("--pid 1: no file is of that process"), "{output:?}");
}

#[test]
fn ranks_are_no_launches() {
    let output = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .arg("compare")
        .args([job("late"), job("healthy")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("no launches of their own"), "{output:?}");
}

/// A torn file, one of another version and one that is no text do not hide the others.
#[test]
fn damaged_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(job("healthy")).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let first = folder.path().join("h0.0.jsonl");
    let bytes = fs::read(&first).unwrap();
    fs::write(&first, &bytes[..bytes.len() - 40]).unwrap();
    let head = text(&bytes).lines().next().unwrap().replace("\"version\":1", "\"version\":9");
    fs::write(folder.path().join("newer.jsonl"), format!("{head}\n")).unwrap();
    fs::write(folder.path().join("binary.jsonl"), [0_u8, 255, 10, 3]).unwrap();
    let output = watch(&["--once"], &[folder.path().to_owned()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("newer.jsonl: it has version 9"), "{said}");
    assert!(said.contains("binary.jsonl: its first line is not that"), "{said}");
}

#[test]
fn metrics_are_written_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("busbw.prom");
    watch(&["--once", "--metrics", file.to_str().unwrap()], &[job("late")]);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("busbw_watch_state{state=\"late\"} 1\n"), "{written}");
    assert!(written.ends_with("# EOF\n"));

    let mut child = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["watch", "--prometheus", "127.0.0.1:0"])
        .arg(job("late"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let others = ["GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n"].map(ask);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n") && answer.contains("busbw_rank_straggler{"), "{answer}");
    assert!(others[0].contains(" 404 ") && others[1].contains(" 405 "), "{others:?}");
}

/// What stands for ssh: each host has a data folder of its own.
fn ssh(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("ssh");
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" != down ] || { echo 'ssh: down: no route' >&2; exit 255; }\nexport XDG_DATA_HOME=\"$(dirname \"$0\")/$2\"\nexec sh -c \"$3\"\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Where a host's data folder has the job's files.
const FILES: &str = "busbw/watch/1";

/// Two hosts, each with the files of two ranks of a job.
fn two_hosts(name: &str, folder: &Path) {
    for (host, ranks) in [("a", ["h0.0", "h0.1"]), ("b", ["h0.2", "h0.3"])] {
        let files = folder.join(host).join(FILES);
        fs::create_dir_all(&files).unwrap();
        for rank in ranks {
            let file = format!("{rank}.jsonl");
            fs::copy(job(name).join(&file), files.join(&file)).unwrap();
        }
    }
}

#[test]
fn files_of_several_hosts_are_one_job() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts("late", folder.path());
    let ssh = ssh(folder.path());
    let on = |hosts: &str, rest: &[&str]| {
        let words = ["--once", "-H", hosts, "--launcher-command", ssh.to_str().unwrap()];
        let words: Vec<&str> = words.into_iter().chain(rest.iter().copied()).collect();
        watch(&words, &[])
    };
    let both = on("a,b", &["--json"]);
    assert_eq!(both.status.code(), Some(1), "{both:?}");
    let mut here: Value =
        serde_json::from_slice(&watch(&["--once", "--json"], &[job("late")]).stdout).unwrap();
    let mut there: Value = serde_json::from_slice(&both.stdout).unwrap();
    // The copies are other files with the same lines.
    for view in [&mut here, &mut there] {
        for process in view["processes"].as_array_mut().unwrap() {
            process.as_object_mut().unwrap().remove("file");
        }
    }
    assert_eq!(there, here);
    // A host that cannot be reached is said, and the others are looked at.
    let one = on("a,down", &[]);
    assert_eq!(one.status.code(), Some(5), "{one:?}");
    let said = text(&one.stderr);
    assert!(said.contains("down: ") && said.contains("no route"), "{said}");
    assert!(text(&one.stdout).contains("have no file here"), "{one:?}");
    let none = on("down", &[]);
    assert_eq!(none.status.code(), Some(3), "{none:?}");
    // No job, on one of them.
    fs::remove_dir_all(folder.path().join("b/busbw")).unwrap();
    let gone = on("a,b", &[]);
    assert_eq!(gone.status.code(), Some(5), "{gone:?}");
    assert!(text(&gone.stderr).contains("b: no job has written anything"), "{gone:?}");
}

/// Lines that are added on a host arrive while it is watched.
#[test]
fn what_another_host_adds_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts("late", folder.path());
    let added = folder.path().join("b").join(FILES).join("h0.3.jsonl");
    let whole = fs::read_to_string(&added).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&added, lines[..2].concat()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["watch", "--json", "--last", "100000", "-H", "a,b", "--launcher-command"])
        .arg(ssh(folder.path()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut views = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut state = || -> Value {
        let view: Value = serde_json::from_str(&views.next().unwrap().unwrap()).unwrap();
        view["state"].clone()
    };
    assert_ne!(state(), "late");
    fs::OpenOptions::new()
        .append(true)
        .open(&added)
        .unwrap()
        .write_all(lines[2..].concat().as_bytes())
        .unwrap();
    let seen = (0..60).any(|_| state() == "late");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen);
}
