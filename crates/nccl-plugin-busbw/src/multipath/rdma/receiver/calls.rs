//! The receiving end as its caller holds it, before and after the other end has connected: requests.
//! Not what arrives (`paths`).

use std::{ops::Range, sync::Arc};

use nccl_plugin_abi::Status;

use super::{
    super::{clear_to_send::Grant, flush::Flush, refused},
    Connection, Granted,
};
use crate::{
    multipath::locks::lock,
    network::{Failure, Memory, REQUESTS, Request, Result},
};

/// What waits for the other end to connect.
pub(in crate::multipath::rdma) struct Listening {
    connection: Arc<Connection>,
    listener: u64,
    taken: bool,
}

impl Listening {
    pub(in crate::multipath::rdma) fn new(connection: Arc<Connection>, listener: u64) -> Listening {
        Listening { connection, listener, taken: false }
    }
}

impl crate::network::Listener for Listening {
    fn accept(&mut self) -> Result<Option<Box<dyn crate::network::Receiver>>> {
        self.connection.progress(&mut lock(&self.connection.state));
        if self.taken || !self.connection.has_come() {
            return Ok(None);
        }
        self.taken = true;
        Ok(Some(Box::new(Receiving {
            connection: self.connection.clone(),
            listener: self.listener,
            free: (0..REQUESTS).rev().collect(),
        })))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.taken {
            self.connection.manager.shut(self.listener);
            self.connection.abort();
        }
    }
}

/// What the caller holds.
struct Receiving {
    connection: Arc<Connection>,
    listener: u64,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
}

impl crate::network::Receiver for Receiving {
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        let connection = &*self.connection;
        connection.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        let (_, keys) = connection.registered.keys(data.addr(), bytes)?;
        let state = &mut *lock(&connection.state);
        // A message is known by a part of its number: no more may be open, in whatever order they come.
        if state.arrivals.is_full() {
            connection.progress(state);
            return Ok(None);
        }
        let message = state.arrivals.post(request);
        let grant = Grant { message, address: data.addr() as u64, bytes: bytes as u64, keys };
        state.grants.push(Granted {
            grant,
            request,
            address: data.addr(),
            written: None,
            writes: 0,
        });
        connection.write_grants(state);
        connection.watch();
        self.free.pop();
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let state = &mut *lock(&self.connection.state);
        if state.results[request].is_none() {
            self.connection.progress(state);
        }
        match state.results[request].take() {
            Some(bytes) => {
                self.free.push(request);
                Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX)))
            }
            None => self.connection.failure().map(|()| None),
        }
    }

    fn register(&self, memory: &Memory) -> Result<()> {
        self.connection.registered.add(memory, &self.connection.ports)
    }

    fn release(&self, memory: &Range<usize>) {
        let writes = {
            let state = lock(&self.connection.state);
            let overlaps = |granted: &Granted| {
                let end = granted.address + granted.grant.bytes as usize;
                granted.address < memory.end && memory.start < end
            };
            state.grants.iter().any(overlaps)
        };
        if writes {
            self.connection.abort();
        }
        self.connection.registered.remove(memory);
    }

    fn flush(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        let connection = &*self.connection;
        connection.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        let state = &mut *lock(&connection.state);
        if bytes == 0 {
            state.results[request] = Some(0);
            self.free.pop();
            return Ok(Some(request));
        }
        let (_, keys) = connection.registered.keys(data.addr(), bytes)?;
        if state.flushes.is_empty() {
            let made = connection.ports.iter().zip(&state.queues);
            let made = made
                .map(|(port, queue)| Flush::new(port, queue))
                .collect::<std::result::Result<_, _>>();
            state.flushes = made.map_err(|why| Failure::new(Status::SYSTEM, why))?;
        }
        for (flush, key) in state.flushes.iter_mut().zip(keys) {
            flush.read(data.addr() as u64, key, request).map_err(refused)?;
            state.flushing[request] += 1;
        }
        self.free.pop();
        Ok(Some(request))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.connection.say_settled();
        self.connection.manager.shut(self.listener);
        self.connection.abort();
    }
}
