//! Processes with the variables of pods: they find each other by a file that is filled late, and say in their termination
//! messages how the run ended.
//! Not a cluster (tests/kubernetes.sh), and not which variables there are (tests of `busbw-job`).

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// Nobody resolves it: RFC 6761, section 6.4.
const NAME: &str = "bench-0.bench.invalid";

/// An indexed Job's pods on this host.
struct Job {
    folder: tempfile::TempDir,
    port: u16,
    pods: usize,
}

impl Job {
    fn new(pods: usize) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let job = Job { folder, port, pods };
        fs::write(job.coordinator(), "").unwrap();
        (0..pods).for_each(|index| fs::write(job.log(index), "").unwrap());
        job
    }

    fn coordinator(&self) -> PathBuf {
        self.folder.path().join("coordinator")
    }

    fn log(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("termination-log-{index}"))
    }

    fn message(&self, index: usize) -> String {
        fs::read_to_string(self.log(index)).unwrap()
    }

    fn pod(&self, index: usize, words: &str) -> Child {
        let mut command = Command::new("timeout");
        command.args(["120", env!("CARGO_BIN_EXE_busbw")]).args(words.split_whitespace());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .envs([("BUSBW_NO_RECORD", "1"), ("BUSBW_JOB_SECRET", "pods")])
            .envs([("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("MASTER_ADDR", NAME)])
            .env("MASTER_PORT", self.port.to_string())
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .env("BUSBW_PODS", self.pods.to_string())
            .env("BUSBW_COORDINATOR_FILE", self.coordinator())
            .env("BUSBW_TERMINATION_LOG", self.log(index));
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Every pod, the first one last; the file is filled when all have started.
    fn run(&self, words: impl Fn(usize) -> String) -> Vec<Output> {
        let mut pods: Vec<Child> =
            (0..self.pods).rev().map(|index| self.pod(index, &words(index))).collect();
        fs::write(self.coordinator(), "127.0.0.9\n").unwrap();
        pods.reverse();
        pods.into_iter().map(|pod| pod.wait_with_output().unwrap()).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_tells_the_address_where_no_name_resolves() {
    let job = Job::new(3);
    let outputs = job.run(|_| "all_reduce --backend net -b 4K -e 4K -n 2 -w 1".to_owned());
    for (index, output) in outputs.iter().enumerate() {
        assert_eq!(output.status.code(), Some(0), "{index}: {}", said(output));
        assert_eq!(job.message(index), "", "a run that ended well says nothing");
    }
    let table = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
    assert!(table.lines().any(|line| line.trim_start().starts_with("4096")), "{table}");
}

#[test]
fn an_error_that_ends_a_run_is_the_pods_message() {
    let job = Job::new(2);
    let outputs = job.run(|_| {
        "all_reduce --backend net -b 4K -e 4K --fault rank=1,phase=timed,do=kill".to_owned()
    });
    assert_ne!(outputs[0].status.code(), Some(0), "{}", said(&outputs[0]));
    let message = job.message(0);
    assert!(
        message.starts_with("busbw: ")
            && said(&outputs[0])
                .contains(message.trim_start_matches("busbw: ").lines().next().unwrap()),
        "{message}: {}",
        said(&outputs[0])
    );
}

/// Every pod of a checked job says the verdict, and exits with it.
#[test]
fn the_verdict_of_a_check_is_in_every_pod() {
    for (fault, code, beginning) in [
        ("", 0, "busbw: "),
        ("--fault rank=1,phase=timed,do=corrupt:3", 1, "busbw: not fit: collective: "),
    ] {
        let job = Job::new(2);
        let outputs = job.run(|_| format!("check --backend net -b 4K -e 4K {fault}"));
        for (index, output) in outputs.iter().enumerate() {
            assert_eq!(output.status.code(), Some(code), "{index}: {}", said(output));
            let message = job.message(index);
            assert!(message.starts_with(beginning), "{index}: {message}");
            assert!(message.len() <= 4096 && message.contains("verdict"), "{index}: {message}");
        }
        assert_eq!(job.message(0), job.message(1));
    }
}

#[test]
fn the_program_copies_itself() {
    let folder = tempfile::tempdir().unwrap();
    let copy_to = |folder: &Path| {
        let program = env!("CARGO_BIN_EXE_busbw");
        Command::new(program).arg("copy-to").arg(folder).output().unwrap()
    };
    // A second pod on the node finds the file of the first one.
    for _ in 0..2 {
        let output = copy_to(folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let copy = Command::new(folder.path().join("busbw")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&copy.stdout).starts_with("busbw "));
    let nowhere = copy_to(&folder.path().join("nowhere"));
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(said(&nowhere).contains("mount an emptyDir"), "{}", said(&nowhere));
}
