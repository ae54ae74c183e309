//! How the reference is asked for: threads, sockets, buffers, local addresses.
//! Not what it does.

use std::net::IpAddr;

use crate::network::{Failure, Result};

/// Chooses the reference: "socket", or "socket:4x2" for 4 threads with 2 sockets each.
pub const VARIABLE: &str = "BUSBW_NET_REFERENCE";
/// Local addresses of its sockets, in turn, where each address has a path of its own: "10.0.1.1,10.0.2.1".
const BIND: &str = "BUSBW_NET_REFERENCE_BIND";
/// MAX_THREADS.
const MOST_THREADS: usize = 16;
/// MAX_SOCKETS.
const MOST_SOCKETS: usize = 64;
/// NCCL_SOCKET_MAGIC, of src/include/socket.h.
const MAGIC: u64 = 0x564a_b9f2_fc4b_9d6c;

/// What is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Threads of a connection; 0: whoever tests moves the bytes (NCCL_SOCKET_NTHREADS).
    pub threads: usize,
    /// Sockets of a thread (NCCL_NSOCKS_PERTHREAD).
    pub sockets_per_thread: usize,
    /// What tells a peer from a stranger.
    pub magic: u64,
    /// Bytes, where NCCL_SOCKET_SNDBUF is set.
    pub send_buffer: Option<usize>,
    /// Bytes, where NCCL_SOCKET_RCVBUF is set.
    pub receive_buffer: Option<usize>,
    /// Where sockets that connect begin, in turn; any where it is empty.
    pub bind: Vec<IpAddr>,
}

impl Settings {
    /// As the environment says; nothing where it does not ask for the reference.
    ///
    /// # Errors
    /// When it asks for what cannot be.
    pub fn of_environment() -> Result<Option<Settings>> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Settings>> {
        let Some(text) = variable(VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let (threads, sockets_per_thread) = shape(&text).ok_or_else(|| {
            Failure::variable(
                VARIABLE,
                &text,
                &format!(
                    "\"socket\" or \"socket:THREADSxSOCKETS\" with at most {MOST_THREADS} threads and \
                     {MOST_SOCKETS} sockets in all"
                ),
            )
        })?;
        let bind = variable(BIND).unwrap_or_default();
        let addresses = bind.split(',').filter(|word| !word.is_empty());
        let addresses = addresses
            .map(|word| word.parse().map_err(|_| Failure::variable(BIND, word, "an address")));
        let magic = variable("NCCL_SOCKET_MAGIC").and_then(|text| number(&text));
        let bytes =
            |name| variable(name).and_then(|text| text.parse().ok()).filter(|&bytes| bytes > 0);
        Ok(Some(Settings {
            threads,
            sockets_per_thread,
            magic: magic.unwrap_or(MAGIC),
            send_buffer: bytes("NCCL_SOCKET_SNDBUF"),
            receive_buffer: bytes("NCCL_SOCKET_RCVBUF"),
            bind: addresses.collect::<Result<_>>()?,
        }))
    }

    /// Sockets for data, besides the one that says their sizes.
    pub(super) fn sockets(&self) -> usize {
        self.threads * self.sockets_per_thread
    }
}

/// Threads and sockets of each: NCCL's default without a number.
fn shape(text: &str) -> Option<(usize, usize)> {
    if text == "socket" {
        return Some((0, 1));
    }
    let (threads, sockets) = text.strip_prefix("socket:")?.split_once('x')?;
    let (threads, sockets) = (threads.parse::<usize>().ok()?, sockets.parse::<usize>().ok()?);
    let most = threads.checked_mul(sockets)?;
    (threads <= MOST_THREADS && sockets >= 1 && most <= MOST_SOCKETS).then_some((threads, sockets))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_is_chosen_unless_asked_for() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[(VARIABLE, "")]).unwrap(), None);
        let settings = read(&[(VARIABLE, "socket")]).unwrap().unwrap();
        assert_eq!((settings.threads, settings.sockets(), settings.magic), (0, 0, MAGIC));
    }

    #[test]
    fn threads_sockets_and_addresses_are_read() {
        let asked =
            [(VARIABLE, "socket:2x8"), (BIND, "10.0.0.1,fd00::1"), ("NCCL_SOCKET_MAGIC", "0x12")];
        let settings = read(&asked).unwrap().unwrap();
        assert_eq!((settings.threads, settings.sockets_per_thread, settings.sockets()), (2, 8, 16));
        assert_eq!((settings.bind.len(), settings.magic), (2, 0x12));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for text in
            ["1", "sockets", "socket:", "socket:17x1", "socket:16x5", "socket:1x0", "socket:-1x1"]
        {
            let error = read(&[(VARIABLE, text)]).unwrap_err();
            assert!(error.text.contains("THREADSxSOCKETS"), "{error}");
        }
        assert!(read(&[(VARIABLE, "socket"), (BIND, "eth0")]).is_err());
    }
}
