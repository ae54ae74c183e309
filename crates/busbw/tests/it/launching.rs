//! Ranks started by us: what each launcher is told (`--dry-run`), and whole runs through a program that stands
//! for ssh and starts everything on this machine.
//! Not real launchers and hosts (tests/launchers.sh).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_busbw");

/// A folder with programs that stand for launchers.
fn launchers() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("mpirun", "echo 'mpirun (Open MPI) 4.1.4'");
    write("mpiexec.hydra", "echo 'HYDRA build details:'");
    write("odd", "echo 'somebody else'");
    // ssh, but for another machine, with an environment of its own: everything behind `--` and the host's name
    // is for a shell.
    let home = folder.path().join("home");
    write(
        "ssh",
        &format!(
            "echo \"$*\" >>{0}/words\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = nowhere ] && echo 'no route to host' >&2 && exit 255\nexec env -i PATH=/usr/bin:/bin HOME={0} NCCL_ALGO=Tree sh -c \"$3\"",
            home.display()
        ),
    );
    fs::create_dir(home).unwrap();
    folder
}

/// SIGINT is received, also where these tests are a background job of a script, which ignores it.
fn busbw(folder: &Path, words: &str) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=INT").arg(PROGRAM);
    command.args(words.split_whitespace()).env_clear().env("BUSBW_NO_RECORD", "1");
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command.env("HOME", folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_launchers_are_told() {
    let folder = launchers();
    fs::write(folder.path().join("hosts"), "node1 slots=2\nnode2\n").unwrap();
    let job = "-b 8 -e 64M --launcher";
    let printed = |words: &str| {
        let mut command = busbw(folder.path(), &format!("all_reduce {job} {words} --dry-run"));
        command.env("NCCL_DEBUG", "INFO").env("UCX_TLS", "tcp").env("EDITOR", "vi");
        command.env("MASTER_PORT", "29500").current_dir(folder.path());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", text(&output.stderr));
        text(&output.stdout).trim_end().replace(PROGRAM, "busbw")
    };
    let passed = "-x BUSBW_NO_RECORD -x MASTER_PORT -x NCCL_DEBUG -x UCX_TLS";
    let list = "BUSBW_NO_RECORD,MASTER_PORT,NCCL_DEBUG,UCX_TLS";
    let rest = "busbw all_reduce -b 8 -e 64M";
    assert_eq!(
        printed("mpirun -H a:8,b:8"),
        format!("mpirun -n 16 --map-by slot -H a:8,b:8 {passed} -x MASTER_ADDR=a {rest}")
    );
    assert_eq!(
        printed("mpirun --launcher-command=mpiexec.hydra -H [::1]:8 --np 4"),
        format!("mpiexec.hydra -n 4 -hosts '[::1]:4' -genvlist {list} {rest}")
    );
    assert_eq!(
        printed("mpirun --launcher-command=mpiexec.hydra --hostfile hosts"),
        format!(
            "mpiexec.hydra -n 3 -hosts node1:2,node2:1 -genvlist {list} -genv MASTER_ADDR node1 {rest}"
        )
    );
    assert_eq!(printed("mpirun"), format!("mpirun {passed} {rest}"));
    assert_eq!(printed("slurm"), format!("srun --disable-status --export=ALL {rest}"));
    assert_eq!(
        printed("slurm -H b:2,a:1"),
        format!(
            "srun --disable-status --export=ALL,MASTER_ADDR=b --ntasks=3 --nodes=2 --distribution=arbitrary --nodelist=b,b,a {rest}"
        )
    );
    assert_eq!(printed("local -H localhost:4"), format!("{rest} -g 4"));
    let ssh = printed("ssh -H me@a:8,b:8");
    let lines: Vec<&str> = ssh.lines().collect();
    assert_eq!(lines.len(), 2, "{ssh}");
    assert!(lines[0].starts_with("ssh -T -o BatchMode=yes ") && lines[0].contains(" -l me -- a "));
    assert!(lines[1].contains(" -- b 'exec sh -c "), "{ssh}");
}

#[test]
fn what_cannot_be() {
    let folder = launchers();
    for (words, exit, why) in [
        ("--launcher ssh", 2, "needs hosts"),
        ("--launcher local -H elsewhere:2", 2, "-H names others"),
        ("-H a:2 --np 3", 2, "the hosts have 2 slots"),
        ("-H a:0", 2, "is not a number of processes"),
        ("--hostfile /nowhere", 2, "--hostfile /nowhere: No such file"),
        ("--launcher slurm -H me@a:2", 2, "leave out me@"),
        ("--launcher mpirun -H me@a:2", 2, "User me in ~/.ssh/config"),
        ("--launcher-command x", 2, "--launcher-command needs"),
        ("--launcher ssh -H a --launcher-command 'x", 2, "has no end"),
        ("-H localhost:2 -g 2", 2, "leave them out"),
        (
            "--launcher mpirun --launcher-command odd",
            5,
            "no odd on this machine reports with --version",
        ),
        ("--launcher slurm", 5, "there is no srun"),
        ("--launcher ssh -H a --launcher-command no-ssh", 5, "there is no no-ssh"),
    ] {
        let output = busbw(folder.path(), &format!("all_reduce {words}"))
            .env("PATH", folder.path())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{words}: {said}");
        assert!(said.contains(why) && output.stdout.is_empty(), "{words}: {said}");
    }
    let within = busbw(folder.path(), "all_reduce -H a:2")
        .envs([("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")])
        .output()
        .unwrap();
    assert_eq!(within.status.code(), Some(2));
    assert!(text(&within.stderr).contains("a launcher has started this process"));
}

const JOB: &str = "--launcher ssh --backend host -b 8 -e 64 -f 2 -n 5 --batches 1";

/// The program is copied once; rows, record and report are where the user is; secrets on no command line.
#[test]
fn through_ssh() {
    let folder = launchers();
    let here = folder.path();
    let run = |more: &str| -> Output {
        busbw(here, &format!("all_reduce {JOB} -H node9:2 {more}"))
            .env("BUSBW_JOB_SECRET", "whisper")
            .current_dir(here)
            .output()
            .unwrap()
    };
    let first = run("--record run.jsonl -J report.json");
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let printed = text(&first.stdout);
    assert_eq!(printed.matches(" float ").count(), 4, "{printed}");
    assert_eq!(printed.matches("#  Rank").count(), 2, "{printed}");
    assert!(printed.contains("# Writing JSON output to "), "{printed}");
    assert!(fs::read_to_string(here.join("report.json")).unwrap().contains("\"results\""));
    let shown = busbw(here, "show run.jsonl").current_dir(here).output().unwrap();
    assert_eq!(text(&shown.stdout), printed);
    let record = fs::read_to_string(here.join("run.jsonl")).unwrap();
    assert!(record.contains("\"node9:2\""), "the words are the user's");
    let words = fs::read_to_string(here.join("home/words")).unwrap();
    assert_eq!(words.lines().count(), 3, "look, copy, start: {words}");
    assert!(!words.contains("whisper"));

    let second = run("--csv");
    assert_eq!(text(&second.stdout).lines().count(), 9, "{}", text(&second.stderr));
    let words = fs::read_to_string(here.join("home/words")).unwrap();
    assert_eq!(words.lines().count(), 4, "the copy is used again: {words}");
}

#[test]
fn what_fails_at_the_other_end() {
    let folder = launchers();
    let run = |words: &str| {
        let output = busbw(folder.path(), &format!("all_reduce {words}")).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run(&format!("{JOB} -H node9:2,nowhere:2"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("ssh to nowhere") && said.contains("no route to host"), "{said}");
    let (code, said) = run("--launcher ssh --backend host -H node9:2 -b 8 -e 4");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the first size must not be above the last"), "{said}");
    let (code, said) = run(&format!("{JOB} -H node9:2 --fault rank=1,phase=timed,row=1,do=kill"));
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("rank 1 (process "), "{said}");
}

/// Every launch of a sweep goes through the launcher, with the sweep's variables, whatever the host sets.
#[test]
fn a_sweep_through_ssh() {
    let folder = launchers();
    let here = folder.path();
    let words = format!(
        "sweep -x NCCL_ALGO=Ring,unset -x OMPI_MCA_btl=self all_reduce {JOB} -H node9:2 --launches 2 --record kept --json"
    );
    let output =
        busbw(here, &words).env("NCCL_ALGO", "CollNet").current_dir(here).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(outcome["on"].as_str().unwrap().starts_with("2 ranks on host"), "{outcome}");
    let rows = outcome["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{outcome}");
    for (number, algorithm) in [Some("Ring"), None].into_iter().enumerate() {
        for row in rows {
            assert_eq!(row["cells"][number]["launches_us"].as_array().unwrap().len(), 2, "{row}");
        }
        for record in outcome["environments"][number]["records"].as_array().unwrap() {
            let record = fs::read_to_string(here.join(record.as_str().unwrap())).unwrap();
            let run: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
            assert_eq!(run["environment"]["NCCL_ALGO"].as_str(), algorithm, "{run}");
            assert_eq!(run["environment"]["OMPI_MCA_btl"], "self", "{run}");
        }
    }
    let calls = fs::read_to_string(here.join("home/words")).unwrap();
    assert_eq!(calls.lines().count(), 6, "look, copy, and a start for each launch: {calls}");
}

#[test]
fn a_sweep_of_ranks_here() {
    let folder = launchers();
    let words = "sweep -x NCCL_ALGO=Ring all_reduce -H localhost:3 --backend host -b 8 -e 8 -n 5 --batches 1 --launches 1";
    let output = busbw(folder.path(), words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains(": all_reduce_perf, 3 ranks on host"), "{printed}");
}

/// Before anything is started anywhere.
#[test]
fn sweeps_that_cannot_be() {
    let folder = launchers();
    for (words, exit, why) in [
        ("sweep -x A=1 all_reduce --launcher ssh -H a:2 -b 8 -e 4", 2, "-b is 8 bytes"),
        ("sweep -x A=1 all_reduce --launcher ssh", 2, "needs hosts"),
        ("sweep -x A=1 all_reduce --launcher slurm", 2, "give --np N"),
        ("sweep -x A=1 all_reduce -H a:2 --dry-run", 2, "--dry-run cannot be used here"),
        ("sweep -x A=1 all_reduce --launcher local -H a:2", 2, "-H names others"),
        ("sweep -x A=1 all_reduce --launcher mpirun -H me@a:2", 2, "User me in"),
        ("sweep -x A=1 all_reduce -H a:2,b:2 --backend host", 2, "of one machine"),
        ("transports -H a:2,b:2 all_reduce --backend host", 2, "of one machine"),
        ("transports --launcher=slurm all_reduce", 2, "give --np N"),
    ] {
        let output = busbw(folder.path(), words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{words}: {said}");
        assert!(said.contains(why), "{words}: {said}");
        assert_eq!(text(&output.stdout), "", "{words}");
    }
    assert!(!folder.path().join("home/words").exists(), "ssh was called");
}

/// A run without an end of its own, gone with this.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// After Ctrl-C, and after SIGKILL, nothing is left at the other end; Ctrl-C keeps the rows.
#[test]
fn nothing_outlives_us() {
    let run = "all_reduce --launcher ssh --backend host -H node9:2 -b 8 -e 8 -n 5 -N 0 --record run.jsonl";
    let sweep = "sweep -x A=1 all_reduce --launcher ssh --backend host -H node9:2 -b 8 -e 32M -f 2 -n 100 --record .";
    for (signal, words, record) in [
        (Signal::INT, run, "run.jsonl"),
        (Signal::KILL, run, "run.jsonl"),
        (Signal::INT, sweep, "1-1.jsonl"),
        (Signal::KILL, sweep, "1-1.jsonl"),
    ] {
        let folder = launchers();
        let mut command = busbw(folder.path(), words);
        command.current_dir(folder.path());
        command.stdout(fs::File::create(folder.path().join("out")).unwrap()).stderr(Stdio::null());
        let mut child = Endless(command.spawn().unwrap());
        let rows = || {
            let record = fs::read_to_string(folder.path().join(record)).unwrap_or_default();
            record.matches("\"kind\":\"row\"").count()
        };
        let wait = |what: &str, until: &mut dyn FnMut() -> bool| {
            let by = Instant::now() + Duration::from_secs(60);
            while !until() {
                assert!(Instant::now() < by, "{signal:?}: no {what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        wait("rows", &mut || rows() > 0);
        kill_process(Pid::from_child(&child.0), signal).unwrap();
        wait("end", &mut || child.0.try_wait().unwrap().is_some());
        let status = child.0.wait().unwrap();
        if signal == Signal::INT {
            assert_eq!(status.code(), Some(130), "{words}");
            let printed = fs::read_to_string(folder.path().join("out")).unwrap();
            assert!(printed.lines().any(|line| !line.starts_with('#')), "{printed}");
        }
        let home = folder.path().join("home");
        let runs = |pid: &str| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&home))
        };
        wait("end of the processes there", &mut || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            !all.into_iter().any(|entry| runs(&entry.file_name().to_string_lossy()))
        });
    }
}
