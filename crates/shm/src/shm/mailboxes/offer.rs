//! A message that both ends copy: the receiver offers it in parts, the sender copies some of them
//! while it waits.
//! Not the copying.

use std::ops::Range;

use super::super::{
    buffers::{Address, Buffer},
    sync::{AtomicU32, Ordering},
};

/// A message on offer: source, destination, and parts.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Offer {
    /// Parts that the sender had copied before, of all messages.
    copied: u32,
    buffers: u32,
    from: u64,
    into: u64,
    len: u64,
    part: u64,
}

impl Offer {
    /// An offer of `len` bytes, in parts of `part` bytes, or longer ones if they would be too many
    /// to count.
    pub(crate) fn new(from: Address, into: Address, len: usize, part: usize) -> Offer {
        let part = part.max(len / (1 << 24)).max(1);
        Offer {
            copied: 0,
            buffers: tag(from.buffer) | tag(into.buffer) << 8,
            from: from.offset as u64,
            into: into.offset as u64,
            len: len as u64,
            part: part as u64,
        }
    }

    /// An empty offer, as memory is at first.
    #[cfg(loom)]
    pub(super) fn zero() -> Offer {
        Offer { copied: 0, buffers: 0, from: 0, into: 0, len: 0, part: 0 }
    }

    /// The same offer, with the sender's number of copied parts at that time.
    pub(super) fn after(self, copied: u32) -> Offer {
        Offer { copied, ..self }
    }

    /// The offset of the message in the sender's buffers.
    pub(crate) fn source(&self) -> Address {
        Address { buffer: buffer(self.buffers & 0xff), offset: self.from as usize }
    }

    /// The offset of its destination in the receiver's buffers.
    pub(crate) fn destination(&self) -> Address {
        Address { buffer: buffer(self.buffers >> 8), offset: self.into as usize }
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The number of its parts.
    pub(crate) fn parts(&self) -> u32 {
        self.len.div_ceil(self.part) as u32
    }

    /// The bytes of the `number`th part from the front.
    pub(crate) fn part(&self, number: u32) -> Range<usize> {
        let start = u64::from(number) * self.part;
        start as usize..(start + self.part).min(self.len) as usize
    }

    /// The part that the sender copies next, after `copied` parts since the beginning: from the
    /// back, so that each end goes through memory in one direction.
    pub(super) fn sender_part(&self, copied: u32) -> u32 {
        self.parts() - 1 - copied.wrapping_sub(self.copied)
    }
}

/// Claims one of the remaining parts.
pub(super) fn claim(left: &AtomicU32) -> bool {
    let mut seen = left.load(Ordering::Relaxed);
    while seen != 0 {
        // Acquire: a rank that claims a part reads the offer.
        match left.compare_exchange_weak(seen, seen - 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// A buffer as a number for memory that processes share.
pub(super) const fn tag(buffer: Buffer) -> u32 {
    match buffer {
        Buffer::Send => 1,
        Buffer::Recv => 2,
        Buffer::Check => 3,
    }
}

/// The buffer of a number.
pub(super) const fn buffer(tag: u32) -> Buffer {
    match tag {
        1 => Buffer::Send,
        2 => Buffer::Recv,
        _ => Buffer::Check,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Parts from the front and those from the back are the whole message, wherever the ends meet.
        #[test]
        fn the_parts_are_the_whole(
            (len, part) in prop_oneof![
                (1usize..70_000, 1usize..20_000),
                (1usize..(40 << 30), 16usize << 20..128 << 20),
            ],
            met in 0.0f64..=1.0,
            before in any::<u32>(),
        ) {
            let (from, into) = (
                Address { buffer: Buffer::Send, offset: 5 << 30 },
                Address { buffer: Buffer::Check, offset: 3 },
            );
            let offer = Offer::new(from, into, len, part).after(before);
            prop_assert_eq!((offer.source(), offer.destination(), offer.len()), (from, into, len));
            let parts = offer.parts();
            let ours = (f64::from(parts) * met) as u32;
            let theirs = (0..parts - ours).map(|copied| offer.sender_part(before.wrapping_add(copied)));
            let mut all: Vec<_> = (0..ours).chain(theirs).map(|number| offer.part(number)).collect();
            all.sort_by_key(|part| part.start);
            let mut end = 0;
            for part in all {
                prop_assert_eq!(part.start, end);
                prop_assert!(part.end > part.start);
                end = part.end;
            }
            prop_assert_eq!(end, len);
        }
    }
}
