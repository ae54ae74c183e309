//! A process that was let in: it hears what to run, when waits are to end, and how the run has ended; and
//! what it does becomes news. Not its own side of that (`guest`).

use std::{
    net::IpAddr,
    ops::Range,
    os::fd::BorrowedFd,
    sync::{Arc, mpsc::Sender},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use super::{
    Hello, ToDoor, ToGuest,
    line::{Ear, Line},
};

/// Largest message of one who was let in: a signal's number.
const LARGEST: u32 = 1 << 12;

/// What guests do, as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It got a signal.
    Signalled(i32),
    /// Its ranks have ended.
    Ended,
    /// Its connection broke: it is gone.
    Gone,
}

/// A process that was let in.
#[derive(Debug, Clone)]
pub struct Guest {
    pub pid: u32,
    pub host: String,
    pub(super) cores: Vec<usize>,
    /// The launcher's numbers of all processes of its host, if they follow each other.
    pub(super) block: Option<Range<usize>>,
    line: Arc<Line>,
}

impl Guest {
    pub(super) fn new(hello: &Hello, line: Line) -> Guest {
        Guest {
            pid: hello.pid,
            host: hello.host.clone(),
            cores: hello.cores.clone(),
            block: hello.block.clone(),
            line: Arc::new(line),
        }
    }

    /// Our own address on its connection.
    pub(super) fn reached(&self) -> Option<IpAddr> {
        self.line.local()
    }

    /// Tells it what to run.
    ///
    /// # Errors
    /// When its connection is broken.
    pub fn welcome(&self, invite: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let count = descriptors.len();
        let invite = serde_json::to_value(invite).context("cannot serialise an invitation")?;
        let welcome = ToGuest::Welcome { invite, descriptors: count };
        self.line
            .send(&welcome)
            .and_then(|()| self.line.send_descriptors(descriptors))
            .with_context(|| {
                format!("cannot tell process {} on {} what to run", self.pid, self.host)
            })
    }

    /// Tells it that waits are to end.
    pub fn stop(&self) {
        self.tell(&ToGuest::Stop);
    }

    /// Tells it to exit.
    pub fn end(&self, exit: Exit) {
        self.tell(&ToGuest::End(exit));
    }

    fn tell(&self, message: &ToGuest) {
        // Who is gone needs no word, and whoever follows it sees that it is.
        let _ = self.line.send(message);
    }
}

/// Starts a thread that makes events of what guests do, each by its process.
///
/// # Errors
/// When there is no room for a thread.
pub(super) fn follow<'a, E: Send + 'static>(
    guests: impl Iterator<Item = (usize, &'a Guest)>,
    events: Sender<E>,
    event: impl Fn(usize, News) -> E + Send + 'static,
) -> Result<()> {
    let mut ears: Vec<(usize, Ear<Arc<Line>>)> =
        guests.map(|(process, guest)| (process, Ear::new(Arc::clone(&guest.line)))).collect();
    let follow = move || {
        while !ears.is_empty() {
            let mut fds: Vec<PollFd<'_>> =
                ears.iter().map(|(_, ear)| PollFd::new(&*ear.line, PollFlags::IN)).collect();
            if poll(&mut fds, None).is_err() {
                // A signal; nothing else can go wrong with descriptors of our own.
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ready = ready.into_iter();
            let mut heard = true;
            ears.retain_mut(|(process, ear)| {
                if !ready.next().unwrap_or(false) {
                    return true;
                }
                let news: Vec<News> = ear.hear(LARGEST).map_or_else(
                    |_| vec![News::Gone],
                    |messages| messages.into_iter().map(News::of).collect(),
                );
                for news in &news {
                    heard &= events.send(event(*process, *news)).is_ok();
                }
                !news.contains(&News::Gone)
            });
            if !heard {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("guests".to_owned())
        .spawn(follow)
        .map(drop)
        .context("cannot start a thread for the other processes of this job")
}

impl News {
    fn of(message: ToDoor) -> News {
        match message {
            ToDoor::Signalled(signal) => News::Signalled(signal),
            ToDoor::Ended => News::Ended,
            // Said before, or by nobody of ours.
            ToDoor::Knock { .. } | ToDoor::Hello { .. } => News::Gone,
        }
    }
}
