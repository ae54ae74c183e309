//! A rank's end of the world: a TCP connection to the hub, and the shared-memory barrier of its host.
//! Not the supervisor.

use std::{
    io::{self, BufReader, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    World, WorldError,
    messages::{ToHub, ToRank},
};
use crate::frame::{self, Peer};
use busbw_shm::shm::{Barrier, Control, WaitPolicy};

/// What a rank needs to join a hub.
#[derive(Debug, Clone)]
pub struct JoinParameters {
    /// The hub's address, as `host:port`.
    pub hub: String,
    /// Authenticates this rank at the hub.
    pub token: String,
    /// World rank.
    pub rank: usize,
    /// World size.
    pub size: usize,
    /// This host's name.
    pub host: String,
    /// The ranks that share this one's memory, if not all do. They synchronise there; the first of them enters the
    /// barrier at the hub for all.
    pub sharing: Option<Vec<usize>>,
}

/// A rank that has joined.
#[derive(Debug)]
pub struct Member {
    parameters: JoinParameters,
    /// Buffered: a frame arrives with one system call.
    stream: BufReader<TcpStream>,
    barrier: Barrier,
}

/// How long the hub may take to accept, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

fn connect(hub: &str) -> io::Result<TcpStream> {
    let address = hub.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("it is no address"))?;
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
}

impl JoinParameters {
    fn lost(&self, why: &io::Error) -> WorldError {
        WorldError::Lost { rank: self.rank, address: self.hub.clone(), why: why.to_string() }
    }
}

impl Member {
    /// Joins with `facts` for the supervisor; returns the hub's `begin` message.
    ///
    /// # Errors
    /// When the hub is unreachable or refuses.
    pub fn join(
        parameters: JoinParameters,
        facts: &[u8],
        control: Arc<Control>,
        policy: WaitPolicy,
    ) -> Result<(Member, Vec<u8>), WorldError> {
        let stream = connect(&parameters.hub).map_err(|e| parameters.lost(&e))?;
        stream.set_nodelay(true).map_err(|e| parameters.lost(&e))?;
        let barrier = match &parameters.sharing {
            None => Barrier::world(control, parameters.rank, policy),
            Some(members) => Barrier::host(control, parameters.rank, members, policy),
        };
        let mut member = Member { parameters, stream: BufReader::new(stream), barrier };
        let token = member.parameters.token.clone();
        member.send(&ToHub::Join {
            token: token.as_bytes(),
            rank: member.parameters.rank,
            facts,
        })?;
        let begin = member.receive("start", Some(Instant::now() + CONNECT_TIMEOUT), |message| {
            if let ToRank::Begin(plan) = message { Some(plan.to_vec()) } else { None }
        })?;
        Ok((member, begin))
    }

    /// Leaves in order: the supervisor does not take the closed connection for a lost rank.
    pub fn leave(mut self) {
        let _ = self.send(&ToHub::Leave);
    }

    fn send(&mut self, message: &ToHub<'_>) -> Result<(), WorldError> {
        let sent = message.frame().and_then(|frame| self.stream.get_mut().write_all(&frame));
        sent.map_err(|e| self.parameters.lost(&e))
    }

    /// Waits for the message from which `wanted` makes something.
    fn receive<T>(
        &mut self,
        what: &'static str,
        deadline: Option<Instant>,
        wanted: impl FnOnce(ToRank<'_>) -> Option<T>,
    ) -> Result<T, WorldError> {
        // A zero timeout means "none" to the socket, so at least a millisecond.
        let left = deadline
            .map(|d| d.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        self.stream.get_ref().set_read_timeout(left).map_err(|e| self.parameters.lost(&e))?;
        let payload = match frame::receive(&mut self.stream, Peer::Authenticated) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(WorldError::TimedOut { what, missing: Vec::new() });
            }
            other => other.map_err(|e| self.parameters.lost(&e))?,
        };
        match ToRank::parse(&payload).map_err(|e| self.parameters.lost(&e))? {
            ToRank::Abort(why) => Err(WorldError::Aborted(why.to_owned())),
            message => wanted(message).ok_or_else(|| {
                self.parameters
                    .lost(&io::Error::other(format!("another message came instead of the {what}")))
            }),
        }
    }
}

impl World for Member {
    fn rank(&self) -> usize {
        self.parameters.rank
    }

    fn size(&self) -> usize {
        self.parameters.size
    }

    fn local(&self) -> usize {
        let rank = self.parameters.rank;
        let place = |all: &Vec<usize>| all.iter().position(|other| *other == rank);
        self.parameters.sharing.as_ref().and_then(place).unwrap_or(rank)
    }

    fn host(&self) -> &str {
        &self.parameters.host
    }

    fn allgather(
        &mut self,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<u8>>, WorldError> {
        self.send(&ToHub::Part(bytes))?;
        self.receive("exchange", deadline, |message| match message {
            ToRank::All(parts) => Some(parts.into_iter().map(<[u8]>::to_vec).collect()),
            _ => None,
        })
    }

    fn barrier(&mut self, deadline: Option<Instant>) -> Result<(), WorldError> {
        let left = || deadline.map(|d| d.saturating_duration_since(Instant::now()));
        self.barrier.wait(left())?;
        let Some(sharing) = &self.parameters.sharing else { return Ok(()) };
        if sharing.first() == Some(&self.parameters.rank) {
            self.send(&ToHub::Arrive)?;
            self.receive("barrier", deadline, |message| (message == ToRank::Open).then_some(()))?;
        }
        Ok(self.barrier.wait(left())?)
    }

    fn report(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        self.send(&ToHub::Report(bytes))?;
        self.receive("supervisor", None, |message| (message == ToRank::Taken).then_some(()))
    }

    fn abort(&mut self, why: &str) {
        let _ = self.send(&ToHub::Fail(why));
    }
}
