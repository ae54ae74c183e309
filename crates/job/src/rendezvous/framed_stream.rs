//! The framed stream between a worker and the coordinator: JSON messages behind a 4-byte length, and file
//! descriptors within a host.
//! Not what the messages mean.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Write},
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
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg, sockopt,
    },
    process::getuid,
};
use serde::{Serialize, de::DeserializeOwned};

/// Largest message: a rank assignment with its tables stays far below.
const MAX_MESSAGE_BYTES: u32 = 1 << 24;
/// Descriptors a message: the kernel takes 253 (SCM_MAX_FD).
const MAX_DESCRIPTORS: usize = 200;
/// How long a send may block because the peer does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// One end of a framed stream.
#[derive(Debug)]
pub enum FramedStream {
    /// Between processes of one host.
    Unix(UnixStream),
    /// Between hosts.
    Tcp(TcpStream),
}

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
        Ok(FramedStream::Unix(stream))
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
        Ok(FramedStream::Tcp(stream))
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub fn try_clone(&self) -> io::Result<FramedStream> {
        Ok(match self {
            FramedStream::Unix(stream) => FramedStream::Unix(stream.try_clone()?),
            FramedStream::Tcp(stream) => FramedStream::Tcp(stream.try_clone()?),
        })
    }

    /// The peer's address; none within a host.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            FramedStream::Unix(_) => None,
            FramedStream::Tcp(stream) => stream.peer_addr().ok(),
        }
    }

    /// This end's address; none within a host.
    pub fn local(&self) -> Option<IpAddr> {
        match self {
            FramedStream::Unix(_) => None,
            FramedStream::Tcp(stream) => Some(stream.local_addr().ok()?.ip().to_canonical()),
        }
    }

    /// Sets how long a receive may block; none for ever.
    ///
    /// # Errors
    /// When the socket option cannot be set.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            FramedStream::Unix(stream) => stream.set_read_timeout(limit),
            FramedStream::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Whether a message or the end of the stream arrives within `limit`.
    pub fn is_ready(&self, limit: Duration) -> bool {
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0)
    }

    /// Sends one message.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let frame = [&length.to_le_bytes()[..], &text].concat();
        match self {
            FramedStream::Unix(stream) => (&*stream).write_all(&frame),
            FramedStream::Tcp(stream) => (&*stream).write_all(&frame),
        }
    }

    /// Receives one message.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<T> {
        let text = match self {
            FramedStream::Unix(stream) => read(stream),
            FramedStream::Tcp(stream) => read(stream),
        };
        Ok(serde_json::from_slice(&text?)?)
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

/// Reads the text of one message.
fn read(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other(format!("a message of {length} bytes exceeds the limit")));
    }
    let mut text = Vec::new();
    from.take(length.into()).read_to_end(&mut text)?;
    if text.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text)
}

/// Reads the messages of one stream among several, without blocking.
#[derive(Debug)]
pub(super) struct FrameReader<L> {
    pub(super) stream: L,
    /// The received part of an incomplete message.
    buffer: Vec<u8>,
}

impl<L: AsRef<FramedStream>> FrameReader<L> {
    pub(super) fn new(stream: L) -> FrameReader<L> {
        FrameReader { stream, buffer: Vec::new() }
    }

    /// The complete messages that have arrived, of at most `max_bytes` each.
    ///
    /// # Errors
    /// The end of the stream, an error of the socket, a longer message, and text that is not a `T`.
    pub(super) fn read_frames<T: DeserializeOwned>(
        &mut self,
        max_bytes: u32,
    ) -> io::Result<Vec<T>> {
        let mut bytes = [0; 4096];
        match recv(self.stream.as_ref(), &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((read, _)) => self.buffer.extend_from_slice(&bytes[..read]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut messages = Vec::new();
        while let Some((length, rest)) = self.buffer.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length);
            if length > max_bytes {
                return Err(io::Error::other(format!(
                    "a message of {length} bytes exceeds the limit"
                )));
            }
            let Some(text) = rest.get(..length as usize) else { break };
            messages.push(serde_json::from_slice(text)?);
            self.buffer.drain(..4 + length as usize);
        }
        Ok(messages)
    }
}

impl AsRef<FramedStream> for FramedStream {
    fn as_ref(&self) -> &FramedStream {
        self
    }
}

impl AsFd for FramedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            FramedStream::Unix(stream) => stream.as_fd(),
            FramedStream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Descriptors as files, in the same order.
pub fn files(descriptors: Vec<OwnedFd>) -> Vec<File> {
    descriptors.into_iter().map(File::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

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
        let received = files(other.receive_descriptors(450).unwrap());
        assert_eq!(other.receive::<(String, usize)>().unwrap().0, "end");
        assert_eq!(received.len(), 450);
        for (number, mut file) in received.into_iter().enumerate() {
            let mut text = String::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
        }
    }

    #[test]
    fn garbage_and_the_end_are_errors() {
        let (one, other) = pair();
        let FramedStream::Unix(mut raw) = one else { panic!("a pair is of Unix sockets") };
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
    fn a_reader_returns_complete_messages_only() {
        let (one, other) = pair();
        let mut reader = FrameReader::new(other);
        assert!(reader.read_frames::<String>(100).unwrap().is_empty());
        one.send(&"first").unwrap();
        one.send(&"second").unwrap();
        let FramedStream::Unix(mut raw) = one else { panic!("a pair is of Unix sockets") };
        raw.write_all(&[7, 0, 0, 0, b'"', b't']).unwrap();
        assert_eq!(reader.read_frames::<String>(100).unwrap(), ["first", "second"]);
        raw.write_all(b"hird\"").unwrap();
        assert_eq!(reader.read_frames::<String>(100).unwrap(), ["third"]);
        raw.write_all(&[101, 0, 0, 0]).unwrap();
        assert!(reader.read_frames::<String>(100).is_err());
        drop(raw);
        let (one, other) = pair();
        drop(one);
        assert!(FrameReader::new(other).read_frames::<String>(100).is_err());
    }
}
