//! Paths come and go: what the transport's state machine asks for is done, what happens to sockets is told to it.
//! Not what moves over them (`moving`), nor how they are connected (`manager`).

use std::{
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{Weak, atomic::Ordering},
};

use busbw_multipath::{Action, ConnectError, End, Loss, Notice, Port, frame::Hello};
use nccl_plugin_abi::{Status, net_stats::NetConnection};
use rustix::io::Errno;

use super::{
    Connection, counts,
    stream::{Stream, ended_by},
};
use crate::{
    log,
    multipath::{
        locks::{lock, try_lock},
        manager::{CONNECT_TIMEOUT, Closing, Connect, Dialer, Managed},
        pending::Comes,
        sockets,
        stats::Counted,
    },
    network::{Failure, Result},
};

impl Connection {
    /// Does what the state machine asks for. No lock is held.
    pub(super) fn perform(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Connect { path, epoch, port, timeout } => {
                    let connect = self.connect(path, self.itself.clone(), epoch);
                    let address = self.paths[path].from.or(self.kept_address(path));
                    let from = address.zip(port).map(|(ip, Port(port))| SocketAddr::new(ip, port));
                    self.manager.connect(Connect {
                        from: from.or(connect.from),
                        timeout: timeout.unwrap_or(CONNECT_TIMEOUT),
                        ..connect
                    });
                }
                Action::Probe(path) => {
                    self.manager.connect(self.connect(path, self.itself.clone(), Hello::PROBE));
                }
                Action::Ping(path) => {
                    self.with_path(path, |connection, stream| {
                        let outcome = stream.ping();
                        connection.paths[path].unfinished.set(stream.is_writing());
                        outcome.err().map(ended_by)
                    });
                }
                Action::Inspect(path) => self.with_path(path, |connection, stream| {
                    connection.core.lock().inspected(path, &stream.health(), connection.now())
                }),
                Action::Hedge(path) => {
                    // Whoever has the path right now may just read what is late.
                    if let Some(mut stream) = try_lock(&self.paths[path].stream)
                        && let Some(stream) = &mut *stream
                    {
                        self.core.lock().hedge(path, self.now(), stream.writing());
                    }
                }
                // Of paths that are unreliable, or place what they carry, of which there are none here.
                Action::GiveUp { .. } => {}
                Action::Notify(notice) => self.notify(&notice),
            }
        }
    }

    /// Does something with a path that is up, which may find that it is lost.
    fn with_path(&self, path: usize, look: impl FnOnce(&Connection, &mut Stream) -> Option<Loss>) {
        let mut stream = lock(&self.paths[path].stream);
        let Some(up) = &mut *stream else { return };
        if let Some(loss) = look(self, up) {
            self.lose(path, &mut stream, &loss);
        }
    }

    fn notify(&self, notice: &Notice) {
        match notice {
            Notice::Lost { path, why, now } => {
                let to = self.paths[*path].to;
                log::info(&format!("NET/busbw: path {path} to {to} was lost ({why}): {now}"));
            }
            Notice::NotConnected { path, why } => {
                let to = self.paths[*path].to;
                log::info(&format!("NET/busbw: path {path} to {to}: {why}; it is tried again"));
            }
        }
    }

    /// To connect a path from any port.
    fn connect(&self, path: usize, whom: Weak<Connection>, epoch: u32) -> Connect {
        let super::Path { from, to, .. } = self.paths[path];
        let from = from.map(|from| SocketAddr::new(from, 0));
        // There are at most MAX_PATHS.
        let hello = Hello { path: path as u16, epoch, ..self.hello };
        Connect { whom, from, to, hello, timeout: CONNECT_TIMEOUT }
    }

    /// The address that a path had where the kernel has chosen it.
    fn kept_address(&self, path: usize) -> Option<std::net::IpAddr> {
        self.paths[path].kernel.last_local().map(|at| at.ip())
    }

    /// A path is lost: what it had goes over the others.
    pub(super) fn lose(&self, path: usize, stream: &mut Option<Stream>, loss: &Loss) {
        let Some(up) = stream.take() else { return };
        self.paths[path].unfinished.set(false);
        let health = up.health();
        sockets::give_up(&up.socket);
        let (mut actions, now) = (Vec::new(), self.now());
        self.core.lock().lost(path, loss, &health, now, &mut actions, |request, bytes| {
            self.done(request, bytes);
        });
        self.paths[path].kernel.ended(up.socket);
        // It only asks the manager, and tells: it locks no path.
        self.perform(actions);
        self.watch();
    }

    /// Keeps why the connection has ended where callers see it without a lock.
    fn note_end(&self) {
        let end = self.core.lock().end().map(|end| (end.told(&self.paths[0].to), *end));
        if let Some(end) = end {
            let _ = self.ended.set(end);
        }
    }

    pub(super) fn watch(&self) {
        if self.watched.ask() {
            self.manager.watch(self.itself.clone());
        }
    }

    /// Why the connection has failed, if none of its ends has wanted that.
    pub(super) fn broken(&self) -> Option<String> {
        let (told, end): &(String, End) = self.ended.get()?;
        (!end.is_wanted()).then(|| told.clone())
    }
}

