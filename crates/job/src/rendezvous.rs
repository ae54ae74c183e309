//! The processes of a launcher as one run: the first one supervises, lets the others in at its door, and
//! starts a process for ranks of its own; each of the others holds ranks itself, as a guest.
//! Not what ranks do (`rank`) and not what a loss means (`local`).

mod absent;
mod door;
mod hello;
pub mod interface;
mod knock;
mod let_in;
pub mod line;
pub mod meeting;
pub mod proof;
mod reach;
mod token;

pub use door::Door;
pub use let_in::{Guest, News};
pub use proof::name;
pub use token::token;

use std::{ffi::OsString, net::SocketAddr, ops::Range, path::Path, time::Duration};

use busbw_core::exit::Exit;
use rustix::process::{Pid, Signal, getppid};
use serde::{Deserialize, Serialize};

/// How long the processes of a job may take to find each other, where -T does not say longer.
const MEET: Duration = Duration::from_secs(30);

/// How long the processes of this plan may take.
pub fn patience(timeout_s: Option<u64>) -> Duration {
    MEET.max(Duration::from_secs(timeout_s.unwrap_or(0)))
}

/// What all processes of a run must have alike, and what tells them apart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// Which process, of how many.
    pub process: usize,
    pub size: usize,
    pub pid: u32,
    pub host: String,
    /// Version of busbw.
    pub version: String,
    /// The program's name and its words.
    pub words: Vec<String>,
    /// The backend that its words and its machine lead to.
    pub backend: String,
    /// The launcher's numbers of all processes of its host, if they follow each other; nothing where no
    /// variable says.
    pub block: Option<Range<usize>>,
    /// What it was asked to say, where it holds no ranks.
    pub said: String,
    /// Processors that its launcher lets it use.
    pub cores: Vec<usize>,
    /// Why it cannot take part, and the exit code for that.
    pub failure: Option<(Exit, String)>,
}

/// From a guest to the door.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToDoor {
    /// The first word: proof is asked for.
    Knock { nonce: String },
    /// Who it is, and proof of its own.
    Hello { proof: String, hello: Box<Hello> },
    /// It got a signal that ends processes.
    Signalled(i32),
    /// Its ranks have ended, well or not: their own words say which.
    Ended,
}

/// From the door to a guest.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToGuest {
    /// The answer to a knock; where to come instead, if not here.
    Challenge { proof: String, nonce: String, instead: Vec<SocketAddr> },
    /// What to run; so many descriptors follow.
    Welcome { invite: serde_json::Value, descriptors: usize },
    /// Waits are to end.
    Stop,
    /// The run is over: the exit code of all.
    End(Exit),
}

/// Our program's name and words.
fn words(args: &[OsString]) -> Vec<String> {
    let name = |path: &OsString| Path::new(path).file_name().map(ToOwned::to_owned);
    let program = args.first().and_then(name).unwrap_or_default();
    let words = std::iter::once(&program).chain(args.iter().skip(1));
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Ends this process as if it had been told to, when the process that started it is gone. Not by SIGHUP, which nohup
/// has it ignore.
pub fn end_with_parent() {
    watch_parent(|| {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    });
}

/// Calls `gone` once, when the process that started us is gone.
pub fn watch_parent(gone: impl FnOnce() + Send + 'static) {
    let parent = getppid();
    // Without a thread, whoever ends the job must end us, too.
    let _ = std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        while is_parent(parent) {
            std::thread::sleep(Duration::from_millis(500));
        }
        gone();
    });
}

/// Whether the process that started us is still `parent`: orphans get another.
pub fn is_parent(parent: Option<Pid>) -> bool {
    getppid() == parent
}
