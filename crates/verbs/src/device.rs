//! An open device with its protection domain, its limits, its ports and their addresses.
//! Not its memory and queues (`memory`, `queue`, `queue_pair`).

use std::{fmt, io, net::Ipv6Addr, sync::Arc};

use rustix::{event, fd::BorrowedFd};

use super::{Verbs, VerbsError, abi, error::refused};

/// `link_layer` of `struct ibv_port_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// RoCE.
    Ethernet,
}

/// The state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Whether it is ACTIVE.
    pub active: bool,
    /// `enum ibv_port_state`: 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE.
    pub state: i32,
    /// Largest payload of a packet now, in bytes.
    pub mtu: u32,
    /// Its address on InfiniBand; 0 on Ethernet.
    pub lid: u16,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// Largest message, in bytes.
    pub largest_message: u32,
}

/// What a device can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Work requests of a queue.
    pub requests: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// RDMA reads that a queue pair may have open as the one that begins.
    pub open_reads: u8,
    /// RDMA reads that a queue pair may have open as the one that answers.
    pub answered_reads: u8,
}

/// An open device and its protection domain. Everything that is made of it holds on to it.
pub struct Device {
    pub(super) verbs: &'static Verbs,
    pub(super) context: *mut abi::Context,
    pub(super) domain: *mut abi::Opaque,
    name: String,
}

// SAFETY: pointers to an open device, which the library guards by itself (rdma-core's Documentation/libibverbs.md,
// "Thread safe").
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name).finish()
    }
}

impl Device {
    /// Opens the device of that name.
    ///
    /// # Errors
    /// The library has no such device, or the system refuses it.
    pub fn open(verbs: &'static Verbs, name: &str) -> Result<Arc<Device>, VerbsError> {
        let open = verbs.calls.open_device.ok_or(VerbsError::Absent("ibv_open_device"))?;
        let opened = verbs.with_list(|list| {
            let device = list.iter().find(|device| verbs.name(**device) == name)?;
            // SAFETY: a device of the list, which is still there.
            let context = unsafe { open(*device) };
            Some((context, io::Error::last_os_error()))
        });
        let Some((context, error)) = opened else {
            let why = match verbs.devices() {
                none if none.is_empty() => "libibverbs finds no device".to_owned(),
                some => format!("libibverbs finds {}", some.join(", ")),
            };
            let advice = "; the provider of its driver may be missing (ibv_devices), or /dev/infiniband is not given to \
                          this container";
            let advice = advice.to_owned();
            return Err(VerbsError::Refused {
                call: "ibv_open_device",
                on: name.to_owned(),
                why,
                advice,
            });
        };
        if context.is_null() {
            return Err(refused("ibv_open_device", name, &error));
        }
        let mut device =
            Device { verbs, context, domain: std::ptr::null_mut(), name: name.to_owned() };
        let alloc = verbs.calls.alloc_pd.ok_or(VerbsError::Absent("ibv_alloc_pd"))?;
        // SAFETY: the context is open.
        device.domain = unsafe { alloc(context) };
        if device.domain.is_null() {
            return Err(refused("ibv_alloc_pd", name, &io::Error::last_os_error()));
        }
        Ok(Arc::new(device))
    }

