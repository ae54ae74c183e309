//! A process that was let in: it hears what to run, when waits are to end, and how the run has ended; and
//! what it does becomes news. Not its own side of that (`guest`).

use std::{
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
};

use anyhow::{Context, Result};
use model::exit::Exit;

use super::{Hello, ToDoor, ToGuest, line::Line};
use crate::launch::invite::Invite;

/// What guests do, as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::launch) enum News {
    /// It got a signal.
    Signalled(i32),
    /// Its ranks have ended.
    Ended,
    /// Its connection broke: it is gone.
    Gone,
}

/// A process that was let in.
#[derive(Debug, Clone)]
pub(in crate::launch) struct Guest {
    pub(in crate::launch) pid: u32,
    pub(in crate::launch) host: String,
    pub(super) cores: Vec<usize>,
    line: Arc<Mutex<Line>>,
}

impl Guest {
    pub(super) fn new(hello: &Hello, line: Line) -> Guest {
        let line = Arc::new(Mutex::new(line));
        Guest { pid: hello.pid, host: hello.host.clone(), cores: hello.cores.clone(), line }
    }

    /// Tells it what to run; `event` then hears what it does.
    ///
    /// # Errors
    /// When its connection is broken.
    pub(in crate::launch) fn welcome<E: Send + 'static>(
        &self,
        invite: &Invite,
        descriptors: &[BorrowedFd<'_>],
        events: Sender<E>,
        event: impl Fn(News) -> E + Send + 'static,
    ) -> Result<()> {
        let count = descriptors.len();
        let welcome = ToGuest::Welcome { invite: Box::new(invite.clone()), descriptors: count };
        let tried = || format!("cannot tell process {} on {} what to run", self.pid, self.host);
        let mut reader = {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.send(&welcome).with_context(tried)?;
            line.send_descriptors(descriptors).with_context(tried)?;
            line.try_clone().with_context(tried)?
        };
        std::thread::Builder::new()
            .name("guest".to_owned())
            .spawn(move || {
                loop {
                    let news = match reader.receive() {
                        Ok(ToDoor::Signalled(signal)) => News::Signalled(signal),
                        Ok(ToDoor::Ended) => News::Ended,
                        Ok(ToDoor::Knock { .. } | ToDoor::Hello { .. }) | Err(_) => News::Gone,
                    };
                    if events.send(event(news)).is_err() || news == News::Gone {
                        return;
                    }
                }
            })
            .context("cannot start a thread for another process of this job")?;
        Ok(())
    }

    /// Tells it that waits are to end.
    pub(in crate::launch) fn stop(&self) {
        self.tell(&ToGuest::Stop);
    }

    /// Tells it to exit.
    pub(in crate::launch) fn end(&self, exit: Exit) {
        self.tell(&ToGuest::End(exit));
    }

    fn tell(&self, message: &ToGuest) {
        // Who is gone needs no word, and its own thread sees that it is.
        let _ = self.line.lock().unwrap_or_else(PoisonError::into_inner).send(message);
    }
}
