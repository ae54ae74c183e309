//! An open plugin: the table that is used, its devices, and how connections begin.
//! Not connections (`connection`).

use std::{
    ffi::{CStr, CString, c_int, c_void},
    fmt,
    path::Path,
};

use busbw_nccl_releases::PluginKind;
use nccl_plugin_abi::net::{HANDLE_BYTES, SYMBOLS};

use super::{
    Listener, NetError, Properties, Sender,
    calls::Calls,
    error::{checked, present},
    logger::logger,
};
use dynamic_library::{Library, LoadError};

/// Supported versions of the table, newest first.
pub const VERSIONS: [u32; 5] = [12, 11, 10, 9, 8];

/// The connection handle that a listener gives to the connecting rank: plain data that only the
/// plugin interprets.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Handle(pub [u8; HANDLE_BYTES]);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may hold a secret.
        f.write_str("Handle")
    }
}

/// A plugin that was started. It stays loaded for the life of the process.
#[derive(Debug)]
pub struct Plugin {
    library: Library,
    version: u32,
    pub(super) calls: Calls,
    context: *mut c_void,
}

impl Plugin {
    /// Opens and starts the plugin that NCCL would load for `word` in NCCL_NET_PLUGIN: a file or a
    /// name for the loader, then `libnccl-net-<word>.so`. Uses the newest of its tables, or that of
    /// `version`. Start it once a process, as NCCL does with tables up to v10.
    ///
    /// # Errors
    /// The file does not exist, is no net plugin, or refuses to start.
    pub fn open(word: &str, version: Option<u32>) -> Result<&'static Plugin, LoadError> {
        let library = found(word)?;
        let wanted = VERSIONS.into_iter().filter(|known| version.is_none_or(|v| v == *known));
        let table = wanted.map(|version| (version, table(&library, version)));
        let Some((version, Some(address))) = table.into_iter().find(|(_, table)| table.is_some())
        else {
            let missing = match version {
                Some(version) => symbol(version),
                None => "ncclNetPlugin_v12, nor v11, v10, v9 or v8",
            };
            let path = library.path().display().to_string();
            return Err(LoadError::Missing { path, function: missing, library: "net plugin" });
        };
        // SAFETY: the symbol says which table it is; the library is never closed.
        let calls = unsafe { Calls::read(address, version) };
        let broken = |error: NetError| LoadError::Broken {
            path: library.path().display().to_string(),
            why: error.to_string(),
        };
        let context = calls.init(logger()).map_err(broken)?;
        Ok(Box::leak(Box::new(Plugin { library, version, calls, context })))
    }

    /// Versions of the table that a plugin's library has, newest first. Nothing is started.
    ///
    /// # Errors
    /// The system's loader cannot open it.
    pub fn versions(word: &str) -> Result<Vec<u32>, LoadError> {
        let library = found(word)?;
        let has = |version: &u32| table(&library, *version).is_some();
        Ok(VERSIONS.into_iter().filter(has).collect())
    }

    /// Symbols of other kinds of NCCL's plugins that the library has too. Nothing is started.
    ///
    /// # Errors
    /// The system's loader cannot open it.
    pub fn other_interfaces(word: &str) -> Result<Vec<(PluginKind, String)>, LoadError> {
        let library = found(word)?;
        let has = |symbol: &str| {
            CString::new(symbol).is_ok_and(|symbol| library.address(&symbol).is_some())
        };
        let mut symbols = busbw_nccl_releases::symbols();
        symbols.retain(|(kind, symbol)| *kind != PluginKind::Net && has(symbol));
        Ok(symbols)
    }

    /// The path that was passed to the loader.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// The version of the table that is used.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Its name in NCCL's log, by which NCCL_NET selects it.
    pub fn name(&self) -> &str {
        &self.calls.name
    }

    /// The number of its devices.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn devices(&self) -> Result<usize, NetError> {
        let devices = present("devices", self.calls.devices)?;
        let mut count: c_int = 0;
        // SAFETY: a function of the table, and a place for the number.
        checked("devices", unsafe { devices(&raw mut count) })?;
        usize::try_from(count).map_err(|_| NetError::Wrong {
            call: "devices",
            text: format!("{count} is no number of devices"),
        })
    }

    /// The properties of a device.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn properties(&self, device: usize) -> Result<Properties, NetError> {
        self.calls.properties(device as c_int)
    }

    /// Whether it can make one device of several.
    pub fn can_merge(&self) -> bool {
        self.calls.merge.is_some()
    }

    /// Makes one device of several; its number.
    ///
    /// # Errors
    /// The plugin refuses the call, or has no such function.
    pub fn merge(&self, parts: &[usize]) -> Result<usize, NetError> {
        let numbers: Vec<c_int> = parts.iter().map(|part| *part as c_int).collect();
        let number = self.calls.merge(&numbers)?;
        usize::try_from(number).map_err(|_| NetError::Wrong {
            call: "makeVDevice",
            text: format!("{number} is no number of a device"),
        })
    }

    /// Listens for one connection.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn listen(&'static self, device: usize) -> Result<(Listener, Handle), NetError> {
        let mut handle = Handle([0; HANDLE_BYTES]);
        let mut listener = std::ptr::null_mut();
        let room = (&raw mut handle).cast();
        // SAFETY: the handle has its room.
        let status =
            unsafe { self.calls.listen(self.context, device as c_int, room, &mut listener)? };
        checked("listen", status)?;
        if listener.is_null() {
            let text = "it succeeded without a listener".to_owned();
            return Err(NetError::Wrong { call: "listen", text });
        }
        Ok((Listener::new(self, listener), handle))
    }

    /// Connects to the listener of a handle, which keeps state between calls; `None` means that the
    /// connection is not there yet: call again.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn connect(
        &'static self,
        device: usize,
        handle: &mut Handle,
    ) -> Result<Option<Sender>, NetError> {
        let mut connection = std::ptr::null_mut();
        let room = std::ptr::from_mut(handle).cast();
        // SAFETY: a handle's room; that the plugin trusts what is in it is its own affair.
        let status =
            unsafe { self.calls.connect(self.context, device as c_int, room, &mut connection)? };
        checked("connect", status)?;
        Ok((!connection.is_null()).then(|| Sender::new(self, connection)))
    }

    /// Finalises the context that `open` created, in tables that have one; no connection may be
    /// left.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn finalize(&self) -> Result<(), NetError> {
        if self.version < 11 {
            return Ok(());
        }
        let finalize = present("finalize", self.calls.finalize)?;
        // SAFETY: what `init` gave.
        checked("finalize", unsafe { finalize(self.context) })
    }

    /// The missing functions that NCCL calls for host memory without a check.
    pub fn absent(&self) -> Vec<&'static str> {
        let calls = &self.calls;
        let all = [
            ("init", calls.init.is_some()),
            ("devices", calls.devices.is_some()),
            ("getProperties", calls.get_properties.is_some()),
            ("listen", calls.listen.is_some()),
            ("connect", calls.connect.is_some()),
            ("accept", calls.accept.is_some()),
            ("regMr", calls.reg_mr.is_some()),
            ("deregMr", calls.dereg_mr.is_some()),
            ("isend", calls.isend.is_some()),
            ("irecv", calls.irecv.is_some()),
            ("test", calls.test.is_some()),
            ("closeSend", calls.close_send.is_some()),
            ("closeRecv", calls.close_recv.is_some()),
            ("closeListen", calls.close_listen.is_some()),
            ("finalize", self.version < 11 || calls.finalize.is_some()),
        ];
        all.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect()
    }
}

