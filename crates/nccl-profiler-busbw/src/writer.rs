//! The thread that takes what ended out of memory and writes it, and the orders that it gets.
//! Not what is recorded (`recorder`): it slows nobody down who records.

mod collected;
mod core_wait;
mod file;
mod settled;
mod tick;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use busbw_watch_file::{Process, VERSION};
use thiserror::Error;

use self::{file::Output, tick::Writer};
use crate::{
    memory::Memory,
    setting::{Setting, file_name},
    timing::until_next,
};

/// How often calls that ended are taken out, at multiples of this of the wall clock; how late this is says whether the process
/// gets a core.
const TICK: Duration = Duration::from_millis(50);
/// How often lines are written.
const FLUSH: Duration = Duration::from_secs(1);

/// Why there is no file.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// It cannot be made.
    #[error("cannot make {}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// There is no thread to write.
    #[error("cannot start the thread that writes: {0}")]
    Thread(io::Error),
}

/// What the writer is asked for.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    asked: Mutex<Asked>,
    to_writer: Condvar,
    from_writer: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    finishes: u64,
    finished: u64,
    end: bool,
    gone: bool,
}

/// What woke the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// The time.
    Tick,
    /// All communicators ended: totals.
    Finish(u64),
    /// The process ends.
    End,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that ended is written, with totals; waits for it at most this long.
    pub fn finish(&self, longest: Duration) {
        let mut asked = self.lock();
        asked.finishes += 1;
        let number = asked.finishes;
        self.to_writer.notify_one();
        let _ = self
            .from_writer
            .wait_timeout_while(asked, longest, |asked| asked.finished < number && !asked.gone);
    }

    /// The last line is written; waits for it at most this long.
    pub fn end(&self, longest: Duration) {
        let mut asked = self.lock();
        asked.end = true;
        self.to_writer.notify_one();
        let _ = self.from_writer.wait_timeout_while(asked, longest, |asked| !asked.gone);
    }

    /// The writer waits until `due`, or for an order.
    fn wait(&self, due: Instant) -> Woken {
        let rest = due.saturating_duration_since(Instant::now());
        let asked = self.lock();
        let idle = |asked: &mut Asked| asked.finishes == asked.finished && !asked.end;
        let (asked, _) = self
            .to_writer
            .wait_timeout_while(asked, rest, idle)
            .unwrap_or_else(PoisonError::into_inner);
        match &*asked {
            Asked { end: true, .. } => Woken::End,
            asked if asked.finishes != asked.finished => Woken::Finish(asked.finishes),
            _ => Woken::Tick,
        }
    }

    fn finished(&self, number: u64) {
        self.lock().finished = number;
        self.from_writer.notify_all();
    }

    fn gone(&self) {
        self.lock().gone = true;
        self.from_writer.notify_all();
    }
}

/// Makes the file with its first line, and starts the thread: the file's path.
///
/// # Errors
/// The file or the thread cannot be made.
pub(crate) fn start(
    folder: &Path,
    setting: Setting,
    interface: u32,
    began: SystemTime,
    memory: &'static Memory,
    orders: &'static Orders,
) -> Result<PathBuf, Failure> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let pid = std::process::id();
    let path = folder.join(format!("{}.{pid}.jsonl", file_name(&host)));
    let process = Process {
        version: VERSION,
        busbw: env!("CARGO_PKG_VERSION").to_owned(),
        host,
        pid,
        boot: boot(),
        pid_namespace: fs::metadata("/proc/self/ns/pid").ok().map(|about| about.ino()),
        job: setting.job,
        rank: setting.rank,
        began: nanoseconds(began),
        gpu_origin: 0,
        interface,
        mask: setting.extent.mask(interface),
    };
    let made = Output::create(path.clone(), process);
    let output = made.map_err(|why| Failure::File { file: path.clone(), why })?;
    without_signals(|| {
        std::thread::Builder::new()
            .name("busbw-watch".to_owned())
            .stack_size(512 << 10)
            .spawn(move || run(output, memory, orders))
    })
    .map_err(Failure::Thread)?;
    Ok(path)
}

/// The host's boot.
fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// ns since 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Starts a thread that gets no signal: the job's handlers do not run on it, and a file that reaches the process's limit is
/// an error (EFBIG) and not its end (SIGXFSZ).
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals that are filled before they are read.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started
    }
}

/// The thread.
fn run(output: Output, memory: &'static Memory, orders: &'static Orders) {
    let path = output.path().display().to_string();
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut writer = Writer::new(memory, output);
        let (rest, mut period) = until_next(TICK);
        let mut due = Instant::now() + rest;
        let mut flush = Instant::now() + FLUSH;
        loop {
            let woken = orders.wait(due);
            let now = Instant::now();
            if woken == Woken::Tick {
                writer.woke_late(now.saturating_duration_since(due));
            }
            let (_, current) = until_next(TICK);
            writer.tick(current != period);
            period = current;
            writer.collect();
            writer.introduce()?;
            match woken {
                Woken::End => return writer.end(),
                Woken::Finish(number) => {
                    writer.finish()?;
                    orders.finished(number);
                }
                Woken::Tick if now >= flush || writer.much() => {
                    writer.flush()?;
                    flush = now.max(flush) + if now >= flush { FLUSH } else { Duration::ZERO };
                }
                Woken::Tick => {}
            }
            // From when its own work is done: that is no lateness.
            if now >= due {
                due = Instant::now() + until_next(TICK).0;
            }
            if !memory.on() {
                return Ok(());
            }
        }
    }));
    match written {
        Ok(Ok(())) => {}
        Ok(Err(why)) => memory.off(&format!("cannot write {path}: {why}")),
        Err(_) => memory.off("a bug of busbw's profiler, in its writer; please report it"),
    }
    orders.gone();
}
