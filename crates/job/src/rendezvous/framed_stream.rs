//! The framed stream between a worker and the coordinator: JSON messages, and file descriptors within a host.
//! Not what the messages mean, and not the frame itself (`frame`).

use std::{
    io::{self, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg, sockopt,
    },
    process::getuid,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::frame::{self, FrameReader, Peer};

/// Descriptors a message: the kernel takes 253 (SCM_MAX_FD).
const MAX_DESCRIPTORS: usize = 200;
/// How long a send may block because the peer does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// One end of a framed stream: of Unix sockets between processes of one host, of TCP between hosts. Whatever is called of
/// std's type is the same for both.
#[derive(Debug)]
pub struct FramedStream(TcpStream);

impl FramedStream {
    /// Over a Unix socket.
    ///
    /// # Errors
    /// When the peer is another user's process.
    pub(super) fn from_unix(stream: UnixStream) -> io::Result<FramedStream> {
        if sockopt::socket_peercred(&stream)?.uid != getuid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(FramedStream(OwnedFd::from(stream).into()))
    }

    /// Over TCP, with keep-alives: a dead host shows within 10 s.
    ///
    /// # Errors
    /// When a socket option cannot be set.
    pub(super) fn from_tcp(stream: TcpStream) -> io::Result<FramedStream> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(3))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(2))?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        // The same for data that is not acknowledged; milliseconds.
        sockopt::set_tcp_user_timeout(&stream, 10_000)?;
        Ok(FramedStream(stream))
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub fn try_clone(&self) -> io::Result<FramedStream> {
        Ok(FramedStream(self.0.try_clone()?))
    }

    /// The peer's address; none within a host.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    /// This end's address; none within a host.
    pub fn local(&self) -> Option<IpAddr> {
        Some(self.0.local_addr().ok()?.ip().to_canonical())
    }

    /// Sets how long a receive may block; none for ever.
    ///
    /// # Errors
    /// When the socket option cannot be set.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(limit)
    }

    /// Whether a message or the end of the stream arrives within `limit`.
    pub fn is_ready(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready > 0)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// An error of the socket, or a message that is too long.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        (&self.0).write_all(&frame::json(message)?)
    }

    /// Receives one message after the handshake.
    ///
    /// # Errors
    /// The end of the stream, an error of the socket, a message that is too long, and text that is not a `T`.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<T> {
        self.receive_from(Peer::Authenticated)
    }

    /// Receives one message.
    pub(super) fn receive_from<T: DeserializeOwned>(&self, peer: Peer) -> io::Result<T> {
        Ok(serde_json::from_slice(&frame::receive(&self.0, peer)?)?)
    }

    /// Reads what has arrived, without blocking.
    ///
    /// # Errors
    /// The end of the stream, or an error of the socket.
    pub(super) fn read(&self, reader: &mut FrameReader) -> io::Result<()> {
        reader.read(&mut [0; 4096], |piece| Ok(recv(self, piece, RecvFlags::DONTWAIT)?.0))
    }

    /// Sends descriptors (SCM_RIGHTS), each chunk of them with one byte.
    pub(super) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for chunk in descriptors.chunks(MAX_DESCRIPTORS) {
            let mut bytes =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut bytes);
            if !ancillary.push(SendAncillaryMessage::ScmRights(chunk)) {
                return Err(io::Error::other("no room for descriptors"));
            }
            sendmsg(self, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Receives `count` descriptors.
    pub fn receive_descriptors(&self, count: usize) -> io::Result<Vec<OwnedFd>> {
        let mut received = Vec::new();
        while received.len() < count {
            let mut bytes =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut bytes);
            let mut byte = [0];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let read = recvmsg(self, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
            let before = received.len();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    received.extend(descriptors);
                }
            }
            if read.bytes == 0 || received.len() == before {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(received)
    }
}

impl AsFd for FramedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        io::{Read, Seek, SeekFrom},
    };

    fn pair() -> (FramedStream, FramedStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (FramedStream::from_unix(one).unwrap(), FramedStream::from_unix(other).unwrap())
    }

    #[test]
    fn messages_and_many_descriptors_arrive_in_order() {
        let (one, other) = pair();
        let mut sent: Vec<File> = (0..450).map(|_| tempfile::tempfile().unwrap()).collect();
        for (number, file) in sent.iter_mut().enumerate() {
            write!(file, "{number}").unwrap();
        }
        one.send(&("begin", 450)).unwrap();
        let descriptors: Vec<_> = sent.iter().map(AsFd::as_fd).collect();
        one.send_descriptors(&descriptors).unwrap();
        one.send(&("end", 0)).unwrap();
        assert_eq!(other.receive::<(String, usize)>().unwrap(), ("begin".to_owned(), 450));
        let received = other.receive_descriptors(450).unwrap();
        assert_eq!(other.receive::<(String, usize)>().unwrap().0, "end");
        assert_eq!(received.len(), 450);
        for (number, mut file) in received.into_iter().map(File::from).enumerate() {
            let mut text = String::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
        }
    }

    #[test]
    fn garbage_and_the_end_are_errors() {
        let (one, other) = pair();
        let mut raw = one.0;
        raw.write_all(&[4, 0, 0, 0]).unwrap();
        raw.write_all(b"{{{{").unwrap();
        assert!(other.receive::<usize>().is_err());
        raw.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(other.receive::<usize>().is_err());
        assert!(!other.is_ready(Duration::from_millis(1)));
        drop(raw);
        assert!(other.is_ready(Duration::from_millis(100)));
        assert!(other.receive::<usize>().is_err());
    }

    #[test]
    fn a_reader_does_not_block() {
        let (one, other) = pair();
        assert_eq!((one.peer(), one.local()), (None, None));
        let mut reader = FrameReader::default();
        other.read(&mut reader).unwrap();
        assert_eq!(reader.next(Peer::Authenticated).unwrap(), None);
        one.send(&"first").unwrap();
        one.send(&"second").unwrap();
        other.read(&mut reader).unwrap();
        for text in ["\"first\"", "\"second\""] {
            assert_eq!(reader.next(Peer::Authenticated).unwrap(), Some(text.as_bytes()));
        }
        drop(one);
        assert!(other.read(&mut reader).is_err());
    }
}
