//! The sending end as its caller holds it: requests, and small messages that leave at once.
//! Not moving the others (`moving`).

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use busbw_multipath::SMALL;

use super::Connection;
use crate::{
    multipath::{locks::lock, memory::Outgoing},
    network::{REQUESTS, Request, Result},
};

/// So many small messages leave each at once: of a ring's step NCCL begins two before it asks for them, and its other end
/// waits for both.
const SINGLE: usize = 2;
/// After so many that are not acknowledged, acknowledgements are looked for.
const CHECKED: usize = 32;

/// What the caller holds.
pub(in crate::multipath) struct Sending {
    connection: Arc<Connection>,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    /// Requests for small messages that nobody has seen done yet, and a bit for each of them that has not left.
    small: usize,
    gathered: u64,
}

const _: () = assert!(REQUESTS <= u64::BITS as usize);

impl Sending {
    pub(in crate::multipath) fn new(connection: Arc<Connection>) -> Sending {
        let free = (0..REQUESTS).rev().collect();
        Sending { connection, free, small: 0, gathered: 0 }
    }
}

impl crate::network::Sender for Sending {
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        let connection = &*self.connection;
        connection.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        if bytes <= SMALL {
            let data = match bytes {
                0 => &[],
                // SAFETY: NCCL's memory, which it leaves alone until the request is done.
                _ => unsafe { std::slice::from_raw_parts(data, bytes) },
            };
            let mut core = lock(&connection.core);
            if !core.has_room(bytes) {
                drop(core);
                connection.progress();
                return Ok(None);
            }
            if core.copies() % CHECKED == CHECKED - 1 {
                // Where they arrive, most likely.
                let hot = connection.hot.load(Ordering::Relaxed);
                connection.paths[hot].readable.store(true, Ordering::Release);
            }
            core.push_copy(Outgoing::Copy(data.into()), bytes);
            drop(core);
            connection.results[request].store(1 + bytes as u64, Ordering::Relaxed);
            connection.watch();
            // Who begins many before he asks for the first of them has all of those leave together, when he asks. Were it
            // when he asks for any, who keeps a window full would have each leave alone, at a fifth of the rate.
            if self.small < SINGLE {
                connection.send_small();
            } else {
                self.gathered |= 1 << request;
            }
            self.small += 1;
        } else {
            connection.open.begin();
            connection.join();
            lock(&connection.core).push(Outgoing::Lent(data, bytes), bytes, request);
            connection.watch();
            if !connection.is_moved() {
                connection.move_on();
            }
        }
        self.free.pop();
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        if self.gathered & (1 << request) != 0 {
            self.gathered = 0;
            self.connection.send_small();
        }
        // First: what was acknowledged before that is done.
        let failure = self.connection.failure();
        let result = &self.connection.results[request];
        if result.load(Ordering::Acquire) == 0 {
            if failure.is_err() {
                self.connection.read_last();
            } else if !self.connection.is_moved() {
                self.connection.progress();
            }
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => failure.map(|()| None),
            bytes => {
                let bytes = (bytes - 1) as usize;
                self.free.push(request);
                self.small -= usize::from(bytes <= SMALL);
                Ok(Some(bytes))
            }
        }
    }

    fn release(&self, memory: &Range<usize>) {
        let reads = lock(&self.connection.core).reads(memory);
        if reads {
            self.connection.abort();
        }
    }
}

impl Connection {
    /// Sends what is urgent by the path that served well last, or by the next that can.
    fn send_small(&self) {
        let first = self.hot.load(Ordering::Relaxed);
        let mut busy = false;
        for path in (first..self.paths.len()).chain(0..first) {
            // It may be absent, doubted, or full.
            if !self.paths[path].writable.load(Ordering::Acquire) {
                continue;
            }
            let Some(_) = self.try_move(path) else {
                busy |= path == first;
                continue;
            };
            if lock(&self.core).work().1 {
                continue;
            }
            // Where somebody just looks at the first one, as the keeper does now and then, one message goes elsewhere:
            // the receiver expects the others where they were.
            if path != first && !busy {
                self.hot.store(path, Ordering::Relaxed);
            }
            return;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.connection.open.is_any() {
            self.connection.abort();
        } else {
            self.connection.manager.close(self.connection.clone());
        }
    }
}
