//! Connections that are being made: NCCL asks for each again and again, by its handle, until it is there.
//! Not making them (`manager`), nor what they are made over.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    handle::{self, Listening},
    locks::lock,
};
use crate::network::{Handle, Result};

/// A connection that is being made, and that nobody has asked for in so long, was given up.
pub(super) const ABANDONED: Duration = Duration::from_secs(60);

/// A connection that comes up by itself.
pub(super) trait Comes {
    /// Why it has ended, if it has.
    fn failure(&self) -> Result<()>;

    /// Whether it can be used.
    fn is_up(&self) -> bool;

    /// Nobody wants it any more.
    fn abort(&self);
}

/// Those that are being made, by what is in their handle, and when they were asked for.
pub(super) struct Pending<C> {
    waiting: Mutex<HashMap<u64, (Arc<C>, Instant)>>,
    last: AtomicU64,
}

impl<C> Default for Pending<C> {
    fn default() -> Pending<C> {
        Pending { waiting: Mutex::default(), last: AtomicU64::new(0) }
    }
}

impl<C: Comes> Pending<C> {
    /// The connection of a handle, once it is up. The first call has it made, to where the handle says.
    ///
    /// # Errors
    /// It cannot be made, or has ended.
    pub(super) fn connect(
        &self,
        handle: &mut Handle,
        make: impl FnOnce(&Listening) -> Result<Arc<C>>,
    ) -> Result<Option<Arc<C>>> {
        let now = Instant::now();
        let known = lock(&self.waiting).get_mut(&handle::state(handle)).map(|(shared, asked)| {
            *asked = now;
            shared.clone()
        });
        let shared = match known {
            Some(shared) => shared,
            None => {
                self.end_abandoned(now);
                let shared = make(&Listening::read(handle)?)?;
                let state = self.last.fetch_add(1, Ordering::Relaxed) + 1;
                lock(&self.waiting).insert(state, (shared.clone(), now));
                handle::set_state(handle, state);
                shared
            }
        };
        let failure = shared.failure();
        if failure.is_ok() && !shared.is_up() {
            return Ok(None);
        }
        lock(&self.waiting).remove(&handle::state(handle));
        handle::set_state(handle, 0);
        failure.map(|()| Some(shared))
    }

    /// Ends connections that nobody asks for any more: NCCL has given them up, of which no call tells.
    pub(super) fn end_abandoned(&self, now: Instant) {
        lock(&self.waiting).retain(|_, (shared, asked)| {
            let stays = now.saturating_duration_since(*asked) < ABANDONED;
            if !stays {
                shared.abort();
            }
            stays
        });
    }

    /// Those that are there, for tests of how they end.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<std::sync::Weak<C>> {
        lock(&self.waiting).values().map(|(shared, _)| Arc::downgrade(shared)).collect()
    }
}
