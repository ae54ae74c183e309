//! What NCCL keeps for us as a pointer: a number that says what it is of, and that is checked before it is used.
//! Not a pointer: a proxy hands those of another process in, and NCCL may keep one longer than what it stood for.

use std::{ffi::c_void, ptr};

/// What a handle is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A communicator: its number.
    Communicator,
    /// A group, of which nothing is recorded. Up to NCCL 2.27 a group without a handle has no events of calls.
    Group,
    /// A call: a slot and its generation.
    Call,
    /// A call, whose channels' times would be another call's.
    UncountedCall,
    /// A channel of the call's kernel, whose end is a state with a time (v4 and newer).
    Channel,
    /// The same without times (v3): it ends when its event does.
    UntimedChannel,
    /// A proxy operation: a communicator, and the peer with its direction.
    ProxyOperation,
    /// A step: a slot and its generation.
    Step,
}

/// A number of 64 bits: the process's own 12, the kind in 4, 32 and 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Of what.
    pub of: Of,
    /// The generation of a slot; the peer with its direction.
    pub generation: u32,
    /// The slot, or the communicator.
    pub index: u16,
}

impl Handle {
    /// What NCCL gets.
    pub fn pointer(self, process: u16) -> *mut c_void {
        let kind = match self.of {
            Of::Communicator => 1,
            Of::Group => 2,
            Of::Call => 3,
            Of::Channel => 4,
            Of::UntimedChannel => 5,
            Of::ProxyOperation => 6,
            Of::Step => 7,
            Of::UncountedCall => 8,
        };
        let bits = u64::from(process & 0xfff) << 52
            | kind << 48
            | u64::from(self.generation) << 16
            | u64::from(self.index);
        ptr::without_provenance_mut(bits as usize)
    }

    /// What NCCL gives back. None: null, another process's, or no handle at all.
    pub fn read(pointer: *mut c_void, process: u16) -> Option<Handle> {
        let bits = pointer.addr() as u64;
        if bits >> 52 != u64::from(process & 0xfff) {
            return None;
        }
        let of = match bits >> 48 & 0xf {
            1 => Of::Communicator,
            2 => Of::Group,
            3 => Of::Call,
            4 => Of::Channel,
            5 => Of::UntimedChannel,
            6 => Of::ProxyOperation,
            7 => Of::Step,
            8 => Of::UncountedCall,
            _ => return None,
        };
        Some(Handle { of, generation: (bits >> 16) as u32, index: bits as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_anothers_does_not() {
        let all = [
            Of::Communicator,
            Of::Group,
            Of::Call,
            Of::Channel,
            Of::UntimedChannel,
            Of::ProxyOperation,
            Of::Step,
            Of::UncountedCall,
        ];
        for of in all {
            let handle = Handle { of, generation: 0xdead_beef, index: 0x1234 };
            let pointer = handle.pointer(0xabc);
            assert_eq!(Handle::read(pointer, 0xabc), Some(handle));
            assert_eq!(Handle::read(pointer, 0xabd), None);
        }
        assert_eq!(Handle::read(ptr::null_mut(), 0), None);
        assert_eq!(Handle::read(ptr::without_provenance_mut(0x7f00_1234_5678), 0), None);
    }
}
