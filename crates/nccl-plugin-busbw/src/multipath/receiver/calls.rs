//! The receiving end as its caller holds it, before and after the other end has connected: requests.
//! Not reading what arrives (`receiver`).

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use busbw_multipath::SMALL;

use super::{Connection, failure};
use crate::{
    multipath::{locks::lock, memory::Place},
    network::{REQUESTS, Request, Result},
};

/// Between two questions for all paths, the one that was used last is read so often; and where only small messages come.
const HOT: (usize, usize) = (4, 16);

/// What waits for the other end to connect.
pub(in crate::multipath) struct Listening {
    connection: Arc<Connection>,
    listener: u64,
    taken: bool,
}

impl Listening {
    pub(in crate::multipath) fn new(connection: Arc<Connection>, listener: u64) -> Listening {
        Listening { connection, listener, taken: false }
    }
}

impl crate::network::Listener for Listening {
    fn accept(&mut self) -> Result<Option<Box<dyn crate::network::Receiver>>> {
        if self.taken || !self.connection.has_come() {
            return Ok(None);
        }
        self.taken = true;
        Ok(Some(Box::new(Receiving {
            connection: self.connection.clone(),
            listener: self.listener,
            free: (0..REQUESTS).rev().collect(),
            tests: 0,
        })))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.taken {
            self.connection.manager.shut(self.listener);
        }
    }
}

/// What the caller holds.
struct Receiving {
    connection: Arc<Connection>,
    listener: u64,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    tests: usize,
}

impl crate::network::Receiver for Receiving {
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        let connection = &*self.connection;
        // What has arrived is there also after the other side has ended.
        if connection.failure.get().is_some() {
            let core = lock(&connection.core);
            if !(core.has_fin() && core.is_early()) {
                connection.failure()?;
            }
        }
        let Some(request) = self.free.pop() else { return Ok(None) };
        connection.open.begin();
        if bytes > SMALL {
            connection.join();
        }
        let mut core = lock(&connection.core);
        let posted = core.post(Place(data, bytes), bytes, request, connection.done());
        connection.note_failure(&core);
        drop(core);
        posted.map_err(|error| failure(&error))?;
        for path in &connection.paths {
            // What waited for a receive.
            if path.waits.load(Ordering::Acquire) {
                path.readable.store(true, Ordering::Release);
            }
        }
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let connection = &*self.connection;
        // First: what arrived before that is done.
        let failure = connection.failure();
        let result = &connection.results[request];
        if result.load(Ordering::Acquire) == 0 && !connection.is_moved() {
            self.tests += 1;
            let hot = connection.hot.load(Ordering::Relaxed);
            let is_polled = connection.polled.load(Ordering::Relaxed) == hot;
            if self.tests.is_multiple_of(if is_polled { HOT.1 } else { HOT.0 }) {
                connection.progress();
            } else {
                connection.try_read(hot);
            }
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => failure.map(|()| None),
            bytes => {
                self.free.push(request);
                Ok(Some((bytes - 1) as usize))
            }
        }
    }

    fn release(&self, memory: &Range<usize>) {
        let writes = lock(&self.connection.core).writes(memory);
        if writes {
            self.end();
        }
    }
}

impl Receiving {
    /// Ends the connection: what was asked for is not written any more when this returns.
    fn end(&self) {
        self.connection.manager.shut(self.listener);
        // First, so that a path that is just being accepted finds no place any more.
        let mut core = lock(&self.connection.core);
        core.abort();
        self.connection.note_failure(&core);
        drop(core);
        // What has arrived has arrived. All paths say so before any of them ends, by which the other end finds out.
        for path in &self.connection.paths {
            if let Some(stream) = &mut *lock(&path.stream) {
                let _ = stream.acknowledge_all();
            }
        }
        for (number, path) in self.connection.paths.iter().enumerate() {
            self.connection.lose(number, &mut lock(&path.stream));
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.end();
    }
}
