//! Which sockets of a connection can be read or written now: one question to the kernel for all of them.
//! Not reading or writing.

use std::{mem::MaybeUninit, os::fd::OwnedFd};

use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, EventData, EventFlags},
};

use crate::network::{Failure, Result};

/// Edges: each is told once, to whoever asks first.
pub(super) struct Events(OwnedFd);

/// Events taken by one question.
const AT_ONCE: usize = super::MOST_PATHS;

impl Events {
    /// # Errors
    /// When the process has too many files open.
    pub(super) fn new() -> Result<Events> {
        let files = epoll::create(CreateFlags::CLOEXEC);
        files.map(Events).map_err(|error| Failure::system("cannot watch sockets", &error))
    }

    /// Watches a path's socket until it is closed.
    pub(super) fn add(&self, socket: &OwnedFd, path: usize) -> rustix::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.0, socket, EventData::new_u64(path as u64), flags)
    }

    /// Tells (path, whether it can be read, whether it can be written) of those that have changed.
    pub(super) fn collect(&self, mut tell: impl FnMut(usize, bool, bool)) {
        let mut room = [const { MaybeUninit::uninit() }; AT_ONCE];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.0, &mut room, Some(&now)) else { return };
        for &mut epoll::Event { flags, data } in events {
            let end = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
            let readable = flags.intersects(EventFlags::IN | end);
            tell(data.u64() as usize, readable, flags.intersects(EventFlags::OUT | end));
        }
    }
}
