//! A client of NCCL's RAS: asks a job for its report, and sets the mask of its profilers. Nothing else of a job is changed.
//! Not what a report means (`busbw_library_logs::ras`).
//!
//! Protocol: NCCL, src/ras/client.cc and client_support.cc (2.30.7): text lines over TCP. RAS waits `TIMEOUT` seconds for each
//! leg of its own network and 5 s more for the whole, so that an answer takes that long at most, and one that takes
//! [`GRACE`] longer is none. Everything that a server sends is bounded: lines, the report, and the time for all of it.
#![forbid(unsafe_code)]

use std::{
    fmt,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

/// What RAS waits for beyond `TIMEOUT` (docs of NCCL 2.32, "RAS").
pub const RAS_EXTRA: Duration = Duration::from_secs(5);
/// What the client waits for beyond RAS.
pub const GRACE: Duration = Duration::from_secs(1);
/// The port of RAS where NCCL_RAS_ADDR does not name one.
pub const DEFAULT_PORT: u16 = 28028;

/// The version of the protocol (`NCCL_RAS_CLIENT_PROTOCOL`), 2 from 2.24 on.
const PROTOCOL: &str = "CLIENT PROTOCOL 2\n";
/// The longest line of an answer, bytes.
const MAX_LINE_BYTES: usize = 4096;
/// The longest report, bytes: some 250 a rank.
const MAX_REPORT_BYTES: usize = 256 << 20;
/// The most of an answer that an error quotes, bytes.
const MAX_QUOTED_BYTES: usize = 80;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// As RAS wrote it.
    pub bytes: Vec<u8>,
    /// JSON (NCCL 2.28.7 on); else text.
    pub json: bool,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum RasError {
    /// The address.
    #[error("--ras {address}: {why}; give HOST:PORT, as in NCCL_RAS_ADDR")]
    Address {
        /// As given.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// Nobody answers.
    #[error(
        "cannot connect to NCCL's RAS at {address}: {source}. It runs in every process of a job of NCCL 2.24 or newer, on localhost:28028 unless NCCL_RAS_ADDR says otherwise: run this on a host of the job"
    )]
    Connect {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection ended or failed.
    #[error("NCCL's RAS at {address} {doing}: {source}")]
    Io {
        /// The address.
        address: String,
        /// What was done.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// It took too long.
    #[error(
        "what answers at {address} gave no whole report within {} s ({doing}): RAS itself waits no longer than that",
        .limit.as_secs()
    )]
    Late {
        /// The address.
        address: String,
        /// What was done.
        doing: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// Another program.
    #[error("what answers at {address} is not NCCL's RAS: {doing} it said {answer:?}")]
    Strange {
        /// The address.
        address: String,
        /// What was done.
        doing: &'static str,
        /// What it said.
        answer: String,
    },
    /// RAS does not do it.
    #[error(
        "NCCL's RAS at {address} refuses to change what profilers are asked for: {answer}. NCCL 2.31 and newer can"
    )]
    Refused {
        /// The address.
        address: String,
        /// What it said.
        answer: String,
    },
    /// Too much.
    #[error("the report of {address} has more than {MAX_REPORT_BYTES} bytes")]
    Large {
        /// The address.
        address: String,
    },
}

/// Asks RAS at `address` (`host:port`, or a host alone) for its report. RAS waits `timeout` for its own peers, in whole seconds,
/// at least one; the whole takes at most that, [`RAS_EXTRA`] and [`GRACE`].
///
/// # Errors
/// [`RasError`].
pub fn status(address: &str, timeout: Duration) -> Result<Report, RasError> {
    let seconds = timeout.as_secs().max(1);
    let limit = Duration::from_secs(seconds) + RAS_EXTRA + GRACE;
    let deadline = Instant::now() + limit;
    let stream = connect(address, deadline)?;
    let mut asking = Asking { address, stream, deadline, limit, rest: Vec::new() };
    asking.greet()?;
    let set = asking.ask(&format!("TIMEOUT {seconds}\n"), "when given a time-out")?;
    if set != "OK" {
        return Err(asking.strange("when given a time-out", &set));
    }
    let format = asking.ask("SET FORMAT json\n", "when asked for JSON")?;
    let json = match format.as_str() {
        "OK" => true,
        // Before 2.28.7 there is text alone.
        error if error.starts_with("ERROR") => false,
        other => return Err(asking.strange("when asked for JSON", other)),
    };
    asking.send("VERBOSE STATUS\n", "when asked for its report")?;
    Ok(Report { bytes: asking.rest_to_end()?, json })
}

