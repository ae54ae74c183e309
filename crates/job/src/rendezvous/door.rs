//! The first process's door: who knocks proves to be of the job, is told what to run, hears when waits are
//! to end, and with which exit code the run has ended.
//! Not what becomes of a run whose guest is lost (`local`).

use std::{
    collections::BTreeSet,
    ffi::OsString,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    plan::{BackendChoice, Plan},
};

use super::{
    Guest, Hello, News,
    absent::{self, Holding, Seen},
    interface, knock, let_in,
    line::Line,
    meeting::Meeting,
    patience,
};
use crate::{launched::Launched, naming, open_files};
use busbw_core::exit::ExitError;

/// How long late ones are waited for, to tell them that the run has ended before it began.
const LATE: Duration = Duration::from_secs(2);
/// How often the doorkeeper looks up.
const LOOK: Duration = Duration::from_millis(10);

/// The door. Closed when everybody is in.
pub struct Door {
    ours: Hello,
    meeting: Arc<Meeting>,
    /// The host of every process, as far as the launcher says.
    hosts: Vec<String>,
    guests: Vec<Option<Guest>>,
    knocking: mpsc::Receiver<(Hello, Line)>,
    closing: Arc<AtomicBool>,
}

impl Door {
    /// Opens the door of the process that `launched` describes, started with `args`.
    ///
    /// # Errors
    /// When nobody could find it, or it is taken.
    pub fn open(launched: &Launched, args: &[OsString]) -> Result<Door> {
        // Before anybody comes.
        open_files::raise(launched.size);
        let meeting = Arc::new(Meeting::of(launched)?);
        let listener = meeting.listen()?;
        let closing = Arc::new(AtomicBool::new(false));
        let (let_in, knocking) = mpsc::channel();
        let (closed, met) = (Arc::clone(&closing), Arc::clone(&meeting));
        std::thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || knock::answer(&listener, &met, &let_in, &closed))
            .context("cannot start a thread for the other processes of this launcher's job")?;
        Ok(Door {
            ours: Hello::of_this(launched, args),
            meeting,
            hosts: launched.hosts.clone(),
            guests: vec![None; launched.size],
            knocking,
            closing,
        })
    }

    /// Whether everybody is on this host.
    pub fn is_here(&self) -> bool {
        self.meeting.is_here()
    }

    /// Our addresses to which others may come; all of them where none was chosen.
    pub fn chosen(&self) -> Vec<IpAddr> {
        self.meeting.interface().map_or_else(Vec::new, |chosen| chosen.ips())
    }

    /// Over which interfaces the others have come, where they may be on other hosts.
    pub fn control(&self) -> Option<String> {
        let mut reached: Vec<IpAddr> =
            self.guests().filter_map(|(_, guest)| guest.reached()).collect();
        if reached.iter().any(|ip| !ip.is_loopback()) {
            // Those of this host may come over it.
            reached.retain(|ip| !ip.is_loopback());
        }
        let all = interface::addresses().unwrap_or_default();
        (!reached.is_empty())
            .then(|| format!("control over {}", interface::describe(reached, &all)))
    }

    /// Waits until everybody is in. `stop` is asked meanwhile whether to give up.
    ///
    /// # Errors
    /// Who does not come, comes twice, or cannot take part.
    pub fn gather(&mut self, plan: &Plan, stop: impl Fn() -> bool) -> Result<(), ExitError> {
        if plan.backend == BackendChoice::Host && !self.is_here() {
            let text = "--backend host measures memory that all ranks share, and no variable of this launcher names its job, by which they would find it: use --backend nccl, or start busbw without the launcher, with -g for the number of ranks";
            return Err(ExitError::new(Exit::Usage, text));
        }
        self.ours.backend = plan.backend.name().to_owned();
        let holding = Holding { word: "rank", each: plan.ranks_each() };
        self.wait(patience(plan.timeout_s), holding, stop).map(drop)
    }

    /// What every process of the launcher has to say, ours first, where nobody is to hold ranks.
    ///
    /// # Errors
    /// Who does not come, comes twice, or cannot take part.
    pub fn call_roll(&mut self, said: String) -> Result<Vec<String>, ExitError> {
        let holding = Holding { word: "process", each: 1 };
        let mut heard = self.wait(patience(None), holding, || false)?;
        heard[0] = said;
        Ok(heard)
    }

    /// Waits until everybody is in. What they said with their names, by process.
    fn wait(
        &mut self,
        limit: Duration,
        holding: Holding,
        stop: impl Fn() -> bool,
    ) -> Result<Vec<String>, ExitError> {
        if let Some(wrong) = self.meeting.wrong() {
            return Err(wrong);
        }
        let by = Instant::now() + limit;
        let mut heard = vec![String::new(); self.guests.len()];
        let mut awaited = self.guests.len() - 1;
        while awaited > 0 {
            if stop() {
                return Err(ExitError::new(Exit::Interrupted, "interrupted"));
            }
            if Instant::now() >= by {
                return Err(ExitError::new(Exit::Timeout, self.missing(holding, limit)));
            }
            match self.knocking.recv_timeout(LOOK) {
                Ok((hello, line)) => {
                    let judged = self.judge(holding, &hello);
                    let guest = Guest::new(&hello, line);
                    if let Err(refusal) = judged {
                        guest.end(refusal.exit());
                        return Err(refusal);
                    }
                    heard[hello.process] = hello.said;
                    self.guests[hello.process] = Some(guest);
                    awaited -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExitError::new(Exit::Internal, "the door's thread has vanished"));
                }
            }
        }
        self.closing.store(true, Ordering::SeqCst);
        Ok(heard)
    }

    /// Who has not come, and where those are who have.
    fn missing(&self, holding: Holding, limit: Duration) -> String {
        let size = self.guests.len();
        let of_guest = |(process, guest): (usize, &'_ Guest)| {
            (process, guest.host.clone(), guest.block.clone())
        };
        let came: Vec<_> = std::iter::once((0, self.ours.host.clone(), self.ours.block.clone()))
            .chain(self.guests().map(of_guest))
            .collect();
        let seen: Vec<Seen<'_>> = came
            .iter()
            .map(|(process, host, block)| Seen { process: *process, host, block: block.clone() })
            .collect();
        let (here, late) = if self.is_here() {
            let late: Vec<usize> =
                (1..size).filter(|process| self.guests[*process].is_none()).collect();
            (format!(" on {}", self.ours.host), holding.name(&late))
        } else {
            (String::new(), absent::describe(size, &self.hosts, &seen, holding))
        };
        format!(
            "{} of {size} processes did not come within {} s{here}: {late}. {} waits for them {}; those that came are on {}. See whether their processes run, or give them more time with -T",
            size - seen.len(),
            limit.as_secs(),
            if holding.word == "rank" { "Rank 0" } else { "Process 0" },
            self.meeting.describe(),
            naming::hosts(seen.iter().map(|one| one.host)),
        )
    }

    /// Whether it can take part; if not, the run cannot be.
    fn judge(&self, holding: Holding, hello: &Hello) -> Result<(), ExitError> {
        let (process, size) = (hello.process, self.guests.len());
        if hello.size != size || process == 0 || process >= size {
            let text = format!(
                "process {} on {} says that it is number {process} of {}, where this one is number 0 of {size}: they do not belong to one job",
                hello.pid, hello.host, hello.size
            );
            return Err(ExitError::new(Exit::Usage, text));
        }
        let whose =
            format!("{} (process {} on {})", holding.name(&[process]), hello.pid, hello.host);
        if let Some(other) = &self.guests[process] {
            let text =
                format!("{whose} is there already, as process {} on {}", other.pid, other.host);
            return Err(ExitError::new(Exit::Usage, text));
        }
        if let Some(difference) = self.ours.difference(hello) {
            return Err(ExitError::new(Exit::Usage, format!("{whose} {difference}")));
        }
        if let Some((exit, why)) = &hello.failure {
            return Err(ExitError::new(*exit, format!("{whose} cannot take part: {why}")));
        }
        if self.ours.backend != hello.backend {
            let text = format!(
                "{whose} would use --backend {}, where rank 0 on {} uses {}: say which with --backend, or see with busbw doctor why that machine differs",
                hello.backend, self.ours.host, self.ours.backend
            );
            return Err(ExitError::new(Exit::Impossible, text));
        }
        Ok(())
    }

    /// Everybody who is in, by the launcher's number from 1 on.
    pub fn guests(&self) -> impl Iterator<Item = (usize, &Guest)> {
        self.guests
            .iter()
            .enumerate()
            .filter_map(|(process, guest)| Some((process, guest.as_ref()?)))
    }

    /// Makes events of what those do who are in, from now on.
    ///
    /// # Errors
    /// When there is no room for a thread.
    pub fn follow<E: Send + 'static>(
        &self,
        events: Sender<E>,
        event: impl Fn(usize, News) -> E + Send + 'static,
    ) -> Result<()> {
        let_in::follow(self.guests(), events, event)
    }

    /// Processors that all processes together may use, and whether each may use all of them.
    pub fn cores(&self) -> (usize, bool) {
        let ours = &self.ours.cores;
        let alike = self.guests().all(|(_, guest)| guest.cores == *ours);
        let theirs = self.guests().flat_map(|(_, guest)| &guest.cores);
        let all: BTreeSet<&usize> = theirs.chain(ours).collect();
        (all.len(), alike)
    }

    /// Tells everybody that the run has ended. Whoever comes late to one that never began hears it, too.
    pub fn dismiss(mut self, exit: Exit) {
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
