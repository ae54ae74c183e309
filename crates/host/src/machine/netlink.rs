//! Questions to the kernel by netlink: one message there, one back, and the attributes that both are made of.
//! Not what is asked (`dcb`, `devlink`). Format: Linux, include/uapi/linux/netlink.h.

use std::{sync::mpsc, thread, time::Duration};

use rustix::{
    io::{self, Errno},
    net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::SocketAddrNetlink, recv, sendto, socket_with,
    },
};

/// NLMSG_ERROR.
pub(super) const ERROR: u16 = 2;
/// NLM_F_REQUEST.
const REQUEST: u16 = 1;
/// Of struct nlmsghdr.
const HEADER_BYTES: usize = 16;
/// The flags NLA_F_NESTED and NLA_F_NET_BYTEORDER of an attribute's type.
const FLAGS: u16 = 0xc000;
/// A driver may ask its adapter's firmware, and a sick one does not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// What `ask` finds out, if it does so in time. The kernel answers within sendto(), for which there is no timeout: a thread that is
/// stuck there is left behind.
pub(super) fn in_time<T: Send + 'static>(
    ask: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let (told, said) = mpsc::channel();
    let ask = move || told.send(ask());
    thread::Builder::new().name("busbw-netlink".to_owned()).spawn(ask).ok()?;
    said.recv_timeout(TIMEOUT).ok()?.ok()
}

/// Sends a message, and returns the answer; without a protocol by NETLINK_ROUTE.
pub(super) fn asked(protocol: Option<Protocol>, message: &[u8]) -> io::Result<Vec<u8>> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    sendto(&socket, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut bytes = vec![0; 1 << 16];
    let (length, _) = recv(&socket, bytes.as_mut_slice(), RecvFlags::empty())?;
    bytes.truncate(length);
    Ok(bytes)
}

/// A message of this type.
pub(super) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    // No name is longer than a page.
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // A sequence number and a port, which one question does not need.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// An attribute that is a text.
pub(super) fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

pub(super) fn attribute(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let mut all = ((4 + bytes.len()) as u16).to_ne_bytes().to_vec();
    all.extend(kind.to_ne_bytes());
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

/// What an answer of this type has behind its header.
///
/// # Errors
/// What the kernel says: `OPNOTSUPP`, `NODEV`; `BADMSG` of what is no answer.
pub(super) fn body(message: &[u8], kind: u16) -> io::Result<&[u8]> {
    let header = message.get(..HEADER_BYTES).ok_or(Errno::BADMSG)?;
    let message_bytes = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let message = message.get(..message_bytes).ok_or(Errno::BADMSG)?;
    let body = message.get(HEADER_BYTES..).ok_or(Errno::BADMSG)?;
    match (u16::from_ne_bytes([header[4], header[5]]), body) {
        (ERROR, [a, b, c, d, ..]) => match i32::from_ne_bytes([*a, *b, *c, *d]) {
            negative @ -4095..=-1 => Err(Errno::from_raw_os_error(-negative)),
            _ => Err(Errno::BADMSG),
        },
        (found, body) if found == kind => Ok(body),
        _ => Err(Errno::BADMSG),
    }
}

/// Attributes one after the other (struct nlattr): type and bytes, until one does not fit.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let [a, b, c, d, ..] = *self.0 else { return None };
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let bytes = self.0.get(4..length)?;
        self.0 = &self.0[length.next_multiple_of(4).min(self.0.len())..];
        Some((u16::from_ne_bytes([c, d]) & !FLAGS, bytes))
    }
}
