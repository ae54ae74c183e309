//! What `busbw explain` is given of a job that hangs: files and folders, NCCL's RAS, and processes of this host.
//! Not what it means (`busbw_analysis::hang`), and not the files' forms (`busbw_logs::hang`).

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, available_parallelism},
    time::{Duration, Instant, UNIX_EPOCH},
};

use busbw_analysis::hang::{self, HangReport};
use busbw_core::{exit::Exit, printable::Printable};
use busbw_host::{
    machine,
    process_state::{ProcessState, boot_id, pid_namespace, process_state},
};
use busbw_library_logs::failure::FailureFacts;
use busbw_logs::{
    hang::{BY_RAS, Condition, Evidence, Parsed, Process, Reader, is_evidence},
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
    /// Why RAS gave no report.
    no_ras: Option<String>,
}

impl HangEvidence {
    /// Asks RAS, twice where that is quick. What it does not say may be in files: see [`HangEvidence::judge`].
    pub(crate) fn ask_ras(&mut self, address: &str) {
        let started = Instant::now();
        for (turn, timeout) in [RAS_TIMEOUT, RAS_SECOND_TIMEOUT].into_iter().enumerate() {
            if turn > 0 {
                if started.elapsed() > RAS_FAST {
                    break;
                }
                thread::sleep(RAS_PAUSE);
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
                    self.no_ras = Some(error);
                    return;
                }
            }
        }
    }

    /// Takes the files that tell of a hang, and gives back the others.
    pub(crate) fn take(&mut self, named: &[PathBuf], exit: &mut Exit) -> Vec<Entry> {
        let mut others = Vec::new();
        for batch in batches(import::files(named)) {
            for (entry, parsed) in parsed(batch) {
                match parsed {
                    Ok(Some(parsed)) => {
                        self.reader.take(parsed, &entry.path.display().to_string());
                        self.is_there = true;
                    }
                    Ok(None) => others.push(entry),
                    Err(error) => {
                        say(&error);
                        *exit = Exit::Usage;
                    }
                }
            }
        }
        others
    }

    /// Keeps what a log says of failures: beside other evidence it tells who died.
    pub(crate) fn logs(&mut self, path: &Path, runs: &[Measurement]) {
        let failed = runs.iter().filter(|run| !run.failure.is_empty());
        self.logs.extend(failed.map(|run| (path.display().to_string(), run.failure.clone())));
    }

    /// The verdict; none where there are logs alone, which explain themselves. A verdict of files says that RAS is missing; without one that is
    /// an error.
    pub(crate) fn judge(mut self, exit: &mut Exit) -> Option<HangReport> {
        if !self.is_there {
            if let Some(error) = &self.no_ras {
                say(error);
                *exit = Exit::Usage;
            }
            return None;
        }
        for (name, facts) in &self.logs {
            self.reader.log(facts, name);
        }
        let mut evidence = self.reader.finish();
        ask_this_host(&mut evidence);
        let mut report = hang::judge(&evidence);
        if let Some(error) = self.no_ras {
            report.missing.push(format!("a report of NCCL's RAS: {error}"));
        }
        Some(report)
    }
}

