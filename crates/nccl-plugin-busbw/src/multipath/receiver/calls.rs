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
            let core = connection.core.lock();
            if !(core.has_fin() && core.is_early()) {
                connection.failure()?;
            }
        }
        let Some(request) = self.free.pop() else { return Ok(None) };
        connection.open.begin();
        if bytes > SMALL {
            connection.join();
        }
        let mut core = connection.core.lock();
        let posted = core.post(Place(data, bytes), bytes, request, connection.done());
        connection.note_failure(&core);
        drop(core);
        posted.map_err(|error| failure(&error))?;
        for path in &connection.paths {
            // What waited for a receive.
            if path.waits.is_raised() {
                path.readable.raise();
            }
        }
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        let connection = &*self.connection;
        // First: what arrived before that is done.
        let failure = connection.failure();
        if !connection.results.is_done(request) && !connection.is_moved() {
            self.tests += 1;
            let hot = connection.hot.load(Ordering::Relaxed);
            let is_polled = connection.polled.load(Ordering::Relaxed) == hot;
            if self.tests.is_multiple_of(if is_polled { HOT.1 } else { HOT.0 }) {
                connection.progress();
            } else {
                connection.try_read(hot);
            }
        }
        match connection.results.take(request) {
            None => failure.map(|()| None),
            Some(bytes) => {
                self.free.push(request);
                Ok(Some(bytes))
            }
        }
    }

    fn release(&self, memory: &Range<usize>) {
        let writes = self.connection.core.lock().writes(memory);
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
        let mut core = self.connection.core.lock();
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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        time::Duration,
    };

    use busbw_multipath::frame::{Answer, Frame, Header, Hello};

    use super::{super::NONE, *};
    use crate::{
        multipath::{
            clock::Clock,
            engine::Engine,
            manager::{Acceptor, Managed, Manager},
        },
        network::Listener,
    };

    /// A connection with two paths, and their other ends.
    fn connection() -> (Arc<Connection>, Box<dyn crate::network::Receiver>, Vec<UnixStream>) {
        let manager = Manager::new(Vec::new(), Engine::start(Some(0)), Clock::default()).unwrap();
        let connection = Connection::new(&manager).unwrap();
        let others = (0..2).map(|path| connected(&connection, path, 0)).collect();
        let receiver = Listening::new(connection.clone(), 1).accept().unwrap().unwrap();
        (connection, receiver, others)
    }

    fn connected(connection: &Connection, path: u16, epoch: u32) -> UnixStream {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        connection.accepted(&hello(path, epoch), one.into());
        other
    }

    fn hello(path: u16, epoch: u32) -> Hello {
        Hello { secret: [0; 16], listener: 1, path, paths: 2, epoch }
    }

    fn send(other: &mut impl Write, message: u64, bytes: usize) {
        let chunk = Header { message, total: bytes as u64, chunk: 1 << 16, index: 0 };
        let whole = [&Frame::Chunk(chunk).encoded()[..], &vec![7; bytes]].concat();
        other.write_all(&whole).unwrap();
    }

    /// A sender keeps so many small messages that are not acknowledged: some on each of 16 paths would be more.
    #[test]
    fn small_messages_on_another_path_have_the_last_ones_acknowledged() {
        let (_connection, mut receiver, mut others) = connection();
        let mut place = [0u8; 100];
        for (message, path) in [(0, 0), (1, 1)] {
            // SAFETY: it outlives the receiver.
            let request = unsafe { receiver.receive(place.as_mut_ptr(), 100) }.unwrap().unwrap();
            send(&mut others[path], message, 100);
            while receiver.test(request).unwrap().is_none() {}
        }
        assert_eq!(others[0].read(&mut [0; 100]).unwrap(), 8);
    }

    /// A socket that is closed with something in it resets its connection, and what it said last may be lost.
    #[test]
    fn what_was_left_to_the_kernel_is_taken_out_in_time() {
        let (connection, mut receiver, _others) = connection();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        other.set_nodelay(true).unwrap();
        let one = listener.accept().unwrap().0;
        one.set_nonblocking(true).unwrap();
        connection.accepted(&hello(0, 1), one.into());
        let left = || {
            let end = lock(&connection.paths[0].stream);
            rustix::io::ioctl_fionread(&*end.as_ref().unwrap().socket).unwrap()
        };
        let mut place = [0u8; 100];
        for message in 0..3 {
            // SAFETY: it outlives the receiver.
            let request = unsafe { receiver.receive(place.as_mut_ptr(), 100) }.unwrap().unwrap();
            for _ in 0..2 * HOT.1 {
                assert_eq!(receiver.test(request).unwrap(), None);
            }
            assert_eq!(left(), 0);
            send(&mut other, message, 100);
            while receiver.test(request).unwrap().is_none() {}
            // Before the first one it is not known that they are small.
            assert_eq!(left(), if message == 0 { 0 } else { 132 });
        }
        drop(receiver);
        let mut answers = Vec::new();
        other.read_to_end(&mut answers).unwrap();
        assert_eq!(answers.len(), Answer::BYTES);
        assert!(other.take_error().unwrap().is_none());
    }

    /// Its acknowledgement was lost with the path: nobody waits for it, so nobody but the connection manager reads the rest.
    #[test]
    fn a_chunk_that_is_sent_again_after_the_last_receive_is_acknowledged() {
        const BYTES: usize = 20_000;
        let (shared, mut receiver, mut others) = connection();
        let mut place = vec![0u8; BYTES];
        // SAFETY: it outlives the receiver.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), BYTES) }.unwrap().unwrap();
        send(&mut others[0], 0, BYTES);
        while receiver.test(request).unwrap().is_none() {}
        others[0] = connected(&shared, 0, 1);
        shared.progress();
        while !shared.unwatch() {
            shared.check();
        }
        let header = Header { message: 0, total: BYTES as u64, chunk: 1 << 16, index: 0 };
        others[0].write_all(&Frame::Chunk(header).encoded()).unwrap();
        others[0].write_all(&[7; BYTES / 2]).unwrap();
        shared.progress();
        assert!(shared.watched.is_asked(), "the manager does not look after it");
        others[0].write_all(&[7; BYTES / 2]).unwrap();
        shared.check();
        let mut answer = [0; Answer::BYTES];
        others[0].read_exact(&mut answer).unwrap();
        assert_eq!(Answer::decoded(&answer), Some(Answer::Delivered(1)));
    }

    #[test]
    fn memory_that_is_taken_back_is_not_written_any_more() {
        let (_connection, mut receiver, mut others) = connection();
        let mut place = vec![0u8; 2 << 14];
        let from = place.as_ptr().addr();
        // SAFETY: it outlives the receiver.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), 1 << 14) }.unwrap().unwrap();
        receiver.release(&(from + (1 << 14)..from + (2 << 14)));
        assert_eq!(receiver.test(request).unwrap(), None);
        receiver.release(&(from..from + 1));
        let chunk = Header { message: 0, total: 1 << 14, chunk: 1 << 16, index: 0 };
        let _ = others[0].write_all(&Frame::Chunk(chunk).encoded());
        let _ = others[0].write_all(&vec![7; 1 << 14]);
        assert!(receiver.test(request).is_err());
        drop(receiver);
        assert!(place.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn whatever_path_is_polled_everything_arrives() {
        let (connection, mut receiver, mut others) = connection();
        let mut place = vec![0u8; 1 << 14];
        let polled = || connection.polled.load(Ordering::Acquire);
        let mut messages = 0;
        // Many small ones by a path, after one by another path; a long one; by a path that has come again; and by one
        // that is looked at before the polled one.
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
                others[1] = connected(&connection, 1, 1);
                assert_eq!(polled(), NONE);
            }
            for _ in 0..times {
                let data = place.as_mut_ptr();
                // SAFETY: it outlives the receiver.
                let request = unsafe { receiver.receive(data, 1 << 14) }.unwrap().unwrap();
                send(&mut others[path], messages, bytes);
                messages += 1;
                while receiver.test(request).unwrap().is_none() {}
            }
            assert_eq!(polled(), [0, 1, 1, NONE, 1, 0, 1, 0][round], "round {round}");
            assert_eq!(connection.hot.load(Ordering::Relaxed), path, "round {round}");
        }
    }
}