impl Dialer for Connection {
    fn connected(&self, hello: &Hello, socket: OwnedFd) {
        let number = usize::from(hello.path);
        let path = &self.paths[number];
        let mut stream = lock(&path.stream);
        if stream.is_some() || self.ended.get().is_some() {
            return;
        }
        // Before the kernel can tell of this one's.
        path.ended.set(false);
        if let Err(error) = self.events.add(&socket, number) {
            drop(stream);
            self.not_connected(hello.path, error);
            return;
        }
        let mut actions = Vec::new();
        *stream = Some(Stream::new(socket));
        self.core.lock().connected(number, self.now(), &mut actions);
        path.writable.raise();
        drop(stream);
        self.perform(actions);
    }

    fn gone(&self) {
        self.core.lock().gone();
        self.note_end();
    }

    fn not_connected(&self, path: u16, error: Errno) {
        let why = match error {
            Errno::CONNREFUSED | Errno::CONNRESET => ConnectError::Refused,
            Errno::ADDRINUSE | Errno::ADDRNOTAVAIL => ConnectError::PortTaken,
            _ => ConnectError::Other,
        };
        let (mut actions, text) = (Vec::new(), error.to_string());
        self.core.lock().not_connected(path.into(), why, &text, self.now(), &mut actions);
        self.perform(actions);
    }

    fn probe_answered(&self) {
        self.core.lock().probe_answered();
    }

    fn probe_unanswered(&self, error: Errno) {
        let mut core = self.core.lock();
        match error {
            Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => {
                core.probe_unanswered(self.now());
            }
            Errno::CONNREFUSED | Errno::CONNRESET => core.probe_refused(self.now()),
            // Our own trouble.
            _ => {}
        }
    }
}

impl Comes for Connection {
    fn failure(&self) -> Result<()> {
        match self.ended.get() {
            None => Ok(()),
            Some((text, _)) => Err(Failure::new(Status::REMOTE, text)),
        }
    }

    fn is_up(&self) -> bool {
        self.core.lock().paths_up() > 0
    }

    /// Ends every path, whatever is on its way: NCCL's memory is not touched any more.
    fn abort(&self) {
        if self.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        // First, so that a path that is just coming up finds nothing any more.
        self.core.lock().abort();
        self.note_end();
        self.end().into_iter().for_each(|socket| self.manager.leave(socket));
        self.manager.connect(self.connect(0, Weak::new(), Hello::ABORT));
    }
}

impl Closing for Connection {
    fn is_idle(&self) -> bool {
        self.core.lock().is_idle()
    }

    fn end(&self) -> Vec<OwnedFd> {
        self.core.lock().forget_losses();
        let counted = NetConnection { closed: true, ..self.counted() };
        let told = counted.paths.iter().map(counts::told).collect::<Vec<_>>().join("; ");
        log::info(&format!("NET/busbw: paths to {}: {told}", counted.peer));
        if let Some(stats) = self.manager.stats() {
            let itself: Weak<dyn Counted> = self.itself.clone();
            stats.closed(&itself, counted, self.manager.clock.now());
        }
        let mut sockets = Vec::new();
        for path in &self.paths {
            let stream = lock(&path.stream).take();
            sockets.extend(stream.and_then(Stream::ended));
        }
        // Nobody is to connect them again.
        self.core.lock().take_down(self.now());
        sockets
    }
}

impl Managed for Connection {
    /// Looks whether anything is stuck, and has missing paths connected. Whether there is a reason to look again.
    fn check(&self) -> bool {
        if self.ended.get().is_some() {
            // NCCL may close it much later.
            self.read_last();
            if self.is_up() {
                self.end().into_iter().for_each(|socket| self.manager.leave(socket));
            }
            return false;
        }
        self.collect();
        for (number, path) in self.paths.iter().enumerate() {
            self.move_path(number, &mut lock(&path.stream));
        }
        let mut actions = Vec::new();
        let again = self.core.lock().check_paths(self.now(), &mut actions);
        self.perform(actions);
        self.note_end();
        self.check_late();
        again
    }

    fn is_behind(&self) -> bool {
        !self.is_idle() && self.ended.get().is_none()
    }

    /// The manager stops looking; false if something came in between.
    fn unwatch(&self) -> bool {
        self.watched.give_up(|| self.is_behind())
    }

    fn cut(&self, path: usize) {
        if let Some(stream) = &*lock(&self.paths[path % self.paths.len()].stream) {
            sockets::cut(&stream.socket);
        }
    }
}