/// The library that NCCL would open for a word (src/plugin/plugin_open.cc).
fn found(word: &str) -> Result<Library, LoadError> {
    let literally = Library::open(Path::new(word));
    let whole = word.contains('/') || (word.starts_with("lib") && word.ends_with(".so"));
    match literally {
        Err(refused) if !whole => {
            Library::open(Path::new(&format!("libnccl-net-{word}.so"))).map_err(|_| refused)
        }
        other => other,
    }
}

/// The address of a table in a library.
fn table(library: &Library, version: u32) -> Option<*const c_void> {
    let name = CString::new(symbol(version)).ok()?;
    let name: &CStr = &name;
    library.address(name).map(<*mut c_void>::cast_const)
}

/// The symbol of one of [`VERSIONS`].
fn symbol(version: u32) -> &'static str {
    let at = VERSIONS.iter().position(|known| *known == version);
    at.map_or("ncclNetPlugin of an unknown version", |at| SYMBOLS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_go_with_versions() {
        for version in VERSIONS {
            assert_eq!(symbol(version), format!("ncclNetPlugin_v{version}"));
        }
    }

    #[test]
    fn another_library_is_no_plugin() {
        let error = Plugin::open("libc.so.6", None).unwrap_err().to_string();
        assert!(error.contains("ncclNetPlugin_v12") && error.contains("no net plugin"), "{error}");
        let error = Plugin::open("libc.so.6", Some(9)).unwrap_err().to_string();
        assert!(error.contains("ncclNetPlugin_v9"), "{error}");
        let error = Plugin::open("no-such-net", None).unwrap_err().to_string();
        assert!(error.contains("no-such-net"), "{error}");
    }
}
