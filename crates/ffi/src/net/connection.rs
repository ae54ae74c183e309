//! The two ends of a connection, with the open requests of each.
//! Not how connections begin (`listener`, `library`), and not which messages there are.

use std::{
    ffi::{c_int, c_void},
    mem,
    ops::Range,
    rc::Rc,
};

use nccl_plugin_abi::net::{MAX_REQUESTS, OPTIONAL_COMPLETION, PTR_HOST};

use super::{
    Memory, NetError, Plugin,
    error::{checked, present},
    memory::{Hold, Use},
};

/// The most receives of one request here.
pub(super) const MAX_GROUPED_RECEIVES: usize = 8;

/// A request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(usize);

/// Memory that is registered with a connection.
#[derive(Debug)]
struct Registered {
    memory: Rc<Memory>,
    handle: *mut c_void,
}

/// An open request.
#[derive(Debug)]
struct Open {
    request: *mut c_void,
    _first: Hold,
    more: Vec<Hold>,
}

/// The state that both ends share.
#[derive(Debug)]
struct End {
    plugin: &'static Plugin,
    address: *mut c_void,
    registered: Vec<Registered>,
    open: Vec<Option<Open>>,
}

impl End {
    fn new(plugin: &'static Plugin, address: *mut c_void) -> End {
        let open = Vec::with_capacity(MAX_REQUESTS);
        End { plugin, address, registered: Vec::new(), open }
    }

    fn register(&mut self, memory: &Rc<Memory>) -> Result<(), NetError> {
        let reg_mr = present("regMr", self.plugin.calls.reg_mr)?;
        let (address, mut handle) = (memory.address().cast(), std::ptr::null_mut());
        // SAFETY: memory that lives until it is deregistered, below.
        let status =
            unsafe { reg_mr(self.address, address, memory.bytes(), PTR_HOST, &raw mut handle) };
        checked("regMr", status)?;
        self.registered.push(Registered { memory: Rc::clone(memory), handle });
        Ok(())
    }

    #[inline]
    fn registration(&self, memory: &Rc<Memory>) -> Result<*mut c_void, NetError> {
        let found = self.registered.iter().find(|one| Rc::ptr_eq(&one.memory, memory));
        found.map(|one| one.handle).ok_or(NetError::Misuse("memory was not registered"))
    }

    /// Stores a request.
    #[inline]
    fn opened(&mut self, request: *mut c_void, first: Hold, more: Vec<Hold>) -> Ticket {
        let open = Some(Open { request, _first: first, more });
        match self.open.iter().position(Option::is_none) {
            Some(free) => {
                self.open[free] = open;
                Ticket(free)
            }
            None => {
                self.open.push(open);
                Ticket(self.open.len() - 1)
            }
        }
    }

    /// Whether a request is complete, and the sizes that the plugin reports, where they are
    /// requested.
    #[inline]
    fn test(
        &mut self,
        ticket: Ticket,
        sizes: Option<&mut [c_int; MAX_GROUPED_RECEIVES]>,
    ) -> Result<bool, NetError> {
        let place = self.open.get_mut(ticket.0);
        let place = place.ok_or(NetError::Misuse("no such request"))?;
        let open = place.as_ref().ok_or(NetError::Misuse("the request is complete already"))?;
        let test = present("test", self.plugin.calls.test)?;
        let mut done: c_int = 0;
        let sizes = sizes.map_or(std::ptr::null_mut(), |sizes| sizes.as_mut_ptr());
        // SAFETY: a request that is open, and places of ours; sizes have more room than a request has
        // receives.
        checked("test", unsafe { test(open.request, &raw mut done, sizes) })?;
        if done != 0 {
            // Its memory may be used again.
            *place = None;
        }
        Ok(done != 0)
    }

    fn under_way(&self) -> usize {
        self.open.iter().flatten().count()
    }

    fn close(
        &mut self,
        call: &'static str,
        close: Option<nccl_plugin_abi::net::Close>,
    ) -> Result<(), NetError> {
        let address = mem::replace(&mut self.address, std::ptr::null_mut());
        if address.is_null() {
            return Ok(());
        }
        let mut first = Ok(());
        if let Some(dereg_mr) = self.plugin.calls.dereg_mr {
            for one in &self.registered {
                // SAFETY: what `register` was given, once.
                first = first.and(checked("deregMr", unsafe { dereg_mr(address, one.handle) }));
            }
        }
        let closed = present(call, close).and_then(|close| {
            // SAFETY: open until now, and not used again.
            checked(call, unsafe { close(address) })
        });
        if closed.is_err() {
            // It may use its memory for ever.
            mem::forget(mem::take(&mut self.open));
            mem::forget(mem::take(&mut self.registered));
        }
        first.and(closed)
    }
}

