//! Which sockets of a connection can be read or written now: one question to the kernel for all of them.
//! Not reading or writing.

use std::{mem::MaybeUninit, os::fd::OwnedFd};

use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, EventData, EventFlags},
};

use crate::network::{Failure, Result};

/// What has changed about a path.
pub(super) struct Event {
    pub path: usize,
    pub readable: bool,
    pub writable: bool,
    /// Behind what can be read, there is the end.
    pub ended: bool,
}

/// Edges: each is told once, to whoever asks first.
pub(super) struct Events(OwnedFd);

/// Events taken by one question.
const AT_ONCE: usize = busbw_multipath::MAX_PATHS;

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

    /// Watches it no longer: who asks for it often finds that out sooner, and the sender's kernel has less to do.
    pub(super) fn forget(&self, socket: &OwnedFd) {
        // It is there, or there is nothing to forget.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Tells of those that have changed.
    pub(super) fn collect(&self, mut tell: impl FnMut(Event)) {
        let mut room = [const { MaybeUninit::uninit() }; AT_ONCE];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.0, &mut room, Some(&now)) else { return };
        for &mut epoll::Event { flags, data } in events {
            let end = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
            tell(Event {
                path: data.u64() as usize,
                readable: flags.intersects(EventFlags::IN | end),
                writable: flags.intersects(EventFlags::OUT | end),
                ended: flags.intersects(end),
            });
        }
    }
}
