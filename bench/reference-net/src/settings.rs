//! Settings from the environment: threads, sockets, buffers, local addresses.
//! Not what it does.

use std::{net::IpAddr, ops::RangeInclusive};

use nccl_plugin_busbw::network::{Failure, Result};

/// Threads of a connection.
const THREADS_VARIABLE: &str = "NCCL_SOCKET_NTHREADS";
/// Sockets of a thread.
const SOCKETS_VARIABLE: &str = "NCCL_NSOCKS_PERTHREAD";
/// Local addresses of its sockets, in turn, where each address has a path of its own: "10.0.1.1,10.0.2.1".
const BIND_VARIABLE: &str = "REFERENCE_NET_BIND";
/// Of a connection (NCCL, MAX_THREADS).
const MAX_THREADS: usize = 16;
/// Of a connection (NCCL, MAX_SOCKETS).
const MAX_SOCKETS: usize = 64;
/// NCCL_SOCKET_MAGIC, of src/include/socket.h.
const SOCKET_MAGIC: u64 = 0x564a_b9f2_fc4b_9d6c;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Threads of a connection; 0: whoever tests moves the bytes (NCCL_SOCKET_NTHREADS).
    pub threads: usize,
    /// Sockets of a thread (NCCL_NSOCKS_PERTHREAD).
    pub sockets_per_thread: usize,
    /// Bytes that mark a socket of this job (NCCL_SOCKET_MAGIC).
    pub magic: u64,
    /// Bytes, where NCCL_SOCKET_SNDBUF is set.
    pub send_buffer: Option<usize>,
    /// Bytes, where NCCL_SOCKET_RCVBUF is set.
    pub receive_buffer: Option<usize>,
    /// Local addresses that connecting sockets are bound to in turn; empty: any.
    pub bind: Vec<IpAddr>,
}

impl Settings {
    /// Reads the environment. The default is NCCL's outside of the clouds that it knows: one socket and no thread.
    ///
    /// # Errors
    /// INVALID_USAGE for a number out of range and for a word that is no address.
    pub fn of_environment() -> Result<Settings> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let count = |name: &str, default: usize, range: RangeInclusive<usize>| {
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else {
                return Ok(default);
            };
            let number = text.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| {
                let expected = format!("a number from {} to {}", range.start(), range.end());
                Failure::variable(name, &text, &expected)
            })
        };
        let threads = count(THREADS_VARIABLE, 0, 0..=MAX_THREADS)?;
        let most = MAX_SOCKETS / threads.max(1);
        let sockets_per_thread = count(SOCKETS_VARIABLE, 1, 1..=most)?;
        let bind = variable(BIND_VARIABLE).unwrap_or_default();
        let addresses = bind.split(',').filter(|word| !word.is_empty());
        let addresses = addresses.map(|word| {
            word.parse().map_err(|_| Failure::variable(BIND_VARIABLE, word, "an address"))
        });
        let magic = variable("NCCL_SOCKET_MAGIC").and_then(|text| number(&text));
        let bytes =
            |name| variable(name).and_then(|text| text.parse().ok()).filter(|&bytes| bytes > 0);
        Ok(Settings {
            threads,
            sockets_per_thread,
            magic: magic.unwrap_or(SOCKET_MAGIC),
            send_buffer: bytes("NCCL_SOCKET_SNDBUF"),
            receive_buffer: bytes("NCCL_SOCKET_RCVBUF"),
            bind: addresses.collect::<Result<_>>()?,
        })
    }

    /// Sockets for data, besides the one that says their sizes.
    pub(super) fn sockets(&self) -> usize {
        self.threads * self.sockets_per_thread
    }
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

    fn read(variables: &[(&str, &str)]) -> Result<Settings> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn one_socket_and_no_thread_unless_more_is_asked_for() {
        for variables in [&[][..], &[(THREADS_VARIABLE, ""), (SOCKETS_VARIABLE, "")]] {
            let settings = read(variables).unwrap();
            assert_eq!(
                (settings.threads, settings.sockets(), settings.magic),
                (0, 0, SOCKET_MAGIC)
            );
        }
    }

    #[test]
    fn threads_sockets_and_addresses_are_read() {
        let asked = [
            (THREADS_VARIABLE, "2"),
            (SOCKETS_VARIABLE, "8"),
            (BIND_VARIABLE, "10.0.0.1,fd00::1"),
            ("NCCL_SOCKET_MAGIC", "0x12"),
        ];
        let settings = read(&asked).unwrap();
        assert_eq!((settings.threads, settings.sockets_per_thread, settings.sockets()), (2, 8, 16));
        assert_eq!((settings.bind.len(), settings.magic), (2, 0x12));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (threads, sockets, why) in [
            ("17", "1", "from 0 to 16"),
            ("-1", "1", "from 0 to 16"),
            ("16", "5", "from 1 to 4"),
            ("1", "0", "from 1 to 64"),
            ("1", "x", "from 1 to 64"),
        ] {
            let error =
                read(&[(THREADS_VARIABLE, threads), (SOCKETS_VARIABLE, sockets)]).unwrap_err();
            assert!(error.text.contains(why), "{error}");
        }
        assert!(read(&[(BIND_VARIABLE, "eth0")]).is_err());
    }
}
