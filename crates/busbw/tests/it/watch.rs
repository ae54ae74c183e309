//! `busbw watch` from outside: its text, JSON, exit codes, metrics, and what it refuses. What it finds is tested where it is
//! found (`busbw-watch`); the files are of a made-up job (crates/watch/examples/files.rs).

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
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

/// A stand-in for the RAS of a job of NCCL `version`, of which rank 1 of communicator `hash` is process `pid`: its address, and
/// the masks that it was given.
fn ras(version: &'static str, hash: &'static str, pid: u32) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let masks = Arc::new(Mutex::new(Vec::new()));
    let given = masks.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                let answer = match line.split_once(' ').unwrap_or((&line, "")) {
                    ("CLIENT", _) => "SERVER PROTOCOL 2\n".to_owned(),
                    ("VERBOSE", _) => {
                        let report = format!(
                            r#"{{"nccl_version": "{version}", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": "2026-11-27 12:00:00", "communicators_count": 1, "communicators": [{{"hash": "{hash}", "secondary_hash": "0x1:0x2", "size": 2, "ranks_count": 1, "missing_ranks_count": 0, "ranks": [{{"rank": 1, "host": "192.0.2.1", "pid": {pid}, "cuda_dev": 0, "nvml_dev": 0, "status": {{"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}}, "collective_counts": {{"AllReduce": 7}}}}], "missing_ranks": []}}], "ras": {{"collection_time_sec": 0.0, "timeouts_count": 0}}}}"#
                        );
                        stream.write_all(report.as_bytes()).unwrap();
                        break;
                    }
                    ("CONTROL", mask) => {
                        given.lock().unwrap().push(mask.to_owned());
                        "OK\n".to_owned()
                    }
                    _ => "OK\n".to_owned(),
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    (address, masks)
}

/// The late job while it runs, its profilers asked for nothing: in a folder.
fn running() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(job("late")).unwrap() {
        let file = file.unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        let text = text.replace("\"mask\":70", "\"mask\":0").replace("tp-1-0", "00000000000abc01");
        let lines = text.lines().filter(|line| !line.contains("\"kind\":\"end\""));
        let text = lines.map(|line| format!("{line}\n")).collect::<String>();
        fs::write(folder.path().join(file.file_name()), text).unwrap();
    }
    folder
}

#[test]
fn profilers_record_while_watch_runs_and_are_set_back() {
    let folder = running();
    let sources = [folder.path().to_owned()];
    let (address, masks) = ras("2.32.3", "0xabc01", 1003);
    let words = ["--once", "--last", "0.1s", "--enable-profiling=full", "--ras", &address];
    let output = watch(&words, &sources);
    assert!(matches!(output.status.code(), Some(0 | 1 | 5)), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("calls are recorded without times on the GPU: NCCL 2.32.3 gives wrong ones"),
        "{said}"
    );
    assert_eq!(*masks.lock().unwrap(), ["PROFILER_MASK 0x5e", "PROFILER_MASK 0x0"]);

    // Killed: another process sets them back.
    masks.lock().unwrap().clear();
    let mut child = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["watch", "--json", "--enable-profiling", "--ras", &address])
        .args(&sources)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = |count: usize| {
        for _ in 0..600 {
            if masks.lock().unwrap().len() >= count {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    until(1);
    child.kill().unwrap();
    child.wait().unwrap();
    until(2);
    assert_eq!(*masks.lock().unwrap(), ["PROFILER_MASK 0x46", "PROFILER_MASK 0x0"]);
}

#[test]
fn another_jobs_profilers_are_left_alone() {
    let folder = running();
    let sources = [folder.path().to_owned()];
    for (version, hash, pid, why) in [
        ("2.32.3", "0xabc02", 1003, "is another job (processes 1003)"),
        ("2.32.3", "0xabc01", 77, "is another job (processes 77)"),
        ("2.30.7", "0xabc01", 1003, "is NCCL 2.30.7"),
    ] {
        let (address, masks) = ras(version, hash, pid);
        let output = watch(&["--once", "--enable-profiling", "--ras", &address], &sources);
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(text(&output.stderr).contains(why), "{output:?}");
        assert!(masks.lock().unwrap().is_empty());
    }
    // Nothing runs any more.
    let (address, masks) = ras("2.32.3", "0xabc01", 1003);
    let ended = "{\"kind\":\"end\",\"at\":9000000000,\"why\":\"finished\"}\n";
    for file in fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let all = fs::read_to_string(&path).unwrap() + ended;
        fs::write(path, all).unwrap();
    }
    let output = watch(&["--once", "--enable-profiling", "--ras", &address], &sources);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(text(&output.stderr).contains("no process of the job"), "{output:?}");
    assert!(masks.lock().unwrap().is_empty());
}