/// The sending end of a connection. A drop closes it, even with open requests.
#[derive(Debug)]
pub struct Sender(End);

impl Sender {
    pub(super) fn new(plugin: &'static Plugin, address: *mut c_void) -> Sender {
        Sender(End::new(plugin, address))
    }

    /// Registers memory with the connection, until it is closed.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn register(&mut self, memory: &Rc<Memory>) -> Result<(), NetError> {
        self.0.register(memory)
    }

    /// Starts to send a part of registered memory; `None` means that the plugin has no room now:
    /// try again.
    ///
    /// # Errors
    /// The plugin refuses the call.
    #[inline]
    pub fn isend(
        &mut self,
        memory: &Rc<Memory>,
        bytes: Range<usize>,
        tag: c_int,
    ) -> Result<Option<Ticket>, NetError> {
        let registration = self.0.registration(memory)?;
        let hold = Hold::new(memory, bytes, Use::Sent)?;
        let (data, len) = (hold.address().cast(), hold.bytes());
        let mut request = std::ptr::null_mut();
        let (calls, address) = (&self.0.plugin.calls, self.0.address);
        // SAFETY: an open connection; the memory is held until the request is done.
        let status = unsafe { calls.isend(address, data, len, tag, registration, &mut request)? };
        checked("isend", status)?;
        Ok((!request.is_null()).then(|| self.0.opened(request, hold, Vec::new())))
    }

    /// Whether a request is complete: then its memory may be read again, and its ticket is invalid.
    ///
    /// # Errors
    /// The plugin reports an error; the memory stays the plugin's until the connection is closed.
    #[inline]
    pub fn test(&mut self, ticket: Ticket) -> Result<bool, NetError> {
        self.0.test(ticket, Some(&mut [0; MAX_GROUPED_RECEIVES]))
    }

    /// The same without sizes.
    ///
    /// # Errors
    /// As above.
    pub fn test_without_sizes(&mut self, ticket: Ticket) -> Result<bool, NetError> {
        self.0.test(ticket, None)
    }

    /// The number of open requests.
    pub fn under_way(&self) -> usize {
        self.0.under_way()
    }

    /// Closes it.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn close(mut self) -> Result<(), NetError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), NetError> {
        self.0.close("closeSend", self.0.plugin.calls.close_send)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The receiving end of a connection: messages in the order of their requests. Otherwise as
/// [`Sender`].
#[derive(Debug)]
pub struct Receiver(End);

impl Receiver {
    pub(super) fn new(plugin: &'static Plugin, address: *mut c_void) -> Receiver {
        Receiver(End::new(plugin, address))
    }

    /// As [`Sender::register`].
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn register(&mut self, memory: &Rc<Memory>) -> Result<(), NetError> {
        self.0.register(memory)
    }

    /// Starts to receive at most this number of bytes into registered memory; `None` means that the
    /// plugin has no room now: try again.
    ///
    /// # Errors
    /// The plugin refuses the call.
    #[inline]
    pub fn irecv(
        &mut self,
        memory: &Rc<Memory>,
        bytes: Range<usize>,
        tag: c_int,
    ) -> Result<Option<Ticket>, NetError> {
        let mut registrations = [self.0.registration(memory)?];
        let hold = Hold::new(memory, bytes, Use::Received)?;
        let (mut places, mut sizes, mut tags) = ([hold.address().cast()], [hold.bytes()], [tag]);
        let request = self.begin(&mut places, &mut sizes, &mut tags, &mut registrations, false)?;
        Ok(request.map(|request| self.0.opened(request, hold, Vec::new())))
    }

