//! The sending end as its caller holds it: requests, each of which waits for a word of clear-to-send.
//! Not moving what was begun (`moving`).

use std::{ops::Range, sync::Arc};

use nccl_plugin_abi::Status;

use super::{
    super::{CHUNK, arrival::MOST_CHUNKS, memory::Outgoing},
    Connection,
};
use crate::{
    multipath::pending::Comes,
    network::{Failure, Memory, REQUESTS, Request, Result},
};

/// What the caller holds.
pub(in crate::multipath::rdma) struct Sending {
    connection: Arc<Connection>,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
}

impl Sending {
    pub(in crate::multipath::rdma) fn new(connection: Arc<Connection>) -> Sending {
        Sending { connection, free: (0..REQUESTS).rev().collect() }
    }
}

impl crate::network::Sender for Sending {
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        let connection = &*self.connection;
        connection.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        let begun = connection.with(|connection, state| {
            let Some(grant) = state.table.find(state.next) else {
                state.waits.get_or_insert(connection.now());
                connection.progress(state);
                return Ok(false);
            };
            state.waits = None;
            if bytes as u64 > grant.bytes {
                let text = format!(
                    "a message of {bytes} bytes has a receive of {}: the two sides disagree",
                    grant.bytes
                );
                return Err(Failure::new(Status::INVALID_USAGE, text));
            }
            if !connection.is_reliable && bytes as u64 > MOST_CHUNKS * u64::from(CHUNK) {
                let text = format!(
                    "a message of {bytes} bytes is longer than UC queue pairs take: unset BUSBW_NET_CONNECTION"
                );
                return Err(Failure::new(Status::INVALID_USAGE, text));
            }
            let (own_keys, _) = connection.registered.keys(data.addr(), bytes)?;
            let outgoing = Outgoing::new(data.addr() as u64, bytes, own_keys, &grant);
            state.core.push(outgoing, bytes, request);
            state.next += 1;
            connection.move_out(state);
            Ok(true)
        });
        connection.watch();
        Ok(begun?.then(|| self.free.pop()).flatten())
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let done = self.connection.with(|connection, state| {
            if state.results[request].is_none() {
                connection.progress(state);
            }
            state.results[request].take()
        });
        match done {
            Some(bytes) => {
                self.free.push(request);
                Ok(Some(bytes))
            }
            None => self.connection.failure().map(|()| None),
        }
    }

    fn register(&self, memory: &Memory) -> Result<()> {
        self.connection.registered.add(memory, &self.connection.ports)
    }

    fn release(&self, memory: &Range<usize>) {
        if self.connection.with(|_, state| state.core.reads(memory)) {
            self.connection.abort();
        }
        self.connection.registered.remove(memory);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.connection.with(|_, state| state.core.is_idle()) {
            self.connection.close();
        } else {
            self.connection.abort();
        }
    }
}
