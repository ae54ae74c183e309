//! The sending end as its caller holds it: requests, and small messages that leave at once.
//! Not moving the others (`moving`).

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use busbw_multipath::SMALL;

use super::Connection;
use crate::{
    multipath::{memory::Outgoing, pending::Comes},
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
            let mut core = connection.core.lock();
            if !core.has_room(bytes) {
                drop(core);
                connection.progress();
                return Ok(None);
            }
            if core.copies() % CHECKED == CHECKED - 1 {
                // Where they arrive, most likely.
                let hot = connection.hot.load(Ordering::Relaxed);
                connection.paths[hot].readable.raise();
            }
            core.push_copy(Outgoing::Copy(data.into()), bytes);
            drop(core);
            connection.results.done(request, bytes as u64);
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
            connection.core.lock().push(Outgoing::Lent(data, bytes), bytes, request);
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
        if !self.connection.results.is_done(request) {
            if failure.is_err() {
                self.connection.read_last();
            } else if !self.connection.is_moved() {
                self.connection.progress();
            }
        }
        match self.connection.results.take(request) {
            None => failure.map(|()| None),
            Some(bytes) => {
                self.free.push(request);
                self.small -= usize::from(bytes <= SMALL);
                Ok(Some(bytes))
            }
        }
    }

    fn release(&self, memory: &Range<usize>) {
        let reads = self.connection.core.lock().reads(memory);
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
            if !self.paths[path].writable.is_raised() {
                continue;
            }
            let Some(_) = self.try_move(path) else {
                busy |= path == first;
                continue;
            };
            if self.core.lock().work().1 {
                continue;
            }
            // Where somebody just looks at the first one, as the connection manager does now and then,
            // one message goes elsewhere:
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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{IpAddr, Ipv4Addr, SocketAddr},
        os::unix::net::UnixStream,
    };

    use busbw_multipath::{
        State,
        frame::{Answer, Frame, Hello},
    };

    use super::*;
    use crate::{
        multipath::{
            clock::Clock,
            engine::Engine,
            locks::lock,
            manager::{Closing, Dialer, Managed, Manager},
        },
        network::Sender,
    };

    const HELLO: Hello = Hello { secret: [0; 16], listener: 1, path: 0, paths: 2, epoch: 0 };
    /// Bytes on the wire of a message of 100.
    const HUNDRED: usize = Frame::BYTES + 100;

    /// A connection that has two paths, and their other ends.
    fn connection() -> (Arc<Connection>, Vec<UnixStream>) {
        connection_of(Engine::start(Some(0)))
    }

    fn connection_of(engine: Arc<Engine>) -> (Arc<Connection>, Vec<UnixStream>) {
        // Where nobody listens: the paths are these.
        let route = (None, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1));
        let manager = Manager::new(Vec::new(), engine, Clock::default()).unwrap();
        let connection = Connection::new(&manager, HELLO, vec![route, route], 1 << 16).unwrap();
        let others = (0..2).map(|path| connected(&connection, path)).collect();
        (connection, others)
    }

    fn connected(connection: &Connection, path: u16) -> UnixStream {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        connection.connected(&Hello { path, ..HELLO }, one.into());
        other
    }

    fn is_down(connection: &Connection, path: usize) -> bool {
        connection.core.lock().state(path) == State::Down
    }

    fn read_all(other: &mut UnixStream) -> usize {
        let mut room = vec![0; 1 << 20];
        let mut bytes = 0;
        while let Ok(more @ 1..) = other.read(&mut room) {
            bytes += more;
        }
        bytes
    }

    fn read_at_once(other: &mut UnixStream) -> usize {
        other.read(&mut vec![0; 1 << 20]).unwrap_or(0)
    }

    fn send(sending: &mut Sending, data: &[u8]) -> Request {
        // SAFETY: it is copied, or the caller keeps it longer than the connection.
        unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap()
    }

    #[test]
    fn a_small_message_takes_the_next_path_when_the_first_is_lost() {
        let (connection, mut others) = connection();
        drop(others.remove(0));
        connection.progress();
        assert!(is_down(&connection, 0));
        send(&mut Sending::new(connection), &[7; 100]);
        assert_eq!(read_all(&mut others[0]), HUNDRED);
    }

    #[test]
    fn only_what_is_sent_while_its_path_is_locked_goes_elsewhere() {
        let (connection, mut others) = connection();
        let mut sending = Sending::new(connection.clone());
        for (is_locked, bytes) in [(true, [0, HUNDRED]), (false, [HUNDRED, 0])] {
            let _locked = is_locked.then(|| lock(&connection.paths[0].stream));
            let request = send(&mut sending, &[7; 100]);
            assert_eq!(sending.test(request).unwrap(), Some(100));
            assert_eq!([0, 1].map(|path| read_all(&mut others[path])), bytes);
        }
    }

    #[test]
    fn an_acknowledgement_and_the_end_behind_it_are_read_at_once() {
        let (connection, mut others) = connection();
        send(&mut Sending::new(connection.clone()), &[7; 100]);
        let mut other = others.remove(0);
        other.write_all(&Answer::Delivered(1).encoded()).unwrap();
        drop(other);
        connection.progress();
        assert!(is_down(&connection, 0) && connection.is_idle());
    }

    #[test]
    fn what_was_acknowledged_is_done_though_the_connection_has_ended() {
        let (connection, others) = connection();
        let mut sending = Sending::new(connection.clone());
        let data = vec![7u8; 50_000];
        let request = send(&mut sending, &data);
        (&others[0]).write_all(&Answer::Delivered(1).encoded()).unwrap();
        connection.gone();
        connection.check();
        assert_eq!(sending.test(request).unwrap(), Some(data.len()));
    }

    #[test]
    fn what_was_gathered_leaves_together_when_the_first_of_it_is_tested() {
        let (connection, mut others) = connection();
        let mut sending = Sending::new(connection);
        let requests = [(); 5].map(|()| send(&mut sending, &[7; 100]));
        assert_eq!(read_all(&mut others[0]), SINGLE * HUNDRED);
        for request in &requests[..SINGLE] {
            assert_eq!(sending.test(*request).unwrap(), Some(100));
        }
        assert_eq!(read_all(&mut others[0]), 0);
        assert_eq!(sending.test(requests[SINGLE]).unwrap(), Some(100));
        assert_eq!(read_all(&mut others[0]), (5 - SINGLE) * HUNDRED);
    }

    #[test]
    fn messages_of_one_chunk_call_two_threads_and_longer_ones_more() {
        for bytes in [10_000, 1 << 16] {
            // Threads that are called, and never come.
            let (connection, others) = connection_of(Arc::new(Engine::with_threads(8)));
            let mut sending = Sending::new(connection.clone());
            let data = vec![7u8; bytes];
            let requests = [(); 3].map(|()| send(&mut sending, &data));
            let called = || connection.manager.engine.called();
            assert_eq!(called(), 2, "{bytes}");
            if bytes == 10_000 {
                (&others[0]).write_all(&Answer::Delivered(3).encoded()).unwrap();
                assert_eq!(sending.test(requests[0]).unwrap(), Some(bytes));
                // More than one path takes at once.
                let long = vec![7u8; 4 << 20];
                send(&mut sending, &long);
                assert_eq!(called(), 3);
            }
            connection.gone();
        }
    }

    #[test]
    fn a_chunk_of_which_the_kernel_took_a_part_is_written_on() {
        let (connection, mut others) = connection();
        for path in &connection.paths {
            let stream = lock(&path.stream);
            let socket = &stream.as_ref().unwrap().socket;
            rustix::net::sockopt::set_socket_send_buffer_size(socket, 4096).unwrap();
        }
        let data = vec![7u8; 1 << 16];
        let mut sending = Sending::new(connection.clone());
        send(&mut sending, &data);
        // Nothing else is to be sent, so that only this says that the path has more.
        assert!(!connection.core.has_work());
        let mut read = 0;
        while read < Frame::BYTES + data.len() {
            let more = others.iter_mut().map(read_at_once).sum::<usize>();
            assert!(more > 0, "{read} bytes came");
            read += more;
            connection.progress();
        }
    }

    #[test]
    fn memory_that_is_taken_back_is_not_read_any_more() {
        let (connection, _others) = connection();
        let mut sending = Sending::new(connection.clone());
        let data = vec![7u8; 1 << 20];
        let at = |bytes: Range<usize>| {
            data.as_ptr().addr() + bytes.start..data.as_ptr().addr() + bytes.end
        };
        send(&mut sending, &data[..100]);
        let request = send(&mut sending, &data[1 << 19..]);
        sending.release(&at(0..1 << 19));
        assert_eq!(sending.test(request).unwrap(), None);
        sending.release(&at(0..(1 << 19) + 1));
        assert!(!connection.is_up() && connection.is_idle());
        assert!(sending.test(request).is_err());
    }

    #[test]
    fn a_path_that_cannot_be_watched_is_tried_again() {
        let (connection, others) = connection();
        drop(others);
        connection.progress();
        // No folder can be watched.
        connection.connected(&HELLO, std::fs::File::open("/").unwrap().into());
        assert!(is_down(&connection, 0) && lock(&connection.paths[0].stream).is_none());
    }

    #[test]
    fn an_ended_connection_is_left_alone() {
        let (connection, _others) = connection();
        send(&mut Sending::new(connection.clone()), &[7; 100]);
        connection.gone();
        assert!(!connection.check());
        assert!(connection.unwatch());
        assert!(!connection.is_up());
        // Also by a path that was just being connected.
        let mut other = connected(&connection, 0);
        assert!(!connection.is_up());
        assert!(matches!(other.read(&mut [0; 8]), Ok(0)));
    }
}