    /// The same with optional completion, as NCCL's LL protocols use it.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn irecv_quietly(
        &mut self,
        memory: &Rc<Memory>,
        bytes: Range<usize>,
        tag: c_int,
    ) -> Result<Option<Ticket>, NetError> {
        let mut registrations = [self.0.registration(memory)?];
        let hold = Hold::new(memory, bytes, Use::Received)?;
        let (mut places, mut sizes, mut tags) = ([hold.address().cast()], [hold.bytes()], [tag]);
        let request = self.begin(&mut places, &mut sizes, &mut tags, &mut registrations, true)?;
        Ok(request.map(|request| self.0.opened(request, hold, Vec::new())))
    }

    /// Starts one request for several messages, each into the part with its tag: at most eight, and
    /// no more than the device's properties allow.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn irecv_grouped(
        &mut self,
        memory: &Rc<Memory>,
        parts: &[(Range<usize>, c_int)],
    ) -> Result<Option<Ticket>, NetError> {
        if parts.is_empty() || parts.len() > MAX_GROUPED_RECEIVES {
            return Err(NetError::Misuse("a group is of one to eight receives"));
        }
        let mut registrations = vec![self.0.registration(memory)?; parts.len()];
        let mut holds = Vec::new();
        for (bytes, _) in parts {
            holds.push(Hold::new(memory, bytes.clone(), Use::Received)?);
        }
        let mut places: Vec<*mut c_void> = holds.iter().map(|h| h.address().cast()).collect();
        let mut sizes: Vec<usize> = holds.iter().map(Hold::bytes).collect();
        let mut tags: Vec<c_int> = parts.iter().map(|(_, tag)| *tag).collect();
        let request = self.begin(&mut places, &mut sizes, &mut tags, &mut registrations, false)?;
        let first = holds.swap_remove(0);
        Ok(request.map(|request| self.0.opened(request, first, holds)))
    }

    #[inline]
    fn begin(
        &self,
        places: &mut [*mut c_void],
        sizes: &mut [usize],
        tags: &mut [c_int],
        registrations: &mut [*mut c_void],
        quietly: bool,
    ) -> Result<Option<*mut c_void>, NetError> {
        let preset = if quietly { OPTIONAL_COMPLETION } else { 0 };
        let mut request = std::ptr::without_provenance_mut(preset);
        let (calls, address) = (&self.0.plugin.calls, self.0.address);
        // SAFETY: an open connection; lists of one length; the caller holds the memory until the request is
        // done.
        let status =
            unsafe { calls.irecv(address, places, sizes, tags, registrations, &mut request)? };
        checked("irecv", status)?;
        if request.addr() == OPTIONAL_COMPLETION {
            let text = "it left the optional-completion mark in the request pointer".to_owned();
            return Err(NetError::Wrong { call: "irecv", text });
        }
        Ok((!request.is_null()).then_some(request))
    }

    /// The received bytes, when a request is complete: then its memory may be read again, and its
    /// ticket is invalid.
    ///
    /// # Errors
    /// The plugin reports an error; the memory stays the plugin's until the connection is closed.
    #[inline]
    pub fn test(&mut self, ticket: Ticket) -> Result<Option<usize>, NetError> {
        // NCCL's are zeros, too.
        let mut sizes = [0; MAX_GROUPED_RECEIVES];
        let done = self.0.test(ticket, Some(&mut sizes))?;
        done.then(|| size(sizes[0])).transpose()
    }

    /// The received bytes of each message of a group, in its order.
    ///
    /// # Errors
    /// As above.
    pub fn test_grouped(&mut self, ticket: Ticket) -> Result<Option<Vec<usize>>, NetError> {
        let count = self.0.open.get(ticket.0).and_then(Option::as_ref).map_or(0, |o| o.more.len());
        let mut sizes = [0; MAX_GROUPED_RECEIVES];
        let done = self.0.test(ticket, Some(&mut sizes))?;
        done.then(|| sizes[..=count].iter().map(|bytes| size(*bytes)).collect()).transpose()
    }

    /// Whether a request is complete, without sizes.
    ///
    /// # Errors
    /// As above.
    pub fn test_without_sizes(&mut self, ticket: Ticket) -> Result<bool, NetError> {
        self.0.test(ticket, None)
    }

    /// The number of open requests.
    pub fn under_way(&self) -> usize {
        self.0.under_way()
    }

    /// Closes it.
    ///
    /// # Errors
    /// The plugin refuses the call.
    pub fn close(mut self) -> Result<(), NetError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), NetError> {
        self.0.close("closeRecv", self.0.plugin.calls.close_recv)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A size as `test` reports it.
fn size(bytes: c_int) -> Result<usize, NetError> {
    usize::try_from(bytes).map_err(|_| NetError::Wrong {
        call: "test",
        text: format!("{bytes} bytes are more than the receive holds"),
    })
}
