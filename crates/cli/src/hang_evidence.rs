//! What `busbw explain` is given of a job that hangs: files and folders, NCCL's RAS, and processes of this host.
//! Not what it means (`busbw_analysis::hang`), and not the files' forms (`busbw_logs::hang`).

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant, UNIX_EPOCH},
};

use busbw_analysis::hang::{self, HangReport};
use busbw_core::{exit::Exit, printable::Printable};
use busbw_host::{
    machine,
    process_state::{ProcessState, process_state},
};
use busbw_library_logs::failure::FailureFacts;
use busbw_logs::{
    hang::{Condition, Evidence, Reader, is_evidence},
    import::{self, Entry},
    measurement::Measurement,
};
use busbw_ras_client as ras;

/// What RAS may wait for its own peers: ncclras waits as long.
const RAS_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two reports of RAS: a job that goes on launches something in the meantime.
const RAS_PAUSE: Duration = Duration::from_millis(900);
/// A first report that took longer is slow because of peers that do not answer: those are the verdict, and it is not asked again.
const RAS_FAST: Duration = Duration::from_secs(1);
/// What RAS may wait in the second report, so that both together take no longer than one that is slow.
const RAS_SECOND_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes at the beginning of a file by which it is recognised.
const HEAD_BYTES: u64 = 1 << 16;
/// The largest file, bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// All of it.
#[derive(Default)]
pub(crate) struct HangEvidence {
    reader: Reader,
    logs: Vec<(String, FailureFacts)>,
    /// Something other than a log was read.
    is_there: bool,
}

impl HangEvidence {
    /// Asks RAS, twice where that is quick.
    pub(crate) fn ask_ras(&mut self, address: &str) -> Exit {
        let started = Instant::now();
        for (turn, timeout) in [RAS_TIMEOUT, RAS_SECOND_TIMEOUT].into_iter().enumerate() {
            if turn > 0 {
                if started.elapsed() > RAS_FAST {
                    break;
                }
                std::thread::sleep(RAS_PAUSE);
            }
            let name = format!("RAS at {address}");
            let taken = match ras::status(address, timeout) {
                Ok(report) => {
                    self.reader.read(&report.bytes, &name, None).map_err(|e| e.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match taken {
                Ok(()) => self.is_there = true,
                // The second one only adds to the first.
                Err(_) if turn > 0 => {}
                Err(error) => {
                    say(&error);
                    return Exit::Usage;
                }
            }
        }
        Exit::Ok
    }

    /// Takes the files that tell of a hang, and gives back the others.
    pub(crate) fn take(&mut self, named: &[PathBuf], exit: &mut Exit) -> Vec<Entry> {
        let mut others = Vec::new();
        for entry in import::files(named) {
            match self.one(&entry.path) {
                Ok(true) => {}
                Ok(false) => others.push(entry),
                Err(error) => {
                    say(&error);
                    *exit = Exit::Usage;
                }
            }
        }
        others
    }

    /// Takes a file; whether it is one that tells of a hang.
    fn one(&mut self, path: &Path) -> Result<bool, String> {
        // A pipe can be read once: it is a log.
        if !path.is_file() {
            return Ok(false);
        }
        let fail = |error: io::Error| format!("cannot read {}: {error}", path.display());
        // What cannot be opened is said where logs are read.
        let Ok(mut file) = File::open(path) else { return Ok(false) };
        let mut bytes = Vec::new();
        (&mut file).take(HEAD_BYTES).read_to_end(&mut bytes).map_err(fail)?;
        if !is_evidence(&bytes) {
            return Ok(false);
        }
        (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
        let written = fs::metadata(path).and_then(|about| about.modified()).ok();
        let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let written = written.and_then(|time| u64::try_from(time.as_nanos()).ok());
        self.reader
            .read(&bytes, &path.display().to_string(), written)
            .map_err(|e| e.to_string())?;
        self.is_there = true;
        Ok(true)
    }

    /// Keeps what a log says of failures: beside other evidence it tells who died.
    pub(crate) fn logs(&mut self, path: &Path, runs: &[Measurement]) {
        let failed = runs.iter().filter(|run| !run.failure.is_empty());
        self.logs.extend(failed.map(|run| (path.display().to_string(), run.failure.clone())));
    }

    /// The verdict; none where there are logs alone, which explain themselves.
    pub(crate) fn judge(mut self) -> Option<HangReport> {
        if !self.is_there {
            return None;
        }
        for (name, facts) in &self.logs {
            self.reader.log(facts, name);
        }
        let mut evidence = self.reader.finish();
        ask_this_host(&mut evidence);
        Some(hang::judge(&evidence))
    }
}

/// Looks after processes of this host that have fallen silent.
fn ask_this_host(evidence: &mut Evidence) {
    let own = [machine::host_name(), machine::system_name()];
    for process in &mut evidence.processes {
        let is_here = process
            .host
            .as_ref()
            .is_some_and(|host| own.iter().any(|own| host.split('.').next() == Some(own.as_str())));
        let (true, Some(pid), Some(began)) = (is_here, process.pid, process.began) else {
            continue;
        };
        if !matches!(process.condition, Condition::Silent(_) | Condition::Unknown) {
            continue;
        }
        // It wrote its first line when it was there.
        match process_state(Path::new("/proc"), pid, began / 1_000_000_000) {
            Some(ProcessState::Stopped) => {
                process.becomes(Condition::Stopped(format!(
                    "/proc/{pid}/stat of this host: state T, stopped"
                )));
            }
            Some(ProcessState::Zombie) => {
                process.becomes(Condition::Died(format!(
                    "/proc/{pid}/stat of this host: state Z, it ended"
                )));
            }
            // A process of a container has another number here: only with the silence it means something.
            Some(ProcessState::Gone) if matches!(process.condition, Condition::Silent(_)) => {
                process.becomes(Condition::Died(format!(
                    "this host has no process {pid} of then any more, and it writes no heartbeat"
                )));
            }
            _ => {}
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}
