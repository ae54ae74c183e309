//! A rank's end of the world: a TCP connection to the hub, and the shared-memory barrier of its host.
//! Not the supervisor.

use std::{
    io,
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{World, WorldError, wire};
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
    stream: TcpStream,
    barrier: Barrier,
}

/// How long the hub may take to accept, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

fn connect(hub: &str) -> io::Result<TcpStream> {
    let address = hub.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("it is no address"))?;
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
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
        let lost = |why: io::Error| WorldError::Lost {
            rank: parameters.rank,
            address: parameters.hub.clone(),
            why: why.to_string(),
        };
        let mut stream = connect(&parameters.hub).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        let rank = (parameters.rank as u64).to_le_bytes().to_vec();
        let hello = wire::pack(&[parameters.token.clone().into_bytes(), rank, facts.to_vec()]);
        wire::send(&mut stream, wire::Kind::Join, &hello).map_err(lost)?;
        let barrier = match &parameters.sharing {
            None => Barrier::world(control, parameters.rank, policy),
            Some(members) => Barrier::host(control, parameters.rank, members, policy),
        };
        let mut member = Member { parameters, stream, barrier };
        let begin =
            member.expect(wire::Kind::Begin, "start", Some(Instant::now() + CONNECT_TIMEOUT))?;
        Ok((member, begin))
    }

    /// Leaves in order: the supervisor does not take the closed connection for a lost rank.
    pub fn leave(mut self) {
        let _ = wire::send(&mut self.stream, wire::Kind::Leave, &[]);
    }

    fn lost(&self, why: &io::Error) -> WorldError {
        WorldError::Lost {
            rank: self.parameters.rank,
            address: self.parameters.hub.clone(),
            why: why.to_string(),
        }
    }

    fn send(&mut self, kind: wire::Kind, payload: &[u8]) -> Result<(), WorldError> {
        wire::send(&mut self.stream, kind, payload).map_err(|e| self.lost(&e))
    }

    fn expect(
        &mut self,
        wanted: wire::Kind,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Result<Vec<u8>, WorldError> {
        // A zero timeout means "none" to the socket, so at least a millisecond.
        let left = deadline
            .map(|d| d.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        self.stream.set_read_timeout(left).map_err(|e| self.lost(&e))?;
        match wire::receive(&mut self.stream) {
            Ok((kind, payload)) if kind == wanted => Ok(payload),
            Ok((wire::Kind::Abort, why)) => {
                Err(WorldError::Aborted(String::from_utf8_lossy(&why).into_owned()))
            }
            Ok((kind, _)) => Err(self.lost(&io::Error::other(format!("unexpected {kind:?}")))),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(WorldError::TimedOut { what, missing: Vec::new() })
            }
            Err(e) => Err(self.lost(&e)),
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
        self.send(wire::Kind::Part, bytes)?;
        let all = self.expect(wire::Kind::All, "exchange", deadline)?;
        wire::unpack(&all).map_err(|e| self.lost(&e))
    }

    fn barrier(&mut self, deadline: Option<Instant>) -> Result<(), WorldError> {
        let left = || deadline.map(|d| d.saturating_duration_since(Instant::now()));
        self.barrier.wait(left())?;
        let Some(sharing) = &self.parameters.sharing else { return Ok(()) };
        if sharing.first() == Some(&self.parameters.rank) {
            self.send(wire::Kind::Arrive, &[])?;
            self.expect(wire::Kind::Open, "barrier", deadline)?;
        }
        Ok(self.barrier.wait(left())?)
    }

    fn report(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        self.send(wire::Kind::Report, bytes)?;
        self.expect(wire::Kind::Taken, "supervisor", None).map(drop)
    }

    fn abort(&mut self, why: &str) {
        let _ = wire::send(&mut self.stream, wire::Kind::Fail, why.as_bytes());
    }
}
