//! The first process's door: who knocks proves to be of the job, is told what to run, hears when waits are
//! to end, and with which exit code the run has ended.
//! Not what becomes of a run whose guest is lost (`local`).

use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use model::{
    exit::Exit,
    plan::{BackendChoice, Plan},
};

use super::{
    Guest, Hello, ToDoor, ToGuest,
    line::Line,
    meeting::{Listener, Meeting},
    name_ranks, patience,
    proof::{self, Side},
};
use crate::{Refusal, launch::invite, options::Launched};

/// How long who knocks may take for what it has to say.
const HELLO: Duration = Duration::from_secs(5);
/// How long late ones are waited for, to tell them that the run has ended before it began.
const LATE: Duration = Duration::from_secs(2);
/// How often the doorkeeper looks up.
const LOOK: Duration = Duration::from_millis(10);

/// The door. Closed when everybody is in.
pub(in crate::launch) struct Door {
    ours: Hello,
    here: bool,
    guests: Vec<Option<Guest>>,
    knocking: mpsc::Receiver<(Hello, Line)>,
    closing: Arc<AtomicBool>,
    place: String,
}

impl Door {
    /// Opens the door of the process that `launched` describes, started with `args`.
    ///
    /// # Errors
    /// When nobody could find it, or it is taken.
    pub(in crate::launch) fn open(launched: &Launched, args: &[OsString]) -> Result<Door> {
        let meeting = Meeting::of(launched)?;
        let listener = meeting.listen()?;
        let (here, place) = (meeting.is_here(), meeting.describe());
        let closing = Arc::new(AtomicBool::new(false));
        let (let_in, knocking) = mpsc::channel();
        let closed = Arc::clone(&closing);
        let key: Arc<str> = meeting.key.into();
        std::thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || listen(&listener, &key, &let_in, &closed))
            .context("cannot start a thread for the other processes of this launcher's job")?;
        Ok(Door {
            ours: Hello::of_this(launched, args),
            here,
            guests: vec![None; launched.size],
            knocking,
            closing,
            place,
        })
    }

    /// Whether everybody is on this host.
    pub(in crate::launch) fn is_here(&self) -> bool {
        self.here
    }

    /// Waits until everybody is in. `stop` is asked meanwhile whether to give up.
    ///
    /// # Errors
    /// Who does not come, comes twice, or cannot take part.
    pub(in crate::launch) fn gather(
        &mut self,
        plan: &Plan,
        stop: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        if plan.backend == BackendChoice::Host && !self.here {
            let text = "--backend host measures memory that all ranks share, and no variable of this launcher names its job, by which they would find it: use --backend nccl, or start busbw without the launcher, with -g for the number of ranks";
            return Err(Refusal::new(Exit::Usage, text));
        }
        self.ours.backend = plan.backend.name().to_owned();
        self.wait(patience(plan.timeout_s), &|process| name_ranks(plan, process), stop).map(drop)
    }

    /// What every process of the launcher has to say, ours first, where nobody is to hold ranks.
    ///
    /// # Errors
    /// Who does not come, comes twice, or cannot take part.
    pub(super) fn call_roll(&mut self, said: String) -> Result<Vec<String>, Refusal> {
        let mut heard =
            self.wait(patience(None), &|process| format!("process {process}"), || false)?;
        heard[0] = said;
        Ok(heard)
    }

    /// Waits until everybody is in; `name` says of a process whom it stands for. What they said with
    /// their names, by process.
    fn wait(
        &mut self,
        limit: Duration,
        name: &dyn Fn(usize) -> String,
        stop: impl Fn() -> bool,
    ) -> Result<Vec<String>, Refusal> {
        let by = Instant::now() + limit;
        let mut heard = vec![String::new(); self.guests.len()];
        while self.guests.iter().skip(1).any(Option::is_none) {
            if stop() {
                return Err(Refusal::new(Exit::Interrupted, "interrupted"));
            }
            if Instant::now() >= by {
                return Err(Refusal::new(Exit::Timeout, self.missing(name, limit)));
            }
            match self.knocking.recv_timeout(LOOK) {
                Ok((hello, line)) => {
                    let judged = self.judge(name, &hello);
                    let guest = Guest::new(&hello, line);
                    if let Err(refusal) = judged {
                        guest.end(refusal.exit);
                        return Err(refusal);
                    }
                    heard[hello.process] = hello.said;
                    self.guests[hello.process] = Some(guest);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::new(Exit::Internal, "the door's thread has vanished"));
                }
            }
        }
        self.closing.store(true, Ordering::SeqCst);
        Ok(heard)
    }

    /// Who has not come, and where those are who have.
    fn missing(&self, name: &dyn Fn(usize) -> String, limit: Duration) -> String {
        let late: Vec<String> = (1..self.guests.len())
            .filter(|process| self.guests[*process].is_none())
            .map(name)
            .collect();
        let mut hosts: Vec<&str> = self.guests.iter().flatten().map(|g| g.host.as_str()).collect();
        hosts.push(&self.ours.host);
        hosts.sort_unstable();
        hosts.dedup();
        let here = if self.here { format!(" on {}", self.ours.host) } else { String::new() };
        format!(
            "{} of {} processes did not come within {} s{here}: {}. Rank 0 waits for them {}; those that came are on {}. See whether their processes run, or give them more time with -T",
            late.len(),
            self.guests.len(),
            limit.as_secs(),
            late.join(", "),
            self.place,
            hosts.join(", ")
        )
    }

    /// Whether it can take part; if not, the run cannot be.
    fn judge(&self, name: &dyn Fn(usize) -> String, hello: &Hello) -> Result<(), Refusal> {
        let (process, size) = (hello.process, self.guests.len());
        if hello.size != size || process == 0 || process >= size {
            let text = format!(
                "process {} on {} says that it is number {process} of {}, where this one is number 0 of {size}: they do not belong to one job",
                hello.pid, hello.host, hello.size
            );
            return Err(Refusal::new(Exit::Usage, text));
        }
        let whose = format!("{} (process {} on {})", name(process), hello.pid, hello.host);
        if let Some(other) = &self.guests[process] {
            let text =
                format!("{whose} is there already, as process {} on {}", other.pid, other.host);
            return Err(Refusal::new(Exit::Usage, text));
        }
        if let Some(difference) = self.ours.difference(hello) {
            return Err(Refusal::new(Exit::Usage, format!("{whose} {difference}")));
        }
        if let Some((exit, why)) = &hello.failure {
            return Err(Refusal::new(*exit, format!("{whose} cannot take part: {why}")));
        }
        if self.ours.backend != hello.backend {
            let text = format!(
                "{whose} would use --backend {}, where rank 0 on {} uses {}: say which with --backend, or see with busbw doctor why that machine differs",
                hello.backend, self.ours.host, self.ours.backend
            );
            return Err(Refusal::new(Exit::Impossible, text));
        }
        Ok(())
    }

    /// Everybody who is in, by the launcher's number from 1 on.
    pub(in crate::launch) fn guests(&self) -> impl Iterator<Item = (usize, &Guest)> {
        self.guests
            .iter()
            .enumerate()
            .filter_map(|(process, guest)| Some((process, guest.as_ref()?)))
    }

    /// Processors that all processes together may use, and whether each may use all of them.
    pub(in crate::launch) fn cores(&self) -> (usize, bool) {
        let ours = &self.ours.cores;
        let alike = self.guests().all(|(_, guest)| guest.cores == *ours);
        let theirs = self.guests().flat_map(|(_, guest)| &guest.cores);
        let all: BTreeSet<&usize> = theirs.chain(ours).collect();
        (all.len(), alike)
    }

    /// Tells everybody that the run has ended. Whoever comes late to one that never began hears it, too.
    pub(in crate::launch) fn dismiss(mut self, exit: Exit) {
        let by = Instant::now() + LATE;
        while self.guests.iter().skip(1).any(Option::is_none) && Instant::now() < by {
            let Ok((hello, line)) = self.knocking.recv_timeout(LOOK) else { continue };
            let guest = Guest::new(&hello, line);
            guest.end(exit);
            if let Some(place) = self.guests.get_mut(hello.process) {
                *place = Some(guest);
            }
        }
        self.closing.store(true, Ordering::SeqCst);
        for (_, guest) in self.guests() {
            guest.end(exit);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
    }
}

