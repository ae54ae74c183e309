//! A way in for the fuzz target of the wire: the receiving end of a connection, without threads, and what is decoded.
//! Not for programs, nor in them.

use std::{
    io::{ErrorKind, Write},
    os::unix::net::UnixStream,
    sync::Arc,
};

use busbw_multipath::{
    MAX_PATHS,
    frame::{Answer, Frame, Hello, take},
};

use super::{
    clock::Clock,
    engine::Engine,
    handle,
    manager::{Acceptor, Managed, Manager},
    receiver::{Connection, Listening},
};
use crate::network::{Handle, Listener, Receiver, Request, Result};

/// The receiving end of a connection, and the other ends of its paths.
pub struct Receives {
    receiver: Box<dyn Receiver>,
    connection: Arc<Connection>,
    paths: Vec<Path>,
}

struct Path {
    end: UnixStream,
    epoch: u32,
    /// What the kernel did not take yet.
    waits: Vec<u8>,
}

impl Receives {
    /// With so many paths, at most as many as there may be.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn new(paths: usize) -> Result<Receives> {
        let manager = Manager::new(Vec::new(), Engine::start(Some(0)), Clock::default())?;
        let connection = Connection::new(&manager)?;
        let paths = (0..paths.clamp(1, MAX_PATHS)).map(|path| come(&connection, path, 0)).collect();
        let receiver = Listening::new(connection.clone(), 0).accept()?;
        let receiver = receiver.unwrap_or_else(|| unreachable!("a path has come"));
        Ok(Receives { receiver, connection, paths })
    }

    /// Bytes that come by a path.
    pub fn say(&mut self, path: usize, bytes: &[u8]) {
        let count = self.paths.len();
        self.paths[path % count].waits.extend(bytes);
        self.flush();
    }

    /// A path ends behind what the kernel has of it, and comes again if it should.
    pub fn end(&mut self, path: usize, again: bool) {
        self.flush();
        let path = path % self.paths.len();
        let epoch = self.paths[path].epoch + 1;
        if again {
            self.paths[path] = come(&self.connection, path, epoch);
        } else {
            let _ = self.paths[path].end.shutdown(std::net::Shutdown::Both);
        }
    }

    /// As [`Receiver::receive`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    pub unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>> {
        // SAFETY: as the caller says.
        unsafe { self.receiver.receive(data, bytes) }
    }

    /// As [`Receiver::test`].
    ///
    /// # Errors
    /// As there.
    pub fn test(&mut self, request: Request) -> Result<Option<usize>> {
        self.flush();
        self.receiver.test(request)
    }

    /// What the connection manager's thread does.
    pub fn check(&mut self) {
        self.flush();
        self.connection.check();
    }

    /// Chunks that are kept before their request, and their bytes; and chunks that came twice at once.
    pub fn kept(&self) -> (usize, usize, usize) {
        self.connection.kept()
    }

    fn flush(&mut self) {
        for Path { end, waits, .. } in &mut self.paths {
            match end.write(waits) {
                Ok(bytes) => drop(waits.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has ended.
                Err(_) => waits.clear(),
            }
        }
    }
}

fn come(connection: &Arc<Connection>, path: usize, epoch: u32) -> Path {
    let hello =
        Hello { secret: [0; 16], listener: 0, path: path as u16, paths: MAX_PATHS as u16, epoch };
    let (one, end) = UnixStream::pair().unwrap_or_else(|error| panic!("no sockets: {error}"));
    let _ = end.set_nonblocking(true);
    connection.accepted(&hello, one.into());
    Path { end, epoch, waits: Vec::new() }
}

/// Whatever is taken for a frame or a handle is the same once it was written and read again, and fits.
pub fn decode(bytes: &[u8]) {
    super::rdma::decode(bytes);
    let Some((frame, _)) = bytes.split_first_chunk::<{ Hello::BYTES }>() else { return };
    if let Some(hello) = Hello::decoded(frame) {
        assert_eq!(Hello::decoded(&hello.encoded()), Some(hello));
        assert!(usize::from(hello.path) < MAX_PATHS);
    }
    if let Ok(header) = Frame::decoded(&take(frame, 0)) {
        assert_eq!(Frame::decoded(&header.encoded()).ok(), Some(header));
        if let Frame::Chunk(chunk) = header {
            assert!(chunk.offset() + chunk.bytes() as u64 <= chunk.total);
        }
    }
    if let Some(answer) = Answer::decoded(&take(frame, 0)) {
        assert_eq!(Answer::decoded(&answer.encoded()), Some(answer));
    }
    let mut there: Handle = [0; size_of::<Handle>()];
    let length = bytes.len().min(there.len());
    there[..length].copy_from_slice(&bytes[..length]);
    if let Ok(listening) = handle::Listening::read(&there) {
        let mut again: Handle = [0; size_of::<Handle>()];
        listening.write(&mut again);
        assert_eq!(handle::Listening::read(&again).ok(), Some(listening));
        handle::set_state(&mut again, 7);
        assert_eq!(handle::state(&again), 7);
    }
}