/// Has RAS at `address` tell all processes of its job which events their profilers are asked for: NCCL's bits. Captured graphs
/// keep what they were captured with.
///
/// # Errors
/// [`RasError`].
pub fn set_profiler_mask(address: &str, mask: u64) -> Result<(), RasError> {
    let limit = RAS_EXTRA + GRACE;
    let deadline = Instant::now() + limit;
    let stream = connect(address, deadline)?;
    let mut asking = Asking { address, stream, deadline, limit, rest: Vec::new() };
    asking.greet()?;
    let doing = "when given a mask";
    match asking.ask(&format!("CONTROL PROFILER_MASK 0x{mask:x}\n"), doing)? {
        done if done == "OK" => Ok(()),
        error if error.starts_with("ERROR") => {
            Err(RasError::Refused { address: address.to_owned(), answer: error })
        }
        other => Err(asking.strange(doing, &other)),
    }
}

fn connect(address: &str, deadline: Instant) -> Result<TcpStream, RasError> {
    let wrong = |why: &dyn fmt::Display| RasError::Address {
        address: address.to_owned(),
        why: why.to_string(),
    };
    let name = match address.rsplit_once(':') {
        _ if address.is_empty() => return Err(wrong(&"it is empty")),
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => address.to_owned(),
        // An address of IPv6 without a port has colons, too, and needs its brackets.
        Some(_) if !address.ends_with(']') => {
            return Err(wrong(&"it has no port that is a number"));
        }
        _ => format!("{address}:{DEFAULT_PORT}"),
    };
    // A resolver has its own ideas of how long to wait.
    let (found, come) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let _ = found.send(name.to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>));
    });
    let addresses = match come.recv_timeout(left(deadline)) {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(wrong(&error)),
        Err(_) => return Err(wrong(&"its name was not resolved in time")),
    };
    let failed = |source| RasError::Connect { address: address.to_owned(), source };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for one in addresses {
        match TcpStream::connect_timeout(&one, left(deadline)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The time left; sockets refuse none at all.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

struct Asking<'a> {
    address: &'a str,
    stream: TcpStream,
    deadline: Instant,
    limit: Duration,
    /// What was read behind the last line.
    rest: Vec<u8>,
}

impl Asking<'_> {
    fn greet(&mut self) -> Result<(), RasError> {
        let hello = self.ask(PROTOCOL, "when greeted")?;
        match hello.starts_with("SERVER PROTOCOL ") {
            true => Ok(()),
            false => Err(self.strange("when greeted", &hello)),
        }
    }

    fn ask(&mut self, command: &str, doing: &'static str) -> Result<String, RasError> {
        self.send(command, doing)?;
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.rest.len() > MAX_LINE_BYTES {
                let said = String::from_utf8_lossy(&self.rest).into_owned();
                return Err(self.strange(doing, &said));
            }
            if self.more(doing)? == 0 {
                let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(self.io(doing, source));
            }
        }
    }

    fn send(&mut self, command: &str, doing: &'static str) -> Result<(), RasError> {
        let set = self.stream.set_write_timeout(Some(left(self.deadline)));
        let sent = set.and_then(|()| self.stream.write_all(command.as_bytes()));
        sent.map_err(|source| self.io(doing, source))
    }

    fn rest_to_end(&mut self) -> Result<Vec<u8>, RasError> {
        while self.more("when asked for its report")? > 0 {
            if self.rest.len() > MAX_REPORT_BYTES {
                return Err(RasError::Large { address: self.address.to_owned() });
            }
        }
        Ok(std::mem::take(&mut self.rest))
    }

    /// Reads once; 0 at the end.
    fn more(&mut self, doing: &'static str) -> Result<usize, RasError> {
        let late = || RasError::Late { address: self.address.to_owned(), doing, limit: self.limit };
        let mut part = [0; 1 << 16];
        loop {
            if Instant::now() >= self.deadline {
                return Err(late());
            }
            let set = self.stream.set_read_timeout(Some(left(self.deadline)));
            match set.and_then(|()| self.stream.read(&mut part)) {
                Ok(count) => {
                    self.rest.extend_from_slice(part.get(..count).unwrap_or_default());
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Err(late());
                }
                Err(source) => return Err(self.io(doing, source)),
            }
        }
    }

    fn io(&self, doing: &'static str, source: io::Error) -> RasError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => RasError::Strange {
                address: self.address.to_owned(),
                doing,
                answer: "nothing, and closed the connection".to_owned(),
            },
            _ => RasError::Io { address: self.address.to_owned(), doing, source },
        }
    }

    fn strange(&self, doing: &'static str, answer: &str) -> RasError {
        let end = answer.floor_char_boundary(MAX_QUOTED_BYTES);
        let answer = answer.get(..end).unwrap_or_default().to_owned();
        RasError::Strange { address: self.address.to_owned(), doing, answer }
    }
}
