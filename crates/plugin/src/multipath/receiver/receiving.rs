//! The receiving end as its caller holds it, before and after the other end has come: requests.
//! Not reading what comes (`receiver`).

use std::sync::{Arc, atomic::Ordering};

use model::abi::Status;

use super::{Shared, requests::Requests};
use crate::{
    multipath::{SMALL, keeper::lock},
    network::{Failure, REQUESTS, Request, Result},
};

/// Between two questions for all paths, the one that was used last is read so often.
const HOT: usize = 4;

/// What waits for the connection to come.
pub(in crate::multipath) struct Listening {
    shared: Arc<Shared>,
    room: u64,
    taken: bool,
}

impl Listening {
    pub(in crate::multipath) fn new(shared: Arc<Shared>, room: u64) -> Listening {
        Listening { shared, room, taken: false }
    }
}

impl crate::network::Listener for Listening {
    fn accept(&mut self) -> Result<Option<Box<dyn crate::network::Receiver>>> {
        if self.taken || !self.shared.has_come() {
            return Ok(None);
        }
        self.taken = true;
        Ok(Some(Box::new(Receiving {
            shared: self.shared.clone(),
            room: self.room,
            free: (0..REQUESTS).rev().collect(),
            tests: 0,
        })))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.taken {
            self.shared.keeper.shut(self.room);
        }
    }
}

/// What the caller holds.
struct Receiving {
    shared: Arc<Shared>,
    room: u64,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    tests: usize,
}

impl crate::network::Receiver for Receiving {
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        let shared = &*self.shared;
        // What has come is there also after the other side has ended.
        if !(shared.bye.load(Ordering::Acquire) && lock(&shared.requests).is_early()) {
            shared.failure()?;
        }
        let Some(request) = self.free.pop() else { return Ok(None) };
        shared.open.begin();
        if bytes > SMALL {
            shared.join();
        }
        lock(&shared.requests).post(data, bytes, request, shared.done())?;
        for link in &shared.links {
            // What waited for a request.
            if link.waits.load(Ordering::Acquire) {
                link.readable.store(true, Ordering::Release);
            }
        }
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let shared = &*self.shared;
        let result = &shared.results[request];
        if result.load(Ordering::Acquire) == 0 && !shared.is_moved() {
            self.tests += 1;
            if self.tests.is_multiple_of(HOT) {
                shared.progress();
            } else {
                shared.try_read(shared.hot.load(Ordering::Relaxed));
            }
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => shared.failure().map(|()| None),
            bytes => {
                self.free.push(request);
                Ok(Some((bytes - 1) as usize))
            }
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.shared.keeper.shut(self.room);
        self.shared.fail(Failure::new(Status::REMOTE, "the connection was closed"));
        // First, so that a path that is just being let in finds no place any more.
        *lock(&self.shared.requests) = Requests::default();
        for link in &self.shared.links {
            let mut end = lock(&link.end);
            if let Some(live) = &mut *end {
                // What has come has come: the other end need not find out elsewhere.
                let _ = live.settle_up();
            }
            self.shared.lose(&mut end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    use super::*;
    use crate::{
        multipath::{
            engine::Engine,
            frame::{Chunk, Header, Hello},
            keeper::Keeper,
        },
        network::Listener,
    };

    /// A sender keeps 64 small messages that are not acknowledged; a few on each of 16 paths would be more.
    #[test]
    fn small_messages_on_another_path_have_the_last_ones_acknowledged() {
        let keeper = Keeper::new(Vec::new(), Engine::start(Some(0)).unwrap()).unwrap();
        let shared = Shared::new(&keeper).unwrap();
        let mut others = Vec::new();
        for path in 0..2 {
            let (one, other) = UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let hello = Hello { secret: [0; 16], listener: 1, path, paths: 2, epoch: 0 };
            shared.arrived(&hello, one.into());
            others.push(other);
        }
        let mut receiver = Listening::new(shared.clone(), 1).accept().unwrap().unwrap();
        let mut place = [0u8; 100];
        for (message, path) in [(0, 0), (1, 1)] {
            // SAFETY: it outlives the receiver.
            let request = unsafe { receiver.receive(place.as_mut_ptr(), 100) }.unwrap().unwrap();
            let chunk = Chunk { message, total: 100, chunk: 1 << 16, index: 0 };
            others[path].write_all(&Header::Chunk(chunk).encoded()).unwrap();
            others[path].write_all(&[7; 100]).unwrap();
            while receiver.test(request).unwrap().is_none() {}
        }
        assert_eq!(others[0].read(&mut [0; 100]).unwrap(), 8);
    }
}