    /// Its name, such as mlx5_0.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can hold.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn limits(&self) -> Result<Limits, VerbsError> {
        let query = self.verbs.calls.query_device.ok_or(VerbsError::Absent("ibv_query_device"))?;
        // SAFETY: plain numbers, of which all zeros are valid.
        let mut attributes: abi::DeviceAttributes = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open, and the structure has room.
        let status = unsafe { query(self.context, &raw mut attributes) };
        self.checked("ibv_query_device", status)?;
        let reads = |most: i32| u8::try_from(most.clamp(0, 255)).unwrap_or(0);
        Ok(Limits {
            requests: u32::try_from(attributes.max_qp_wr).unwrap_or(0),
            completions: u32::try_from(attributes.max_cqe).unwrap_or(0),
            open_reads: reads(attributes.max_qp_init_rd_atom),
            answered_reads: reads(attributes.max_qp_rd_atom),
        })
    }

    /// The state of a port, counted from 1.
    ///
    /// # Errors
    /// There is no such port.
    pub fn port(&self, number: u8) -> Result<Port, VerbsError> {
        let query = self.verbs.calls.query_port.ok_or(VerbsError::Absent("ibv_query_port"))?;
        let mut attributes = abi::PortAttributes::default();
        // SAFETY: the context is open, and the structure has room for any version's.
        let status = unsafe { query(self.context, number, &raw mut attributes) };
        self.checked("ibv_query_port", status)?;
        Ok(Port {
            active: attributes.state == 4,
            state: attributes.state,
            mtu: mtu_bytes(attributes.active_mtu),
            lid: attributes.lid,
            link_layer: match attributes.link_layer {
                2 => LinkLayer::Ethernet,
                _ => LinkLayer::InfiniBand,
            },
            largest_message: attributes.max_msg_sz,
        })
    }

    /// An entry of a port's table of addresses.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn gid(&self, port: u8, index: u8) -> Result<Ipv6Addr, VerbsError> {
        let query = self.verbs.calls.query_gid.ok_or(VerbsError::Absent("ibv_query_gid"))?;
        let mut gid = abi::Gid::default();
        // SAFETY: the context is open, and the address has room.
        let status = unsafe { query(self.context, port, i32::from(index), &raw mut gid) };
        self.checked("ibv_query_gid", status)?;
        Ok(Ipv6Addr::from(gid.0))
    }

    /// Looks for an event that ends what is under way: the device was taken away, the port went down. Never waits.
    ///
    /// # Errors
    /// The event.
    pub fn events(&self) -> Result<(), VerbsError> {
        let (Some(get), Some(acknowledge)) =
            (self.verbs.calls.get_async_event, self.verbs.calls.ack_async_event)
        else {
            return Ok(());
        };
        // SAFETY: the context is open, and its descriptor with it.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) };
        loop {
            let mut ready = [event::PollFd::new(&descriptor, event::PollFlags::IN)];
            let now = event::Timespec { tv_sec: 0, tv_nsec: 0 };
            if !matches!(event::poll(&mut ready, Some(&now)), Ok(1)) {
                return Ok(());
            }
            let mut event = abi::AsyncEvent { element: 0, kind: -1 };
            // SAFETY: there is an event, so that this does not wait; the structure has room.
            if unsafe { get(self.context, &raw mut event) } != 0 {
                return Ok(());
            }
            // SAFETY: the event that was just taken, once.
            unsafe { acknowledge(&raw mut event) };
            if let Some((event, advice)) = fatal(event.kind) {
                return Err(VerbsError::Event { on: self.name.clone(), event, advice });
            }
        }
    }

    /// A status as a result.
    pub(super) fn checked(&self, call: &'static str, status: i32) -> Result<(), VerbsError> {
        match status {
            0 => Ok(()),
            // Some functions return -1 and set errno, others return the number itself.
            -1 => Err(refused(call, &self.name, &io::Error::last_os_error())),
            code => {
                Err(refused(call, &self.name, &io::Error::from_raw_os_error(code.saturating_abs())))
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(dealloc) = self.verbs.calls.dealloc_pd.filter(|_| !self.domain.is_null()) {
            // SAFETY: ours, once; whatever was made in it held on to this device.
            unsafe { dealloc(self.domain) };
        }
        if let Some(close) = self.verbs.calls.close_device {
            // SAFETY: open, and nothing is left in it.
            unsafe { close(self.context) };
        }
    }
}

/// `enum ibv_mtu` in bytes.
fn mtu_bytes(code: i32) -> u32 {
    match code {
        1..=5 => 128 << code,
        _ => 0,
    }
}

/// The code of `enum ibv_mtu` for a number of bytes, which must be one of 256, 512, 1024, 2048, 4096.
pub(super) fn mtu_code(bytes: u32) -> i32 {
    (1..=5).rev().find(|code| mtu_bytes(*code) <= bytes).unwrap_or(1)
}

/// Events after which nothing completes any more (`enum ibv_event_type`), and what to do.
fn fatal(kind: i32) -> Option<(&'static str, &'static str)> {
    match kind {
        0 => Some(("a completion queue failed", "the kernel's log may say why (dmesg)")),
        1 => Some(("a queue pair failed", "the kernel's log may say why (dmesg)")),
        8 => Some(("the device failed, or was taken away", "the kernel's log may say why (dmesg)")),
        10 => Some(("the port went down", "look at cable and switch: ibv_devinfo, ethtool")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus() {
        for bytes in [256, 512, 1024, 2048, 4096] {
            assert_eq!(mtu_bytes(mtu_code(bytes)), bytes);
        }
        assert_eq!(mtu_bytes(mtu_code(1500)), 1024);
        assert_eq!((mtu_bytes(0), mtu_bytes(9)), (0, 0));
    }

    #[test]
    fn events_that_end_a_run() {
        assert!(fatal(10).is_some() && fatal(8).is_some());
        // A port that comes up, and new addresses, end nothing.
        assert!(fatal(9).is_none() && fatal(18).is_none());
    }
}
