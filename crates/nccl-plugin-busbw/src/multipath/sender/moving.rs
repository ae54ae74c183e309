//! What moves: pieces go to paths, acknowledgements come from them, whoever calls.
//! Not paths themselves (`paths`).

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{
    End, Link, Shared, choice,
    link::{Live, TINY, TOGETHER},
    paths::Loss,
    queue,
};
use crate::multipath::{
    engine::Work,
    keeper::{lock, try_lock},
};

/// What is on its way for longer than this, and than four times what was expected, goes over another path as well.
const DOUBT: Duration = Duration::from_millis(20);
/// What is late for so long while nothing else moves: the other paths are asked whether the receiver reads.
const ALONE: Duration = Duration::from_millis(100);
/// Between two looks at whether that is so.
const LOOKS: Duration = Duration::from_millis(2);

impl Shared {
    /// Moves what can be moved on a path, unless somebody else does right now (then nothing). Whether anything moved.
    pub(super) fn try_pump(&self, path: usize) -> Option<bool> {
        try_lock(&self.links[path].end).map(|mut end| self.pump(path, &mut end))
    }

    pub(super) fn pump(&self, path: usize, end: &mut End) -> bool {
        let link = &self.links[path];
        let End::Live(live) = end else { return false };
        let mut outcome = Ok(false);
        if link.readable.swap(false, Ordering::AcqRel) {
            outcome = self.read(link, live);
        }
        if let Ok(heard) = outcome
            && link.writable.swap(false, Ordering::AcqRel)
        {
            outcome = self.write(path, link, live).map(|sent| heard || sent);
        }
        outcome.unwrap_or_else(|error| {
            self.lose(path, end, &Loss::Ended(error));
            true
        })
    }

    /// Whether the other end has said anything.
    fn read(&self, link: &Link, live: &mut Live) -> rustix::io::Result<bool> {
        let mut queue = None;
        let ended = link.ended.load(Ordering::Acquire);
        let doubted = live.doubted;
        let heard = live.read(&link.load, ended, |chunk| {
            let queue = queue.get_or_insert_with(|| lock(&self.queue));
            let first = queue.came(chunk, |request, bytes| {
                self.results[request].store(1 + bytes as u64, Ordering::Release);
                self.open.done();
            });
            if first {
                link.counts.bytes.fetch_add(chunk.bytes() as u64, Ordering::Relaxed);
            }
        })?;
        if heard {
            let has_come = queue.is_some();
            drop(queue);
            if has_come {
                self.barren.store(0, Ordering::Relaxed);
            }
            self.deserted.store(0, Ordering::Relaxed);
            self.heard.store(self.micros(Instant::now()), Ordering::Relaxed);
            if doubted {
                link.load.set_open(true);
            }
            // There is room again.
            link.writable.store(true, Ordering::Release);
        }
        Ok(heard)
    }

    /// Takes the last acknowledgements: the connection is over.
    pub(super) fn hear(&self) {
        for link in &self.links {
            if let End::Live(live) = &mut *lock(&link.end) {
                // An end is none of our business any more.
                let _ = self.read(link, live);
            }
        }
    }

    /// Whether anything was sent.
    fn write(&self, path: usize, link: &Link, live: &mut Live) -> rustix::io::Result<bool> {
        let doubted = live.doubted;
        let mut sent = live.is_writing();
        let all = live.write(&link.load, |has_room, pieces| {
            if !doubted {
                self.fill(path, has_room, pieces);
            }
            sent |= !pieces.is_empty();
        })?;
        if all {
            link.writable.store(true, Ordering::Release);
        }
        Ok(sent)
    }

    /// What a path is to send next: one piece, or tiny messages that leave together.
    fn fill(&self, path: usize, has_room: bool, pieces: &mut Vec<queue::Piece>) {
        let mut queue = lock(&self.queue);
        pieces.extend(queue.take_urgent(usize::MAX).or_else(|| {
            if !has_room {
                return None;
            }
            queue.take(|bytes, waiting| {
                choice::skipped(self.links.iter().map(|link| &link.load), path, bytes, waiting)
            })
        }));
        while pieces.last().is_some_and(|piece| piece.length() <= TINY)
            && pieces.len() < TOGETHER
            && let Some(piece) = queue.take_urgent(TINY)
        {
            pieces.push(piece);
        }
    }

