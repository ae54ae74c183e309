//! An event of any version, as far as it is recorded.
//! Not NCCL's structures (`nccl_plugin_abi::profiler`).

use std::ffi::{CStr, c_char};

use nccl_plugin_abi::profiler::{
    CollectiveV2, CollectiveV3, CollectiveV4, CollectiveV5, CollectiveV7, MessageV2, MessageV4,
    MessageV5, MessageV7,
};

/// A string of NCCL's within 8 bytes a word, filled with zeros. A longer one, and none, is all zeros: it is not said, rather
/// than cut. NCCL's names are constants of its library, which may be closed before they are written.
pub(crate) fn packed<const WORDS: usize>(text: *const c_char) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    if text.is_null() {
        return words;
    }
    // Byte by byte: faster than to look for the end first, since they are short.
    for at in 0..=WORDS * 8 {
        // SAFETY: NCCL's strings end with a zero, which was not before this byte.
        let byte = unsafe { text.add(at).read() } as u8;
        match words.get_mut(at / 8) {
            _ if byte == 0 => return words,
            Some(word) => *word |= u64::from(byte) << (at % 8 * 8),
            None => break,
        }
    }
    [0; WORDS]
}

/// What [`packed`] made of a string.
pub(crate) fn unpacked(words: &[u64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bytes of an element of the type of this name; none of another name ("Unknown" is ncclUint8's, too).
pub(crate) fn element_bytes(datatype: &[u8]) -> Option<u64> {
    match datatype {
        b"ncclInt8" | b"ncclUint8" | b"ncclFloat8e4m3" | b"ncclFloat8e5m2" => Some(1),
        b"ncclFloat16" | b"ncclBfloat16" => Some(2),
        b"ncclInt32" | b"ncclUint32" | b"ncclFloat32" => Some(4),
        b"ncclInt64" | b"ncclUint64" | b"ncclFloat64" => Some(8),
        _ => None,
    }
}

/// How many times a rank's own bytes a call's size has, by the first word of its packed name: all ranks' of an all-gather and
/// a reduce-scatter. 0: how many ranks there are is not said.
pub(crate) fn parts(function: u64, ranks: u32) -> u64 {
    const NAMES: [&[u8; 8]; 2] = [b"AllGathe", b"ReduceSc"];
    let of_all = NAMES.iter().any(|name| function == u64::from_le_bytes(**name));
    if of_all { u64::from(ranks) } else { 1 }
}

/// A string of NCCL's; empty where there is none.
///
/// # Safety
/// It is null or ends with a zero.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A communicator, as v2 and v3 say it with each call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said {
    /// The same on all ranks; 0: not said.
    pub communicator: u64,
    /// The name, or null.
    pub name: *const c_char,
}

/// A collective, or a send or a receive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// NCCL's number; none of a send or a receive.
    pub sequence: Option<u64>,
    /// The operation.
    pub function: *const c_char,
    /// Elements.
    pub count: usize,
    /// Their type.
    pub datatype: *const c_char,
    /// The root of a collective, the peer of a send or a receive.
    pub other: i32,
    /// The algorithm, or null.
    pub algorithm: *const c_char,
    /// The protocol, or null.
    pub protocol: *const c_char,
    /// Channels; 0: not said.
    pub channels: u8,
    /// The communicator, where the call says it.
    pub said: Option<Said>,
    /// A symmetric kernel runs it (v7).
    pub symmetric: bool,
}

impl Call {
    /// Bytes of a rank's part; none where NCCL does not say the type.
    pub fn bytes(&self) -> Option<u64> {
        if self.datatype.is_null() {
            return None;
        }
        // SAFETY: NCCL's strings end with a zero.
        let datatype = unsafe { CStr::from_ptr(self.datatype) };
        Some((self.count as u64).saturating_mul(element_bytes(datatype.to_bytes())?))
    }
}

macro_rules! collective_before_v4 {
    ($type:ty) => {
        impl From<&$type> for Call {
            fn from(of: &$type) -> Self {
                Self {
                    sequence: Some(of.sequence),
                    function: of.function,
                    count: of.count,
                    datatype: of.datatype,
                    other: of.root,
                    algorithm: of.algorithm,
                    protocol: of.protocol,
                    // Most channels, not those that it takes.
                    channels: 0,
                    said: Some(Said { communicator: of.communicator, name: of.communicator_name }),
                    symmetric: false,
                }
            }
        }
    };
}

collective_before_v4!(CollectiveV2);
collective_before_v4!(CollectiveV3);

impl From<&CollectiveV4> for Call {
    fn from(of: &CollectiveV4) -> Self {
        Self {
            sequence: Some(of.sequence),
            function: of.function,
            count: of.count,
            datatype: of.datatype,
            other: of.root,
            algorithm: of.algorithm,
            protocol: of.protocol,
            channels: of.channels,
            said: None,
            symmetric: false,
        }
    }
}

impl From<&CollectiveV5> for Call {
    fn from(of: &CollectiveV5) -> Self {
        Self::from(&of.v4)
    }
}

impl From<&CollectiveV7> for Call {
    fn from(of: &CollectiveV7) -> Self {
        let call = Self::from(&of.v5);
        // What NCCL 2.31 gives as channels of a symmetric kernel is not known here: it is not taken as their number.
        let channels = if of.symmetric { 0 } else { call.channels };
        Self { channels, symmetric: of.symmetric, ..call }
    }
}

impl From<&MessageV2> for Call {
    fn from(of: &MessageV2) -> Self {
        Self {
            sequence: None,
            function: of.function,
            count: of.count,
            datatype: of.datatype,
            other: of.peer,
            algorithm: std::ptr::null(),
            protocol: std::ptr::null(),
            channels: 0,
            said: Some(Said { communicator: of.communicator, name: of.communicator_name }),
            symmetric: false,
        }
    }
}

impl From<&MessageV4> for Call {
    fn from(of: &MessageV4) -> Self {
        Self {
            sequence: None,
            function: of.function,
            count: of.count,
            datatype: of.datatype,
            other: of.peer,
            algorithm: std::ptr::null(),
            protocol: std::ptr::null(),
            channels: of.channels,
            said: None,
            symmetric: false,
        }
    }
}

impl From<&MessageV5> for Call {
    fn from(of: &MessageV5) -> Self {
        Self::from(&of.v4)
    }
}

impl From<&MessageV7> for Call {
    fn from(of: &MessageV7) -> Self {
        Self::from(&of.v5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_whole_or_not_at_all() {
        for name in [c"", c"AllReduce", c"ReduceScatter", c"sixteen letters!"] {
            assert_eq!(unpacked(&packed::<2>(name.as_ptr())), name.to_str().unwrap());
        }
        assert_eq!(unpacked(&packed::<2>(c"seventeen letters".as_ptr())), "");
        assert_eq!(unpacked(&packed::<2>(std::ptr::null())), "");
    }
}
