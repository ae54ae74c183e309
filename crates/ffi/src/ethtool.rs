//! The statistics of a network adapter's driver, by ethtool's ioctl: names and values (Linux,
//! uapi/linux/ethtool.h).
//! Not which of them matter.

use std::{ffi::c_void, io, os::fd::OwnedFd};

use rustix::{
    ioctl,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
};

/// uapi/linux/sockios.h.
const SIOCETHTOOL: ioctl::Opcode = 0x8946;
/// ETHTOOL_GSTRINGS, ETHTOOL_GSTATS and ETHTOOL_GSSET_INFO.
const STRINGS: u32 = 0x1b;
const STATS: u32 = 0x1d;
const SET_LENGTHS: u32 = 0x37;
/// ETH_SS_STATS, the set of the statistics' names.
const SET: u32 = 1;
/// ETH_GSTRING_LEN, the bytes of a name.
const STATISTIC_NAME_BYTES: usize = 32;
/// IFNAMSIZ, the bytes of an interface's name with its end.
const INTERFACE_NAME_BYTES: usize = 16;

/// struct ifreq of 64-bit systems: 40 bytes.
#[repr(C)]
struct Request {
    interface: [u8; INTERFACE_NAME_BYTES],
    data: *mut c_void,
    rest: [u8; 16],
}

/// struct ethtool_sset_info with one length.
#[repr(C)]
struct SetLengths {
    command: u32,
    reserved: u32,
    mask: u64,
    length: u32,
}

/// An adapter's statistics.
#[derive(Debug)]
pub struct Statistics {
    socket: OwnedFd,
    interface: [u8; INTERFACE_NAME_BYTES],
}

impl Statistics {
    /// For an interface of this network namespace.
    ///
    /// # Errors
    /// The name is not that of an interface, or no socket can be created.
    pub fn open(interface: &str) -> io::Result<Statistics> {
        let mut name = [0; INTERFACE_NAME_BYTES];
        let bytes = interface.as_bytes();
        if bytes.is_empty() || bytes.len() >= INTERFACE_NAME_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        name[..bytes.len()].copy_from_slice(bytes);
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Statistics { socket, interface: name })
    }

    /// The names, in the order of the values.
    ///
    /// # Errors
    /// The driver has no statistics, or the interface is gone.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let room = room(self.count()?);
        // Command, set, length, then the names.
        let mut words = vec![0u32; 3 + room * STATISTIC_NAME_BYTES / 4];
        (words[0], words[1]) = (STRINGS, SET);
        // SAFETY: the kernel writes the length and so many names, which fit: see `room`.
        unsafe { self.ask(words.as_mut_ptr().cast())? };
        let count = (words[2] as usize).min(room);
        let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = |raw: &[u8]| {
            let text = raw.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).trim().to_owned()
        };
        Ok(bytes.chunks_exact(STATISTIC_NAME_BYTES).take(count).map(name).collect())
    }

    /// The current values.
    ///
    /// # Errors
    /// The driver has no statistics, or the interface is gone.
    pub fn values(&self) -> io::Result<Vec<u64>> {
        let room = room(self.count()?);
        let mut words = vec![0u64; 1 + room];
        let head = [STATS.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
        words[0] = u64::from_ne_bytes(head.try_into().unwrap_or_default());
        // SAFETY: the kernel writes the number of values and so many values, which fit: see `room`.
        unsafe { self.ask(words.as_mut_ptr().cast())? };
        let [_, count] = *words[0].to_ne_bytes().as_chunks::<4>().0 else { return Ok(Vec::new()) };
        let count = (u32::from_ne_bytes(count) as usize).min(room);
        Ok(words[1..].iter().take(count).copied().collect())
    }

    fn count(&self) -> io::Result<usize> {
        let mut set = SetLengths { command: SET_LENGTHS, reserved: 0, mask: 1 << SET, length: 0 };
        // SAFETY: one bit of the mask is set, so the kernel writes at most one length.
        unsafe { self.ask((&raw mut set).cast())? };
        if set.mask == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(set.length as usize)
    }

    /// # Safety
    /// `data` points to a command of ethtool with room for its answer.
    unsafe fn ask(&self, data: *mut c_void) -> io::Result<()> {
        let mut request = Request { interface: self.interface, data, rest: [0; 16] };
        // SAFETY: SIOCETHTOOL takes an ifreq and, in what its pointer leads to, what the caller promises.
        unsafe {
            let call = ioctl::Updater::<{ SIOCETHTOOL }, Request>::new(&mut request);
            ioctl::ioctl(&self.socket, call)?;
        }
        Ok(())
    }
}

/// Entries to make room for, where the driver reports `count`: it writes the number that it has at
/// the second call, and a change of its queues in between adds a few for each queue.
const fn room(count: usize) -> usize {
    2 * count + 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_belong_together() {
        let mut seen = 0;
        for entry in std::fs::read_dir("/sys/class/net").unwrap().flatten() {
            let interface = entry.file_name().into_string().unwrap();
            let statistics = Statistics::open(&interface).unwrap();
            let Ok(names) = statistics.names() else { continue };
            assert_eq!(names.len(), statistics.values().unwrap().len(), "{interface}");
            assert!(names.iter().all(|name| !name.is_empty()), "{interface}: {names:?}");
            seen += names.len();
        }
        println!("{seen} statistics of this machine's adapters");
        // Some kernels report an empty set for loopback, others no statistics at all.
        let refused = Statistics::open("lo").unwrap().names().unwrap_err();
        assert!(refused.kind() == io::ErrorKind::Unsupported, "{refused}");
        assert!(Statistics::open("no-such-thing0").unwrap().values().is_err());
        assert!(Statistics::open("a-name-that-is-too-long").is_err());
    }
}
