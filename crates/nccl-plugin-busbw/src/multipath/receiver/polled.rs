//! The path on which only small messages arrive: it is polled, and not in epoll.
//! Not reading it (`receiver`).
//!
//! Whoever waits for small messages reads that path all the time anyway. Each wake-up through epoll would cost the sender.

use std::sync::atomic::Ordering;

use super::{Connection, NONE, Stream};
use crate::multipath::locks::try_lock;

/// After so many small messages in a row on one path, it is polled.
const SMALL_IN_A_ROW: u32 = 16;

impl Connection {
    /// Has the kernel tell of this path, or not, after what has arrived. One path is polled at most.
    pub(super) fn poll_small(&self, path: usize, stream: &Stream) {
        let small = stream.incoming.small();
        let polled = self.polled.load(Ordering::Acquire);
        if polled == path && small == 0 {
            self.watch_events(path, stream);
        } else if polled != path && small >= SMALL_IN_A_ROW {
            if let Some(before) = self.paths.get(polled)
                && let Some(mut end) = try_lock(&before.stream)
            {
                match &mut *end {
                    Some(other) => {
                        self.watch_events(polled, other);
                        // Else it would be polled again as soon as anybody reads it.
                        other.incoming.forget_small();
                    }
                    None => self.not_polled(polled),
                }
            }
            let free =
                self.polled.compare_exchange(NONE, path, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                self.events.forget(&stream.socket);
            }
        }
    }

    /// Has the kernel tell of the polled path again. Only who has that one calls it.
    fn watch_events(&self, path: usize, stream: &Stream) {
        if self.events.add(&stream.socket, path).is_ok() {
            self.polled.store(NONE, Ordering::Release);
        }
    }

    /// A path is not polled any more, if it was: its connection is another one.
    pub(super) fn not_polled(&self, path: usize) {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.polled.compare_exchange(path, NONE, order.0, order.1);
    }
}
