//! Those who knock at the door: each proves to be of the job, and says who it is. One thread hears them all.
//! Not whether they can take part (`door`).

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::token;
use super::{
    Hello, ToDoor, ToGuest,
    line::{Ear, Line},
    meeting::{Listener, Meeting},
    proof::{self, Side},
};

/// How long who knocks may take for what it has to say.
const HELLO: Duration = Duration::from_secs(5);
/// Largest message of a stranger: the words of a command line, or what a doctor has seen.
const LARGEST: u32 = 1 << 20;
/// Strangers that are heard at once; others wait before the door.
const STRANGERS: usize = 4096;
/// Longest sleep without a look whether the door is closed, and a pause where nobody can be let in.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// One who knocks.
struct Visitor {
    ear: Ear<Line>,
    /// What it was asked to prove itself with, once it has knocked.
    asked: Option<String>,
    by: Instant,
}

/// Lets people in until the door is closed.
pub(super) fn answer(
    listener: &Listener,
    meeting: &Meeting,
    let_in: &Sender<(Hello, Line)>,
    closing: &AtomicBool,
) {
    let mut visitors: Vec<Visitor> = Vec::new();
    while !closing.load(Ordering::SeqCst) {
        let mut fds: Vec<PollFd<'_>> =
            visitors.iter().map(|visitor| PollFd::new(&visitor.ear.line, PollFlags::IN)).collect();
        if visitors.len() < STRANGERS {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        if poll(&mut fds, Some(&LOOK)).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let now = Instant::now();
        let heard = std::mem::take(&mut visitors).into_iter().zip(&ready).filter_map(
            |(mut visitor, ready)| match ready {
                false => (now < visitor.by).then_some(visitor),
                true => match visitor.hear(meeting) {
                    Ok(None) => Some(visitor),
                    Ok(Some(hello)) => {
                        let _ = let_in.send((*hello, visitor.ear.line));
                        None
                    }
                    // A stranger gets no word about why.
                    Err(_) => None,
                },
            },
        );
        visitors = heard.collect();
        while visitors.len() < STRANGERS {
            match listener.accept() {
                Ok(line) => {
                    let (ear, by) = (Ear::new(line), now + HELLO);
                    visitors.push(Visitor { ear, asked: None, by });
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                // Another user, or somebody who is gone again; or nobody can be let in for now.
                Err(_) => {
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
                    break;
                }
            }
        }
    }
}

impl Visitor {
    /// Hears what it has said: who it is, once it has proved that.
    fn hear(&mut self, meeting: &Meeting) -> Result<Option<Box<Hello>>> {
        for message in self.ear.hear(LARGEST)? {
            match (message, &self.asked) {
                (ToDoor::Knock { nonce }, None) => {
                    let asked = token()?;
                    let proof = proof::prove(&meeting.key, Side::Door, &nonce);
                    let instead = meeting.instead_of(self.ear.line.local());
                    let nonce = asked.clone();
                    self.ear.line.send(&ToGuest::Challenge { proof, nonce, instead })?;
                    self.asked = Some(asked);
                }
                (ToDoor::Hello { proof, hello }, Some(asked))
                    if proof::proves(&proof, &meeting.key, Side::Guest, asked) =>
                {
                    return Ok(Some(hello));
                }
                _ => bail!("not of this job"),
            }
        }
        Ok(None)
    }
}
