//! What applications may do with sockets: listen, connect, write, read, shut and close.
//! Not what happens on the way (`simulation`).

use super::{Connection, Listening, Read, Simulation, Socket};
use crate::{
    Content,
    content::Stream,
    network::Label,
    tcp::{End, Failure, Info, News, Settings, Stage},
};

impl Simulation {
    /// Listens. Returns the listener's number.
    pub fn listen(&mut self) -> usize {
        self.listeners.push(Listening::Accepts);
        self.listeners.len() - 1
    }

    /// What whoever connects finds from now on.
    pub fn set_listening(&mut self, listener: usize, listening: Listening) {
        self.listeners[listener] = listening;
    }

    /// Connects to a listener by these ways. The labels decide which links are taken there and back.
    pub fn connect(
        &mut self,
        ways: usize,
        labels: [Label; 2],
        listener: usize,
        settings: Settings,
    ) -> Socket {
        let end = End::new(&settings, true, self.random.next(), self.now);
        self.connections.push(Connection {
            ways,
            labels,
            listener,
            settings,
            ends: [Some(end), None],
            streams: [Stream::default(), Stream::default()],
        });
        let socket = Socket { connection: self.connections.len() - 1, connects: true };
        self.after(socket, News::default());
        socket
    }

    /// The listener that a connection was made to.
    #[must_use]
    pub fn listener(&self, socket: Socket) -> usize {
        self.connections[socket.connection].listener
    }

    /// Bytes that can be written now.
    pub fn room(&mut self, socket: Socket) -> usize {
        self.end(socket).map_or(0, |end| usize::try_from(end.room()).unwrap_or(usize::MAX))
    }

    /// Writes as much of this as there is room for. Returns how many bytes that is.
    pub fn write(&mut self, socket: Socket, content: &Content) -> usize {
        let now = self.now;
        let Some(end) = self.end(socket) else { return 0 };
        let bytes = usize::try_from(end.room()).unwrap_or(usize::MAX).min(content.bytes());
        if bytes == 0 {
            return 0;
        }
        let part = content.part(0..bytes);
        self.connections[socket.connection].streams[usize::from(!socket.connects)].write(part);
        if let Some(end) = self.end(socket) {
            end.write(bytes as u64, bytes < content.bytes(), now);
        }
        self.after(socket, News::default());
        bytes
    }

    /// Reads at most so many bytes; perhaps fewer than there are.
    pub fn read(&mut self, socket: Socket, most: usize) -> Read {
        let now = self.now;
        let Some(end) = self.end(socket) else { return Read::Empty };
        // A reset takes what was not read with it.
        if let Stage::Over(failure) = end.stage {
            return failure.map_or(Read::End, Read::Failed);
        }
        let readable = usize::try_from(end.readable()).unwrap_or(usize::MAX).min(most);
        if readable == 0 {
            return if end.is_at_end() { Read::End } else { Read::Empty };
        }
        let stream = &mut self.connections[socket.connection].streams[usize::from(socket.connects)];
        let Some(content) = stream.read(readable) else { return Read::Empty };
        if let Some(end) = self.end(socket) {
            end.was_read(content.bytes() as u64, now);
        }
        self.after(socket, News::default());
        Read::Bytes(content)
    }

    /// Bytes that can be read.
    pub fn readable(&mut self, socket: Socket) -> usize {
        self.end(socket).map_or(0, |end| end.readable() as usize)
    }

    /// Why a connection has failed, if it has.
    pub fn failure(&mut self, socket: Socket) -> Option<Failure> {
        match self.end(socket)?.stage {
            Stage::Over(failure) => failure,
            _ => None,
        }
    }

    /// Whether a connection is up.
    pub fn is_up(&mut self, socket: Socket) -> bool {
        self.end(socket).is_some_and(|end| end.is_up())
    }

    /// Says that nothing more is written.
    pub fn shut(&mut self, socket: Socket) {
        let now = self.now;
        if let Some(end) = self.end(socket) {
            end.shut(now);
        }
        self.after(socket, News::default());
    }

    /// Closes a socket: what was written is sent still. Where something was not read, the connection is reset.
    pub fn close(&mut self, socket: Socket) {
        let now = self.now;
        if let Some(end) = self.end(socket) {
            end.close(now);
        }
        self.after(socket, News::default());
    }

    /// Resets a connection.
    pub fn reset(&mut self, socket: Socket) {
        if let Some(end) = self.end(socket) {
            end.reset();
        }
        self.after(socket, News::default());
    }

    /// What the kernel knows of a connection.
    pub fn info(&mut self, socket: Socket) -> Option<Info> {
        let now = self.now;
        self.end(socket).map(|end| end.info(now))
    }
}
