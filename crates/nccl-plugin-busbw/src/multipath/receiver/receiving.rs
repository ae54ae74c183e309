//! The receiving end as its caller holds it, before and after the other end has come: requests.
//! Not reading what comes (`receiver`).

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use nccl_plugin_abi::Status;

use super::{Shared, requests::Requests};
use crate::{
    multipath::{SMALL, keeper::lock},
    network::{Failure, REQUESTS, Request, Result},
};

/// Between two questions for all paths, the one that was used last is read so often; and where only small messages come.
const HOT: (usize, usize) = (4, 16);

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
        if let Err(failure) = lock(&shared.requests).post(data, bytes, request, shared.done()) {
            shared.fail(Failure::new(failure.status, &failure.text));
            return Err(failure);
        }
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
        // First: what came before that is done.
        let failure = shared.failure();
        let result = &shared.results[request];
        if result.load(Ordering::Acquire) == 0 && !shared.is_moved() {
            self.tests += 1;
            let hot = shared.hot.load(Ordering::Relaxed);
            let is_quiet = shared.quiet.load(Ordering::Relaxed) == hot;
            if self.tests.is_multiple_of(if is_quiet { HOT.1 } else { HOT.0 }) {
                shared.progress();
            } else {
                shared.try_read(hot);
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
        let writes = lock(&self.shared.requests).writes(memory);
        if writes {
            self.end();
        }
    }
}

