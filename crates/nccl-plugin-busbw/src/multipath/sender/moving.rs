//! What moves: chunks go to paths, acknowledgements come from them, whoever calls.
//! Not paths themselves (`upkeep`).

use std::{sync::atomic::Ordering, time::Duration};

use busbw_multipath::{Error, Loss, Request};

use super::{
    Connection, Path,
    stream::{Stream, ended_by},
};
use crate::multipath::{
    engine::Work,
    locks::{lock, try_lock},
};

/// Threads that messages of one chunk call: they receive while the caller sends. More get into each other's way
/// (docs/data/short-message-threads.txt).
const THREADS_OF_SHORT_MESSAGES: usize = 2;
/// Between two looks at whether anything is late.
const LATE_CHECK_INTERVAL: Duration = Duration::from_millis(2);

impl Connection {
    /// Moves what can be moved on a path, unless somebody else does right now (then nothing). Whether anything moved.
    pub(super) fn try_move(&self, path: usize) -> Option<bool> {
        let mut stream = try_lock(&self.paths[path].stream)?;
        Some(self.move_path(path, &mut stream))
    }

    pub(super) fn move_path(&self, number: usize, stream: &mut Option<Stream>) -> bool {
        let path = &self.paths[number];
        let Some(up) = stream else { return false };
        let mut outcome = Ok(false);
        if path.readable.take() {
            outcome = self.read(number, path, up);
        }
        if let Ok(heard) = outcome
            && path.writable.take()
        {
            let sent = self.write(number, path, up).map_err(ended_by);
            outcome = sent.map(|sent| heard || sent);
        }
        outcome.unwrap_or_else(|loss| {
            self.lose(number, stream, &loss);
            true
        })
    }

    /// Whether the receiver has said anything.
    fn read(&self, number: usize, path: &Path, stream: &mut Stream) -> Result<bool, Loss> {
        let (delivered, outcome) = stream.read(path.ended.is_raised());
        let Some(count) = delivered else { return outcome.map(|()| false).map_err(ended_by) };
        let unwritten = stream.unwritten();
        let now = self.now();
        let acknowledged =
            self.core.lock().acknowledged(number, count, unwritten, now, |request, bytes| {
                self.done(request, bytes);
            });
        // There is room again.
        path.writable.raise();
        acknowledged
            .map_err(|error: Error| Loss::Ended { why: error.to_string(), timed_out: false })?;
        outcome.map(|()| true).map_err(ended_by)
    }

    /// A message is done.
    pub(super) fn done(&self, request: Request, bytes: usize) {
        self.results.done(request, bytes as u64);
        self.open.done();
    }

    /// Takes the last acknowledgements: the connection is over.
    pub(super) fn read_last(&self) {
        for (number, path) in self.paths.iter().enumerate() {
            if let Some(stream) = &mut *lock(&path.stream) {
                // An end is of no importance any more.
                let _ = self.read(number, path, stream);
            }
        }
    }

    /// Whether anything was sent.
    fn write(&self, number: usize, path: &Path, stream: &mut Stream) -> rustix::io::Result<bool> {
        let mut sent = stream.is_writing();
        let all = stream.write(
            || self.now(),
            |now, chunks| {
                self.core.lock().next(number, now, chunks);
                sent |= !chunks.is_empty();
            },
        )?;
        path.unfinished.set(stream.is_writing());
        if all {
            path.writable.raise();
        }
        Ok(sent)
    }

    /// Has the engine look, too.
    pub(super) fn join(&self) {
        self.manager.engine.join(&self.open, || self.itself.clone());
    }

    /// Whether the engine moves what is here, so that the caller need not.
    pub(super) fn is_moved(&self) -> bool {
        self.manager.engine.moves(&self.open)
    }

    /// Takes what the kernel has to say, and moves what can be moved. Whether anything moved.
    pub(super) fn progress(&self) -> bool {
        self.collect();
        let moved = self.move_on();
        self.check_late();
        moved
    }

    /// Takes what the kernel has to say.
    pub(super) fn collect(&self) {
        self.events.collect(|event| {
            let path = &self.paths[event.path];
            if event.ended {
                path.ended.raise();
            }
            if event.readable {
                path.readable.raise();
            }
            if event.writable {
                path.writable.raise();
            }
        });
    }

    /// Moves what can be moved; where the engine helps, on one path. Whether anything moved.
    pub(super) fn move_on(&self) -> bool {
        let first = self.turn.load(Ordering::Relaxed);
        let (wanted, is_urgent) = self.wanted();
        let mut moved = false;
        for number in (first..self.paths.len()).chain(0..first) {
            let path = &self.paths[number];
            let writes = || is_urgent || wanted >> number & 1 != 0 || path.unfinished.is_raised();
            let is_ready = path.readable.is_raised() || path.writable.is_raised() && writes();
            if !is_ready {
                continue;
            }
            if moved && self.open.is_listed() {
                let (wanted, is_urgent) = self.wanted();
                let is_left = is_urgent || wanted >> number & 1 != 0 || path.unfinished.is_raised();
                if path.readable.is_raised() || is_left {
                    self.turn.store(number, Ordering::Relaxed);
                    self.manager.engine.call();
                } else {
                    // All has left, as of a message of one chunk. The other paths are not looked at, which costs more than that.
                    self.manager.engine.call_within(THREADS_OF_SHORT_MESSAGES);
                }
                break;
            }
            moved |= self.try_move(number) == Some(true);
        }
        moved
    }

    /// A bit for each path on which another chunk may be in flight, if any waits; and whether one must leave at once, on
    /// whatever path.
    fn wanted(&self) -> (u32, bool) {
        if !self.core.has_work() {
            return (0, false);
        }
        let core = self.core.lock();
        let (has_work, is_urgent) = core.work();
        let paths = (0..self.paths.len()).filter(|path| has_work && core.has_window(*path));
        (paths.fold(0, |bits, path| bits | 1 << path), is_urgent)
    }

    /// Has what is late sent over other paths as well.
    pub(super) fn check_late(&self) {
        let now = self.now();
        let last = busbw_multipath::Time(self.checked.load(Ordering::Relaxed));
        if now.since(last) < LATE_CHECK_INTERVAL {
            return;
        }
        self.checked.store(now.0, Ordering::Relaxed);
        let mut actions = Vec::new();
        self.core.lock().check_late(now, &mut actions);
        self.perform(actions);
    }
}

impl Work for Connection {
    fn advance(&self) -> bool {
        self.open.is_any() && self.progress()
    }

    fn rest(&self) -> bool {
        self.open.rest()
    }
}