    /// Has the engine look, too.
    pub(super) fn join(&self) {
        self.keeper.engine.join(&self.open, || self.itself.clone());
    }

    /// Whether the engine moves what is here, so that the caller need not.
    pub(super) fn is_moved(&self) -> bool {
        self.keeper.engine.moves(&self.open)
    }

    /// Takes what the kernel has to say, and moves what can be moved. Whether anything moved.
    pub(super) fn progress(&self) -> bool {
        self.collect();
        let moved = self.move_on();
        self.doubt();
        moved
    }

    /// Takes what the kernel has to say.
    pub(super) fn collect(&self) {
        self.events.collect(|event| {
            let link = &self.links[event.path];
            if event.ended {
                link.ended.store(true, Ordering::Release);
            }
            if event.readable {
                link.readable.store(true, Ordering::Release);
            }
            if event.writable {
                link.writable.store(true, Ordering::Release);
            }
        });
    }

    /// Moves what can be moved; where the engine helps, on one path. Whether anything moved.
    pub(super) fn move_on(&self) -> bool {
        let first = self.turn.load(Ordering::Relaxed);
        let (work, urgent) = {
            let queue = lock(&self.queue);
            (queue.has_work(), queue.is_urgent())
        };
        let mut moved = false;
        for path in (first..self.links.len()).chain(0..first) {
            let link = &self.links[path];
            let writes = || urgent || work && link.load.has_room() || self.unfinished(link);
            let ready = link.readable.load(Ordering::Acquire)
                || link.writable.load(Ordering::Acquire) && writes();
            if !ready {
                continue;
            }
            if moved && self.open.is_listed() {
                self.turn.store(path, Ordering::Relaxed);
                self.keeper.engine.call();
                break;
            }
            moved |= self.try_pump(path) == Some(true);
        }
        moved
    }

    fn unfinished(&self, link: &Link) -> bool {
        matches!(try_lock(&link.end).as_deref(), Some(End::Live(live)) if live.is_writing())
    }

    /// What is on its way for too long goes over another path as well, if others are heard of.
    pub(super) fn doubt(&self) {
        let now = Instant::now();
        let micros = self.micros(now);
        if micros.saturating_sub(self.looked.load(Ordering::Relaxed)) < LOOKS.as_micros() as u64 {
            return;
        }
        self.looked.store(micros, Ordering::Relaxed);
        let heard = self.started + Duration::from_micros(self.heard.load(Ordering::Relaxed));
        let mut alone = false;
        for link in &self.links {
            let Some(mut end) = try_lock(&link.end) else { continue };
            let End::Live(live) = &mut *end else { continue };
            let Some((oldest, last)) = live.since() else {
                link.load.fade();
                continue;
            };
            let from = oldest.max(last);
            let limit = DOUBT.max(4 * Duration::from_nanos(link.load.expected(0)));
            let late = now.saturating_duration_since(from);
            if live.doubted || late <= limit {
                continue;
            }
            // Others were heard of while this one was not: the receiver reads.
            if heard > from + limit / 2 {
                let copies = live.double();
                link.counts.doubled.fetch_add(copies.len() as u64, Ordering::Relaxed);
                link.load.set_open(false);
                lock(&self.queue).again(copies);
            } else {
                alone |= late > limit.max(ALONE);
            }
        }
        if alone {
            self.ask_others(now);
        }
    }

    /// Asks the paths on which nothing is under way: one of them answers if a message is waited for.
    fn ask_others(&self, now: Instant) {
        for (path, link) in self.links.iter().enumerate() {
            let Some(mut end) = try_lock(&link.end) else { continue };
            if let End::Live(live) = &mut *end
                && live.since().is_none()
                && let Err(error) = live.ask(now)
            {
                self.lose(path, &mut end, &Loss::Ended(error));
            }
        }
    }
}

impl Work for Shared {
    fn advance(&self) -> bool {
        self.open.is_any() && self.progress()
    }

    fn rest(&self) -> bool {
        self.open.rest()
    }
}
