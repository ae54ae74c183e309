//! A connection between a guest and the door: messages as JSON with their length before them, and, within
//! a host, descriptors. Not what the messages mean.

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

/// Largest message: an invitation with its tables stays far below.
const LARGEST: u32 = 1 << 24;
/// Descriptors that the kernel takes in one message (SCM_MAX_FD, 253), less some.
const DESCRIPTORS: usize = 200;
/// How long a peer may leave what we send unread.
const UNREAD: Duration = Duration::from_secs(5);

/// One end.
#[derive(Debug)]
pub enum Line {
    /// Within a host.
    Unix(UnixStream),
    /// Between hosts.
    Tcp(TcpStream),
}

impl Line {
    /// Within a host, to a process of the same user; nobody else is talked to.
    pub(super) fn of_user(stream: UnixStream) -> io::Result<Line> {
        if sockopt::socket_peercred(&stream)?.uid != getuid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_write_timeout(Some(UNREAD))?;
        Ok(Line::Unix(stream))
    }

    /// Between hosts; a dead one shows within ten seconds.
    pub(super) fn across(stream: TcpStream) -> io::Result<Line> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(UNREAD))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(3))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(2))?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        // The same for what is sent and not acknowledged, milliseconds.
        sockopt::set_tcp_user_timeout(&stream, 10_000)?;
        Ok(Line::Tcp(stream))
    }

    pub fn try_clone(&self) -> io::Result<Line> {
        Ok(match self {
            Line::Unix(stream) => Line::Unix(stream.try_clone()?),
            Line::Tcp(stream) => Line::Tcp(stream.try_clone()?),
        })
    }

    /// Address of the other end, where it may be on another host.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Line::Unix(_) => None,
            Line::Tcp(stream) => stream.peer_addr().ok(),
        }
    }

    /// Our own address on it.
    pub fn local(&self) -> Option<IpAddr> {
        match self {
            Line::Unix(_) => None,
            Line::Tcp(stream) => Some(stream.local_addr().ok()?.ip().to_canonical()),
        }
    }

    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Line::Unix(stream) => stream.set_read_timeout(limit),
            Line::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Whether something can be received, or the end has come, within `limit`.
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
            Line::Unix(stream) => (&*stream).write_all(&frame),
            Line::Tcp(stream) => (&*stream).write_all(&frame),
        }
    }

    /// Receives one message.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<T> {
        let text = match self {
            Line::Unix(stream) => read(stream),
            Line::Tcp(stream) => read(stream),
        };
        Ok(serde_json::from_slice(&text?)?)
    }

    /// Sends descriptors (SCM_RIGHTS), each chunk of them with one byte.
    pub(super) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for chunk in descriptors.chunks(DESCRIPTORS) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(chunk)) {
                return Err(io::Error::other("no room for descriptors"));
            }
            sendmsg(self, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Receives `count` of them.
    pub fn receive_descriptors(&self, count: usize) -> io::Result<Vec<OwnedFd>> {
        let mut received = Vec::new();
        while received.len() < count {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
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

/// The text of one message.
fn read(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LARGEST {
        return Err(io::Error::other(format!("a message of {length} bytes")));
    }
    let mut text = Vec::new();
    from.take(length.into()).read_to_end(&mut text)?;
    if text.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text)
}

/// A line that is heard along with others, without waiting for any of them.
#[derive(Debug)]
pub(super) struct Ear<L> {
    pub(super) line: L,
    /// What came of a message that is not whole yet.
    heard: Vec<u8>,
}

impl<L: AsRef<Line>> Ear<L> {
    pub(super) fn new(line: L) -> Ear<L> {
        Ear { line, heard: Vec::new() }
    }

    /// The messages that have come; none of more than `largest` bytes are listened to.
    ///
    /// # Errors
    /// The end, its failure, and what is no message.
    pub(super) fn hear<T: DeserializeOwned>(&mut self, largest: u32) -> io::Result<Vec<T>> {
        let mut space = [0; 4096];
        match recv(self.line.as_ref(), &mut space, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((read, _)) => self.heard.extend_from_slice(&space[..read]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut messages = Vec::new();
        while let Some((length, rest)) = self.heard.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length);
            if length > largest {
                return Err(io::Error::other(format!("a message of {length} bytes")));
            }
            let Some(text) = rest.get(..length as usize) else { break };
            messages.push(serde_json::from_slice(text)?);
            self.heard.drain(..4 + length as usize);
        }
        Ok(messages)
    }
}

impl AsRef<Line> for Line {
    fn as_ref(&self) -> &Line {
        self
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Line::Unix(stream) => stream.as_fd(),
            Line::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Descriptors as files, in order.
pub fn files(descriptors: Vec<OwnedFd>) -> Vec<File> {
    descriptors.into_iter().map(File::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    fn pair() -> (Line, Line) {
        let (one, other) = UnixStream::pair().unwrap();
        (Line::of_user(one).unwrap(), Line::of_user(other).unwrap())
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
        let Line::Unix(mut raw) = one else { panic!("a pair is of Unix sockets") };
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
    fn an_ear_hears_what_has_come_and_no_more() {
        let (one, other) = pair();
        let mut ear = Ear::new(other);
        assert!(ear.hear::<String>(100).unwrap().is_empty());
        one.send(&"first").unwrap();
        one.send(&"second").unwrap();
        let Line::Unix(mut raw) = one else { panic!("a pair is of Unix sockets") };
        raw.write_all(&[7, 0, 0, 0, b'"', b't']).unwrap();
        assert_eq!(ear.hear::<String>(100).unwrap(), ["first", "second"]);
        raw.write_all(b"hird\"").unwrap();
        assert_eq!(ear.hear::<String>(100).unwrap(), ["third"]);
        raw.write_all(&[101, 0, 0, 0]).unwrap();
        assert!(ear.hear::<String>(100).is_err());
        drop(raw);
        let (one, other) = pair();
        drop(one);
        assert!(Ear::new(other).hear::<String>(100).is_err());
    }
}
