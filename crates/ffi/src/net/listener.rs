//! A listener for one connection.
//! Not the connection (`connection`).

use std::{ffi::c_void, mem};

use super::{
    NetError, Plugin, Receiver,
    error::{checked, present},
};

/// A listener for one connection. A drop closes it.
#[derive(Debug)]
pub struct Listener {
    plugin: &'static Plugin,
    address: *mut c_void,
}

impl Listener {
    pub(super) fn new(plugin: &'static Plugin, address: *mut c_void) -> Listener {
        Listener { plugin, address }
    }

    /// The connection, once it is there; `None` means not yet: call again.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn accept(&mut self) -> Result<Option<Receiver>, NetError> {
        let accept = present("accept", self.plugin.calls.accept)?;
        let (mut connection, mut offload) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a listener that is open, and places of ours.
        let status = unsafe { accept(self.address, &raw mut connection, &raw mut offload) };
        checked("accept", status)?;
        Ok((!connection.is_null()).then(|| Receiver::new(self.plugin, connection)))
    }

    /// Closes it.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn close(mut self) -> Result<(), NetError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), NetError> {
        let address = mem::replace(&mut self.address, std::ptr::null_mut());
        if address.is_null() {
            return Ok(());
        }
        let close = present("closeListen", self.plugin.calls.close_listen)?;
        // SAFETY: open until now, and not used again.
        checked("closeListen", unsafe { close(address) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