impl Receiving {
    /// Ends the connection: what was asked for is not written any more when this returns.
    fn end(&self) {
        self.shared.keeper.shut(self.room);
        self.shared.fail(Failure::new(Status::REMOTE, "the connection was closed"));
        // First, so that a path that is just being let in finds no place any more.
        *lock(&self.shared.requests) = Requests::default();
        // What has come has come. All paths say so before any of them ends, by which the other end finds out.
        for link in &self.shared.links {
            if let Some(live) = &mut *lock(&link.end) {
                let _ = live.settle_up();
            }
        }
        for link in &self.shared.links {
            self.shared.lose(&mut lock(&link.end));
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        time::{Duration, Instant},
    };

    use super::{super::NONE, *};
    use crate::{
        multipath::{
            engine::Engine,
            frame::{Answer, Chunk, Header, Hello},
            keeper::Keeper,
        },
        network::Listener,
    };

    /// A connection that two paths have come by, and their other ends.
    fn connection() -> (Arc<Shared>, Box<dyn crate::network::Receiver>, Vec<UnixStream>) {
        let keeper = Keeper::new(Vec::new(), Engine::start(Some(0))).unwrap();
        let shared = Shared::new(&keeper).unwrap();
        let others = (0..2).map(|path| arrived(&shared, path, 0)).collect();
        let receiver = Listening::new(shared.clone(), 1).accept().unwrap().unwrap();
        (shared, receiver, others)
    }

    fn arrived(shared: &Shared, path: u16, epoch: u32) -> UnixStream {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        shared.arrived(&hello(path, epoch), one.into());
        other
    }

    fn hello(path: u16, epoch: u32) -> Hello {
        Hello { secret: [0; 16], listener: 1, path, paths: 2, epoch }
    }

    fn says(other: &mut impl Write, message: u64, bytes: usize) {
        let chunk = Chunk { message, total: bytes as u64, chunk: 1 << 16, index: 0 };
        let whole = [&Header::Chunk(chunk).encoded()[..], &vec![7; bytes]].concat();
        other.write_all(&whole).unwrap();
    }

    /// A sender keeps so many small messages that are not acknowledged: some on each of 16 paths would be more.
    #[test]
    fn small_messages_on_another_path_have_the_last_ones_acknowledged() {
        let (_shared, mut receiver, mut others) = connection();
        let mut place = [0u8; 100];
        for (message, path) in [(0, 0), (1, 1)] {
            // SAFETY: it outlives the receiver.
            let request = unsafe { receiver.receive(place.as_mut_ptr(), 100) }.unwrap().unwrap();
            says(&mut others[path], message, 100);
            while receiver.test(request).unwrap().is_none() {}
        }
        assert_eq!(others[0].read(&mut [0; 100]).unwrap(), 8);
    }

    /// A socket that is closed with something in it resets its connection, and what it said last may be lost.
    #[test]
    fn what_was_left_to_the_kernel_is_taken_out_in_time() {
        let (shared, mut receiver, _others) = connection();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        other.set_nodelay(true).unwrap();
        let one = listener.accept().unwrap().0;
        one.set_nonblocking(true).unwrap();
        shared.arrived(&hello(0, 1), one.into());
        let left = || {
            let end = lock(&shared.links[0].end);
            rustix::io::ioctl_fionread(&end.as_ref().unwrap().socket).unwrap()
        };
        let mut place = [0u8; 100];
        for message in 0..3 {
            // SAFETY: it outlives the receiver.
            let request = unsafe { receiver.receive(place.as_mut_ptr(), 100) }.unwrap().unwrap();
            for _ in 0..2 * HOT.1 {
                assert_eq!(receiver.test(request).unwrap(), None);
            }
            assert_eq!(left(), 0);
            says(&mut other, message, 100);
            while receiver.test(request).unwrap().is_none() {}
            // Before the first one it is not known that they are small.
            assert_eq!(left(), if message == 0 { 0 } else { 132 });
        }
        drop(receiver);
        let mut said = Vec::new();
        other.read_to_end(&mut said).unwrap();
        assert_eq!(said.len(), Answer::BYTES);
        assert!(other.take_error().unwrap().is_none());
    }

    #[test]
    fn memory_that_is_given_back_is_not_written_any_more() {
        let (_shared, mut receiver, mut others) = connection();
        let mut place = vec![0u8; 2 << 14];
        let from = place.as_ptr().addr();
        // SAFETY: it outlives the receiver.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), 1 << 14) }.unwrap().unwrap();
        receiver.release(&(from + (1 << 14)..from + (2 << 14)));
        assert_eq!(receiver.test(request).unwrap(), None);
        receiver.release(&(from..from + 1));
        let chunk = Chunk { message: 0, total: 1 << 14, chunk: 1 << 16, index: 0 };
        let _ = others[0].write_all(&Header::Chunk(chunk).encoded());
        let _ = others[0].write_all(&vec![7; 1 << 14]);
        assert!(receiver.test(request).is_err());
        drop(receiver);
        assert!(place.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn whatever_path_is_quiet_everything_comes() {
        let (shared, mut receiver, mut others) = connection();
        let mut place = vec![0u8; 1 << 14];
        let quiet = || shared.quiet.load(Ordering::Acquire);
        let mut messages = 0;
        // Many small ones by a path, after one by another path; a long one; by a path that has come again; and by one
        // that is looked at before the quiet one.
        let rounds = [
            (0, 100, 20),
            (1, 100, 20),
            (0, 100, 1),
            (1, 1 << 14, 1),
            (1, 100, 20),
            (0, 100, 20),
            (1, 100, 20),
            (0, 100, 20),
        ];
        for (round, (path, bytes, times)) in rounds.into_iter().enumerate() {
            if round == 5 {
                others[1] = arrived(&shared, 1, 1);
                assert_eq!(quiet(), NONE);
            }
            for _ in 0..times {
                let data = place.as_mut_ptr();
                // SAFETY: it outlives the receiver.
                let request = unsafe { receiver.receive(data, 1 << 14) }.unwrap().unwrap();
                says(&mut others[path], messages, bytes);
                messages += 1;
                let until = Instant::now() + Duration::from_secs(5);
                while receiver.test(request).unwrap().is_none() {
                    assert!(Instant::now() < until, "round {round}: nothing came");
                }
            }
            assert_eq!(quiet(), [0, 1, 1, NONE, 1, 0, 1, 0][round], "round {round}");
            assert_eq!(shared.hot.load(Ordering::Relaxed), path, "round {round}");
        }
    }
}
