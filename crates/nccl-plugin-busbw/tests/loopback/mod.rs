//! busbw's own network over loopback, both ends in this process, as several tests need it.
//! Not what they test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test needs a part of it")]

use std::{
    fs::File,
    io::{Read, Seek, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nccl_plugin_busbw::{
    devices::{Device, Interface},
    multipath::{Multipath, fault::Fault},
    network::{Handle, Listener, Network, Receiver, Sender},
};

/// 127.0.0.`last`.
pub fn lo(last: u8) -> Interface {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    Interface { name: "lo".to_owned(), address, prefix: 8, speed: None, path: None }
}

/// Over these interfaces, with so many threads of the plugin's.
pub fn over(interfaces: Vec<Interface>, threads: usize, fault: Option<Fault>) -> Multipath {
    let name = c"busbw".to_owned();
    let device = Device {
        name,
        path: None,
        guid: 0,
        speed: 10_000,
        port: 0,
        kinds: 1,
        interfaces,
        parts: Vec::new(),
    };
    Multipath::new(vec![device], Some(threads), fault)
}

/// Over one, with one.
pub fn network() -> Multipath {
    over(vec![lo(1)], 1, None)
}

/// A new connection.
pub fn connected(network: &Multipath) -> (Box<dyn Sender>, Box<dyn Receiver>) {
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    meet(network, listener.as_mut(), &mut handle)
}

/// The connection to a listener.
pub fn meet(
    network: &Multipath,
    listener: &mut dyn Listener,
    handle: &mut Handle,
) -> (Box<dyn Sender>, Box<dyn Receiver>) {
    let sender = soon(|| network.connect(0, handle).unwrap());
    (sender, soon(|| listener.accept().unwrap()))
}

/// What `step` says at last. Who waits 10 s for it hangs.
pub fn soon<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(outcome) = step() {
            return outcome;
        }
        assert!(Instant::now() < until, "nothing after 10 s");
        thread::yield_now();
    }
}

/// How often a thread of the plugin's has slept.
pub struct Sleeps(File);

impl Sleeps {
    /// Of the thread of this name: it names itself when it has begun.
    pub fn of(name: &str) -> Sleeps {
        let task = soon(|| {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let is_named = |task: &PathBuf| {
                std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
            };
            tasks.map(|task| task.unwrap().path()).find(is_named)
        });
        Sleeps(File::open(task.join("status")).unwrap())
    }

    /// So far: it works between two of them (proc_pid_status(5), voluntary context switches).
    pub fn count(&mut self) -> u64 {
        let mut text = String::new();
        self.0.rewind().unwrap();
        self.0.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }
}

/// Sends a message, and compares what comes.
pub fn exchange(sender: &mut dyn Sender, receiver: &mut dyn Receiver, data: &[u8]) {
    let mut place = vec![0u8; data.len()];
    // SAFETY: both outlive the requests.
    let (sent, received) = unsafe {
        let sent = sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
        (sent, receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap())
    };
    let (mut sent, mut received) = (Some(sent), Some(received));
    let until = Instant::now() + Duration::from_secs(10);
    while sent.is_some() || received.is_some() {
        let missing = (sent.is_some(), received.is_some());
        assert!(Instant::now() < until, "a message is not done: {missing:?}");
        sent = sent.filter(|request| sender.test(*request).unwrap().is_none());
        received = received.filter(|request| receiver.test(*request).unwrap().is_none());
    }
    assert!(place == data);
}

/// Where a handle says its first listener is (`handle.rs`).
pub fn address(handle: &Handle) -> SocketAddr {
    let port = u16::from_le_bytes([handle[30], handle[31]]);
    (Ipv4Addr::new(handle[32], handle[33], handle[34], handle[35]), port).into()
}

/// A hello for path 0 of 1 (`frame.rs`), with the handle's secret and listener.
pub fn hello(handle: &Handle) -> [u8; 48] {
    let mut hello = [0; 48];
    hello[..3].copy_from_slice(&[0x62, 0x7b, 1]);
    hello[8..32].copy_from_slice(&handle[4..28]);
    hello[34] = 1;
    hello
}

/// Lets connections through to a listener, until they are held up or cut.
pub struct Between {
    through: Arc<Mutex<Vec<Through>>>,
}

/// A connection, in its two parts, and whether it is held up.
struct Through([TcpStream; 2], Arc<AtomicBool>);

impl Between {
    /// In front of the listener of a handle, which leads here from now on.
    pub fn before(handle: &mut Handle) -> Between {
        let to = address(handle);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        handle[30..32].copy_from_slice(&listener.local_addr().unwrap().port().to_le_bytes());
        let through: Arc<Mutex<Vec<Through>>> = Arc::default();
        let list = through.clone();
        thread::spawn(move || {
            for one in listener.incoming() {
                let (one, other) = (one.unwrap(), TcpStream::connect(to).unwrap());
                let held: Arc<AtomicBool> = Arc::default();
                for (from, to) in [(&one, &other), (&other, &one)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let held = held.clone();
                    thread::spawn(move || pass_on(from, to, &held));
                }
                list.lock().unwrap().push(Through([one, other], held));
            }
        });
        Between { through }
    }

    pub fn cut(&self) {
        for stream in self.through.lock().unwrap().drain(..).flat_map(|Through(both, _)| both) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Nothing comes through one of the connections any more; TCP has nothing to complain of.
    pub fn hold_one_up(&self) {
        let through = self.through.lock().unwrap();
        through[0].1.store(true, Ordering::Release);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, held: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        // For ever: nobody wakes it.
        while held.load(Ordering::Acquire) {
            thread::park();
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
