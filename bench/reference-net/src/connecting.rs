//! The end that connects: it opens one socket after the other and sends a greeting on each.
//! Not what they carry.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use nccl_plugin_abi::Status;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{connect, sockopt},
};

use super::{
    Settings,
    handle::ListenAddress,
    socket::{Direction, Socket, opened},
};
use nccl_plugin_busbw::network::{Failure, Result};

/// NCCL_SOCKET_RETRY_CNT.
const MAX_CONNECT_RETRIES: u32 = 34;
/// NCCL_SOCKET_RETRY_SLEEP_MSEC; the pause grows by this much with each retry.
const RETRY_DELAY_STEP: Duration = Duration::from_millis(100);
/// ncclSocketTypeNetSocket.
const SOCKET_TYPE: u32 = 3;
/// Magic, type, and which of the sockets it is; the last one is the one for sizes.
pub(super) const GREETING_BYTES: usize = 13;

/// The first bytes on a socket.
pub(super) fn greeting(magic: u64, index: u8) -> [u8; GREETING_BYTES] {
    let mut words = [0; GREETING_BYTES];
    words[..8].copy_from_slice(&magic.to_le_bytes());
    words[8..12].copy_from_slice(&SOCKET_TYPE.to_le_bytes());
    words[12] = index;
    words
}

/// Sockets of a connection that is complete.
pub(super) struct Parts {
    pub data: Vec<Socket>,
    pub control: Socket,
    pub threads: usize,
}

/// A connection that is being opened.
pub(super) struct Connecting {
    to: ListenAddress,
    settings: Settings,
    made: Vec<Socket>,
    stage: Stage,
    retries: u32,
}

enum Stage {
    /// Connects at this time or later.
    Waits(Instant),
    Connects(OwnedFd),
    /// Has sent this many bytes of the greeting.
    Greets(Socket, usize),
}

impl Connecting {
    pub fn new(to: ListenAddress, settings: &Settings) -> Connecting {
        let stage = Stage::Waits(Instant::now());
        Connecting { to, settings: settings.clone(), made: Vec::new(), stage, retries: 0 }
    }

    fn sockets(&self) -> usize {
        usize::from(self.to.threads) * usize::from(self.to.sockets_per_thread)
    }

    /// Continues without blocking. Returns all sockets once the last one is connected.
    ///
    /// # Errors
    /// When the other end cannot be reached.
    pub fn progress(&mut self) -> Result<Option<Parts>> {
        while self.made.len() <= self.sockets() {
            if !self.step()? {
                return Ok(None);
            }
        }
        let mut data = std::mem::take(&mut self.made);
        let threads = usize::from(self.to.threads);
        Ok(data.pop().map(|control| Parts { data, control, threads }))
    }

    /// Whether something changed.
    fn step(&mut self) -> Result<bool> {
        match &mut self.stage {
            Stage::Waits(until) if Instant::now() < *until => return Ok(false),
            Stage::Waits(_) => {
                let socket = opened(&self.to.address, self.local(), &self.settings)?;
                let begun = connect(&socket, &self.to.address);
                self.stage = Stage::Connects(socket);
                self.judge(begun)?;
            }
            Stage::Connects(socket) => {
                let mut asked = [PollFd::new(socket, PollFlags::OUT)];
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                if poll(&mut asked, Some(&now)).unwrap_or(0) == 0 {
                    return Ok(false);
                }
                let outcome = sockopt::socket_error(&*socket).and_then(|outcome| outcome);
                match outcome {
                    Ok(()) => self.connected(),
                    failed => self.judge(failed)?,
                }
            }
            Stage::Greets(socket, sent) => {
                // There are at most 64.
                let mut words = greeting(self.to.magic, self.made.len() as u8);
                // SAFETY: the greeting is there.
                *sent += unsafe {
                    socket.progress(Direction::Send, words.as_mut_ptr(), GREETING_BYTES, *sent)?
                };
                if *sent < GREETING_BYTES {
                    return Ok(false);
                }
                let next = Stage::Waits(Instant::now());
                if let Stage::Greets(socket, _) = std::mem::replace(&mut self.stage, next) {
                    self.made.push(socket);
                    self.retries = 0;
                }
            }
        }
        Ok(true)
    }

    /// The local address of the next socket.
    fn local(&self) -> Option<IpAddr> {
        let bind = &self.settings.bind;
        (!bind.is_empty()).then(|| bind[self.made.len() % bind.len()])
    }

    fn connected(&mut self) {
        let (next, peer) = (Stage::Waits(Instant::now()), self.to.address);
        self.stage = match std::mem::replace(&mut self.stage, next) {
            Stage::Connects(fd) => Stage::Greets(Socket { fd, peer }, 0),
            other => other,
        };
    }

    /// Handles the result of connect as NCCL does.
    fn judge(&mut self, outcome: std::result::Result<(), Errno>) -> Result<()> {
        match outcome {
            Ok(()) => self.connected(),
            Err(Errno::INPROGRESS) => {}
            Err(
                error @ (Errno::INTR
                | Errno::AGAIN
                | Errno::TIMEDOUT
                | Errno::HOSTUNREACH
                | Errno::CONNREFUSED),
            ) => {
                self.retries += 1;
                if self.retries > MAX_CONNECT_RETRIES {
                    return Err(unreachable(&self.to.address, error, Status::REMOTE));
                }
                self.stage = Stage::Waits(Instant::now() + RETRY_DELAY_STEP * self.retries);
            }
            Err(error) => return Err(unreachable(&self.to.address, error, Status::SYSTEM)),
        }
        Ok(())
    }
}

fn unreachable(address: &SocketAddr, error: Errno, status: Status) -> Failure {
    Failure::new(status, format!("cannot connect to {address}: {error}"))
}