/// Lets people knock until the door closes.
fn listen(
    listener: &Listener,
    key: &Arc<str>,
    let_in: &Sender<(Hello, Line)>,
    closing: &AtomicBool,
) {
    while !closing.load(Ordering::SeqCst) {
        let Ok(line) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        let (key, let_in) = (Arc::clone(key), let_in.clone());
        // Without a thread the connection closes, and whoever knocked tries again.
        let _ = std::thread::Builder::new().name("knock".to_owned()).spawn(move || {
            // A stranger gets no word about why.
            if let Ok(known) = identify(line, &key) {
                let _ = let_in.send(known);
            }
        });
    }
}

/// Proves ourselves, asks for proof, and hears who it is.
fn identify(mut line: Line, key: &str) -> Result<(Hello, Line)> {
    let stranger = || anyhow::anyhow!("not of this job");
    line.set_read_timeout(Some(HELLO))?;
    let ToDoor::Knock { nonce } = line.receive()? else { return Err(stranger()) };
    let asked = invite::token()?;
    let proof = proof::prove(key, Side::Door, &nonce);
    line.send(&ToGuest::Challenge { proof, nonce: asked.clone() })?;
    let ToDoor::Hello { proof: shown, hello } = line.receive()? else { return Err(stranger()) };
    if !proof::proves(&shown, key, Side::Guest, &asked) {
        return Err(stranger());
    }
    line.set_read_timeout(None)?;
    Ok((hello, line))
}