/// Files that are parsed before they are taken: a few for each processor, since of each more is kept than in the end, and no
/// more bytes than the largest file may have, but one file at least.
fn batches(files: Vec<Entry>) -> Vec<Vec<Entry>> {
    let (mut batches, mut bytes) = (Vec::<Vec<Entry>>::new(), 0_u64);
    let most = 8 * available_parallelism().map_or(1, usize::from);
    for entry in files {
        let own = fs::metadata(&entry.path).map_or(0, |about| about.len());
        bytes = bytes.saturating_add(own);
        match batches.last_mut() {
            Some(batch) if bytes <= MAX_FILE_BYTES && batch.len() < most => batch.push(entry),
            _ => {
                bytes = own;
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

/// Each file with what it says, in their order; by as many threads as this process has processors.
fn parsed(files: Vec<Entry>) -> Vec<(Entry, Result<Option<Parsed>, String>)> {
    let threads = available_parallelism().map_or(1, usize::from).min(files.len());
    let next = AtomicUsize::new(0);
    let parse = || {
        let mut done = Vec::new();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(entry) = files.get(number)
        {
            done.push((number, parse(&entry.path)));
        }
        done
    };
    let mut all: Vec<(usize, Result<Option<Parsed>, String>)> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(parse)).collect();
        // A panic of a parser is one of this program.
        let ended =
            started.into_iter().map(|one| one.join().unwrap_or_else(|cause| resume_unwind(cause)));
        ended.flatten().collect()
    });
    all.sort_by_key(|(number, _)| *number);
    files.into_iter().zip(all.into_iter().map(|(_, parsed)| parsed)).collect()
}

/// What a file says of a hang; none where it is no such file.
fn parse(path: &Path) -> Result<Option<Parsed>, String> {
    // A pipe can be read once: it is a log.
    if !path.is_file() {
        return Ok(None);
    }
    let fail = |error: io::Error| format!("cannot read {}: {error}", path.display());
    // What cannot be opened is said where logs are read.
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    let mut bytes = Vec::new();
    (&mut file).take(HEAD_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    if !is_evidence(&bytes) {
        return Ok(None);
    }
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    let written = fs::metadata(path).and_then(|about| about.modified()).ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let written = written.and_then(|time| u64::try_from(time.as_nanos()).ok());
    Parsed::of(&bytes, &path.display().to_string(), written)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Looks after processes of this host that have fallen silent.
fn ask_this_host(evidence: &mut Evidence) {
    let proc = Path::new("/proc");
    let here = Here {
        names: [machine::host_name(), machine::system_name()],
        boot: boot_id(proc),
        pid_namespace: pid_namespace(proc),
    };
    for process in &mut evidence.processes {
        let (Some(sight), Some(pid), Some(began)) =
            (here.sight(process), process.pid, process.began)
        else {
            continue;
        };
        // It wrote its first line when it was there.
        if let Some(condition) =
            asked(process, sight, pid, process_state(proc, pid, began / 1_000_000_000))
        {
            process.condition = condition;
        }
    }
}

/// What this process sees of another one.
struct Here {
    names: [String; 2],
    boot: Option<String>,
    pid_namespace: Option<u64>,
}

/// How a process is known to be one that this one sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// By the host's boot.
    Boot,
    /// By the host's name, which others may have, too.
    Name,
}

impl Here {
    fn sight(&self, process: &Process) -> Option<Sight> {
        match &process.boot {
            Some(_) => {
                let same = process.boot == self.boot && process.pid_namespace == self.pid_namespace;
                same.then_some(Sight::Boot)
            }
            None => {
                let host = process.host.as_ref()?.split('.').next()?;
                self.names.iter().any(|own| own == host).then_some(Sight::Name)
            }
        }
    }
}

/// What becomes of a process of which nothing is heard, by its state here.
fn asked(
    process: &Process,
    sight: Sight,
    pid: u32,
    state: Option<ProcessState>,
) -> Option<Condition> {
    let is_silent = matches!(process.condition, Condition::Silent(_));
    // Who does not answer RAS is stopped, or gone: this host knows which.
    let is_missed = match &process.condition {
        Condition::Stopped(how) | Condition::Died(how) => how.contains(BY_RAS),
        _ => false,
    };
    if !is_silent && !is_missed && process.condition != Condition::Unknown {
        return None;
    }
    let host = match sight {
        Sight::Boot => "this host",
        Sight::Name => "the host that has this name here",
    };
    let heard = if is_silent { "writes no heartbeat" } else { "does not answer RAS" };
    match state? {
        ProcessState::Stopped => {
            Some(Condition::Stopped(format!("/proc/{pid}/stat of {host}: state T, stopped")))
        }
        ProcessState::Zombie => {
            Some(Condition::Died(format!("/proc/{pid}/stat of {host}: state Z, it ended")))
        }
        // A process of a container has another number here: only with the silence it means something.
        ProcessState::Gone if is_silent || is_missed => Some(Condition::Died(format!(
            "{host} has no process {pid} of then any more, and it {heard}"
        ))),
        ProcessState::Gone | ProcessState::There => None,
    }
}

fn say(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(condition: Condition, boot: Option<&str>) -> Process {
        Process {
            host: Some("vm".to_owned()),
            boot: boot.map(str::to_owned),
            pid_namespace: boot.map(|_| 1),
            condition,
            ..Process::default()
        }
    }

    fn here(boot: &str, namespace: u64) -> Here {
        let names = ["vm".to_owned(), "vm".to_owned()];
        Here { names, boot: Some(boot.to_owned()), pid_namespace: Some(namespace) }
    }

    #[test]
    fn a_host_of_the_same_name_is_another_host() {
        let known = process(Condition::Silent(9), Some("a"));
        assert_eq!(here("a", 1).sight(&known), Some(Sight::Boot));
        assert_eq!(here("b", 1).sight(&known), None);
        assert_eq!(here("a", 2).sight(&known), None);
        // Files of older profilers have the name alone.
        let named = process(Condition::Silent(9), None);
        assert_eq!(here("a", 1).sight(&named), Some(Sight::Name));
        assert_eq!(here("a", 1).sight(&Process { host: Some("vm2".into()), ..named }), None);
    }

    #[test]
    fn the_state_here_is_more_than_what_ras_does_not_hear() {
        let silent = process(Condition::Silent(9), Some("a"));
        let missed = process(Condition::Died(format!("{BY_RAS} has given it up")), Some("a"));
        let alive = process(Condition::Alive, Some("a"));
        for (process, state, died) in [
            (&silent, ProcessState::Gone, Some(true)),
            (&missed, ProcessState::Gone, Some(true)),
            // RAS gives up a process that is stopped, too.
            (&missed, ProcessState::Stopped, Some(false)),
            (&silent, ProcessState::There, None),
            (&alive, ProcessState::Gone, None),
        ] {
            let became = asked(process, Sight::Boot, 7, Some(state));
            assert_eq!(became.map(|one| matches!(one, Condition::Died(_))), died, "{state:?}");
        }
        let unknown = process(Condition::Unknown, Some("a"));
        assert_eq!(asked(&unknown, Sight::Boot, 7, Some(ProcessState::Gone)), None);
    }
}
