//! busbw's own network, both ends in this process, over loopback.
//! Not NCCL's tables.
#![allow(clippy::unwrap_used)]

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use plugin::{
    devices::{Device, Interface},
    multipath::{Multipath, fault::Fault},
    network::{Network, Receiver, Result, Sender},
};

fn loopback(last: u8) -> Interface {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    Interface { name: "lo".to_owned(), address, prefix: 8, speed: None, path: None }
}

fn network(interfaces: Vec<Interface>, fault: Option<Fault>) -> Multipath {
    let name = c"busbw".to_owned();
    Multipath::new(vec![Device { name, path: None, guid: 0, speed: 10_000, interfaces }], fault)
}

fn connected(network: &Multipath) -> (Box<dyn Sender>, Box<dyn Receiver>) {
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let (mut sender, mut receiver) = (None, None);
    while sender.is_none() || receiver.is_none() {
        assert!(Instant::now() < until, "no connection");
        if sender.is_none() {
            sender = network.connect(0, &mut handle).unwrap();
        }
        if receiver.is_none() {
            receiver = listener.accept().unwrap();
        }
        thread::yield_now();
    }
    (sender.unwrap(), receiver.unwrap())
}

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn byte(message: usize, at: usize) -> u8 {
    (message.wrapping_mul(31) ^ at ^ at >> 8 ^ at >> 16) as u8
}

fn fill(message: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| byte(message, at)).collect()
}

fn send_all(sender: &mut dyn Sender, sizes: &[usize], window: usize) -> Result<()> {
    let mut open = VecDeque::new();
    let mut next = 0;
    let until = Instant::now() + Duration::from_secs(60);
    while next < sizes.len() || !open.is_empty() {
        assert!(
            Instant::now() < until,
            "sender: {next} of {} begun, {} open",
            sizes.len(),
            open.len()
        );
        if next < sizes.len() && open.len() < window {
            let data = fill(next, sizes[next]);
            // SAFETY: the data are kept until the request is done.
            if let Some(request) = unsafe { sender.send(data.as_ptr(), data.len())? } {
                open.push_back((request, data));
                next += 1;
            }
        }
        // Only the oldest, as NCCL does.
        if let Some((request, data)) = open.front()
            && let Some(bytes) = sender.test(*request)?
        {
            assert_eq!(bytes, data.len());
            open.pop_front();
        }
    }
    Ok(())
}

fn receive_all(
    receiver: &mut dyn Receiver,
    sizes: &[usize],
    window: usize,
    chance: &mut Chance,
) -> Result<()> {
    let mut open = VecDeque::new();
    let mut next = 0;
    let until = Instant::now() + Duration::from_secs(60);
    let mut done = 0;
    while done < sizes.len() {
        assert!(
            Instant::now() < until,
            "receiver: {done} of {} done, {} open",
            sizes.len(),
            open.len()
        );
        if next < sizes.len() && open.len() < window {
            let mut data = vec![0u8; sizes[next] + chance.next(100) as usize];
            // SAFETY: the data are kept until the request is done.
            if let Some(request) = unsafe { receiver.receive(data.as_mut_ptr(), data.len())? } {
                open.push_back((request, data));
                next += 1;
            }
            if chance.next(50) == 0 {
                thread::sleep(Duration::from_micros(chance.next(3000)));
            }
        }
        if let Some((request, data)) = open.front()
            && let Some(bytes) = receiver.test(*request)?
        {
            assert_eq!(bytes, sizes[done]);
            let wrong =
                data[..bytes].iter().enumerate().find(|(at, value)| **value != byte(done, *at));
            assert_eq!(wrong, None, "message {done} of {bytes} bytes");
            open.pop_front();
            done += 1;
        }
    }
    Ok(())
}

fn pass(interfaces: Vec<Interface>, sizes: Vec<usize>, windows: (usize, usize)) {
    pass_under(None, interfaces, sizes, windows);
}

fn pass_under(
    fault: Option<Fault>,
    interfaces: Vec<Interface>,
    sizes: Vec<usize>,
    windows: (usize, usize),
) {
    let network = network(interfaces, fault);
    let (mut sender, mut receiver) = connected(&network);
    let ready = Arc::new(Barrier::new(2));
    thread::scope(|scope| {
        let (there, all) = (ready.clone(), &sizes);
        scope.spawn(move || {
            there.wait();
            send_all(sender.as_mut(), all, windows.0).unwrap();
            sender
        });
        ready.wait();
        receive_all(receiver.as_mut(), &sizes, windows.1, &mut Chance(7)).unwrap();
    });
}

#[test]
fn sizes_at_every_edge() {
    let chunk = 128 << 10;
    let edges =
        [0, 1, 8191, 8192, 8193, chunk - 1, chunk, chunk + 1, 3 * chunk, 5 * chunk + 17, 20 << 20];
    pass(vec![loopback(1)], edges.to_vec(), (1, 1));
    pass(vec![loopback(1)], edges.iter().rev().copied().collect(), (32, 32));
}

#[test]
fn many_messages_in_any_windows() {
    for (seed, windows) in [(1, (32, 1)), (2, (1, 32)), (3, (8, 8)), (4, (32, 3))] {
        let mut chance = Chance(seed);
        let size = |chance: &mut Chance| match chance.next(4) {
            0 => chance.next(200),
            1 => chance.next(10_000),
            2 => chance.next(300_000),
            _ => chance.next(2_000_000),
        };
        let sizes = (0..200).map(|_| size(&mut chance) as usize).collect();
        pass(vec![loopback(1), loopback(2)], sizes, windows);
    }
}

#[test]
fn only_small_ones() {
    pass(vec![loopback(1)], (0..20_000).map(|number| number % 300).collect(), (32, 32));
}

#[test]
fn paths_that_break_all_the_time() {
    for (seed, millis) in [(1, 2), (2, 5), (3, 20), (4, 50)] {
        let mut chance = Chance(seed);
        let sizes = (0..300).map(|_| chance.next(2_000_000) as usize).collect();
        let fault = Fault { every: Duration::from_millis(millis) };
        pass_under(Some(fault), vec![loopback(1), loopback(2)], sizes, (8, 4));
    }
}

#[test]
fn small_ones_while_paths_break() {
    let fault = Fault { every: Duration::from_millis(3) };
    let sizes = (0..50_000).map(|number| number % 9000).collect();
    pass_under(Some(fault), vec![loopback(1)], sizes, (16, 16));
}

/// What `step` says at last, which is within 6 s.
fn within_seconds<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(6);
    loop {
        if let Some(outcome) = step() {
            return outcome;
        }
        assert!(Instant::now() < until, "nothing after 6 s");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_receiver_that_ends_is_an_error() {
    let network = network(vec![loopback(1)], None);
    let (mut sender, receiver) = connected(&network);
    let data = vec![1u8; 4 << 20];
    // SAFETY: the data outlive the connection.
    let request = unsafe { sender.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
    assert!(sender.test(request).unwrap().is_none());
    drop(receiver);
    let failure = within_seconds(|| sender.test(request).err());
    assert!(failure.text.contains("closed the connection"), "{failure}");
    drop(sender);
}

#[test]
fn a_sender_that_ends_in_a_message_is_an_error() {
    let network = network(vec![loopback(1)], None);
    let (mut sender, mut receiver) = connected(&network);
    let data = vec![1u8; 64 << 20];
    let mut place = vec![0u8; 64 << 20];
    // SAFETY: the data outlive the connection.
    let (sent, received) = unsafe {
        let sent = sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
        (sent, receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap())
    };
    for _ in 0..20 {
        assert!(sender.test(sent).unwrap().is_none());
        assert!(receiver.test(received).unwrap().is_none());
    }
    drop(sender);
    let failure = within_seconds(|| receiver.test(received).err());
    assert!(failure.text.contains("closed the connection"), "{failure}");
}

#[test]
fn what_was_sent_comes_also_after_the_sender_has_ended() {
    let network = network(vec![loopback(1)], None);
    let (mut sender, mut receiver) = connected(&network);
    let sizes: Vec<usize> = (0..40).map(|number| number * 100).collect();
    send_all(sender.as_mut(), &sizes, 1).unwrap();
    drop(sender);
    receive_all(receiver.as_mut(), &sizes, 4, &mut Chance(3)).unwrap();
}

#[test]
fn what_has_come_is_done_also_after_the_receiver_has_ended() {
    let network = network(vec![loopback(1)], None);
    for _ in 0..20 {
        let (mut sender, mut receiver) = connected(&network);
        let data = vec![1u8; 64 << 10];
        let mut place = vec![0u8; 64 << 10];
        // SAFETY: both outlive the connection.
        let (sent, received) = unsafe {
            let received = receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap();
            (sender.send(data.as_ptr(), data.len()).unwrap().unwrap(), received)
        };
        let until = Instant::now() + Duration::from_secs(6);
        while receiver.test(received).unwrap().is_none() {
            assert!(Instant::now() < until, "nothing after 6 s");
        }
        drop(receiver);
        assert_eq!(within_seconds(|| sender.test(sent).unwrap()), 64 << 10);
    }
}

#[test]
fn who_receives_long_after_the_sender_has_ended_gets_everything() {
    let network = network(vec![loopback(1)], None);
    let mut pairs: Vec<_> = (0..8).map(|_| connected(&network)).collect();
    let mut place = [0u8; 100];
    let mut post = |receiver: &mut Box<dyn Receiver>| {
        // SAFETY: the place outlives the connection.
        unsafe { receiver.receive(place.as_mut_ptr(), place.len()) }.unwrap().unwrap()
    };
    let mut first = Vec::new();
    for (before, (_, receiver)) in pairs.iter_mut().enumerate() {
        // However often it has asked before, it finds both messages and the end at once.
        let request = post(receiver);
        (0..before).for_each(|_| assert_eq!(receiver.test(request).unwrap(), None));
        first.push(request);
    }
    let mut receivers = Vec::new();
    for (mut sender, receiver) in pairs {
        send_all(sender.as_mut(), &[100, 100], 1).unwrap();
        receivers.push(receiver);
    }
    // Longer than a sender that has ended waits for acknowledgements.
    thread::sleep(Duration::from_millis(5500));
    for (mut receiver, first) in receivers.into_iter().zip(first) {
        assert_eq!(within_seconds(|| receiver.test(first).unwrap()), 100);
        let second = post(&mut receiver);
        assert_eq!(within_seconds(|| receiver.test(second).unwrap()), 100);
    }
}

/// Lets connections through to somewhere, until they are cut.
struct Between {
    at: std::net::SocketAddr,
    through: Arc<Mutex<Vec<TcpStream>>>,
}

impl Between {
    fn new(to: std::net::SocketAddr) -> Between {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = door.local_addr().unwrap();
        let through: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let list = through.clone();
        thread::spawn(move || {
            for one in door.incoming() {
                let (one, other) = (one.unwrap(), TcpStream::connect(to).unwrap());
                for (mut from, mut to) in [
                    (one.try_clone().unwrap(), other.try_clone().unwrap()),
                    (other.try_clone().unwrap(), one.try_clone().unwrap()),
                ] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                list.lock().unwrap().extend([one, other]);
            }
        });
        Between { at, through }
    }

    fn cut(&self) {
        for stream in self.through.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn paths_that_are_lost_while_nothing_is_sent_come_back() {
    let network = network(vec![loopback(1)], None);
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let between = Between::new(address(&handle));
    handle[30..32].copy_from_slice(&between.at.port().to_le_bytes());
    let mut sender = within_seconds(|| network.connect(0, &mut handle).unwrap());
    let mut receiver = within_seconds(|| listener.accept().unwrap());
    let (data, mut place) = ([7u8; 100], [0u8; 100]);
    for wait in [Duration::ZERO, Duration::from_secs(21)] {
        // SAFETY: both outlive the connection.
        let received =
            unsafe { receiver.receive(place.as_mut_ptr(), place.len()) }.unwrap().unwrap();
        // Longer than a connection may be without a path.
        let since = Instant::now();
        while since.elapsed() < wait {
            assert!(receiver.test(received).unwrap().is_none());
            thread::sleep(Duration::from_millis(1));
        }
        if !wait.is_zero() {
            between.cut();
        }
        // SAFETY: as above.
        unsafe { sender.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
        assert_eq!(within_seconds(|| receiver.test(received).unwrap()), 100);
        thread::sleep(Duration::from_millis(100));
        between.cut();
    }
}

#[test]
fn a_message_longer_than_its_place_is_an_error() {
    let network = network(vec![loopback(1)], None);
    for bytes in [100, 1 << 20] {
        let (mut sender, mut receiver) = connected(&network);
        let data = vec![1u8; bytes];
        let mut place = vec![0u8; bytes - 1];
        // SAFETY: the data outlive the connection.
        let received = unsafe {
            sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
            receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap()
        };
        let failure = within_seconds(|| receiver.test(received).err());
        assert!(failure.text.contains("the two sides disagree"), "{failure}");
        assert!(place.iter().all(|byte| *byte == 0));
    }
}

/// Where a handle says its first listener is (`handle.rs`).
fn address(handle: &[u8; 128]) -> std::net::SocketAddr {
    let port = u16::from_le_bytes([handle[30], handle[31]]);
    (Ipv4Addr::new(handle[32], handle[33], handle[34], handle[35]), port).into()
}

/// A hello for path 0 of 1 (`frame.rs`), with the handle's secret and listener.
fn hello(handle: &[u8; 128]) -> [u8; 48] {
    let mut hello = [0; 48];
    hello[..3].copy_from_slice(&[0x62, 0x7b, 1]);
    hello[8..32].copy_from_slice(&handle[4..28]);
    hello[34] = 1;
    hello
}

#[test]
fn strangers_are_not_let_in() {
    let network = network(vec![loopback(1)], None);
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let right = hello(&handle);
    let altered = |at: usize| {
        let mut other = right;
        other[at] ^= 1;
        other.to_vec()
    };
    // Another mark, version, secret, number of paths; noise; nothing more than a beginning.
    let strangers = [
        altered(0),
        altered(2),
        altered(8),
        altered(23),
        altered(34),
        vec![7; 48],
        right[..20].to_vec(),
    ];
    for said in strangers {
        let mut stranger = TcpStream::connect(address(&handle)).unwrap();
        stranger.write_all(&said).unwrap();
        stranger.shutdown(Shutdown::Write).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert_eq!(answer, [], "{said:?}");
        assert!(listener.accept().unwrap().is_none());
    }
    // A listener that is not there.
    let mut stranger = TcpStream::connect(address(&handle)).unwrap();
    stranger.write_all(&altered(24)).unwrap();
    let mut answer = [0; 8];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x62, 0x7b, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn a_path_that_says_what_cannot_be_is_an_error() {
    // Noise; kind 9; chunk 1 of 1; chunks of 1 byte; a message longer than its place.
    let chunk = |message: u64, total: u64, chunk: u32, index: u32| {
        let mut header = vec![0x62, 0x7b, 1, 0];
        header.extend(index.to_le_bytes());
        header.extend(message.to_le_bytes());
        header.extend(total.to_le_bytes());
        header.extend(chunk.to_le_bytes());
        header.extend([0; 4]);
        header
    };
    let wrong = [
        vec![1; 32],
        [&[0x62, 0x7b, 9][..], &[0; 29]].concat(),
        chunk(0, 100, 1 << 14, 1),
        chunk(0, 100, 1, 0),
        chunk(0, u64::MAX, 1 << 14, 0),
        chunk(0, 101, 1 << 14, 0),
    ];
    let network = network(vec![loopback(1)], None);
    for said in wrong {
        let mut handle = [0; 128];
        let mut listener = network.listen(0, &mut handle).unwrap();
        let mut guest = TcpStream::connect(address(&handle)).unwrap();
        guest.write_all(&[&hello(&handle)[..], &said].concat()).unwrap();
        let mut receiver = within_seconds(|| listener.accept().unwrap());
        let mut place = [0u8; 100];
        // SAFETY: the place outlives the connection.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), place.len()) };
        let failure = match request {
            Err(failure) => failure,
            Ok(request) => within_seconds(|| receiver.test(request.unwrap()).err()),
        };
        assert!(!failure.text.is_empty(), "{said:?}");
        assert_eq!(place, [0; 100], "{said:?}");
    }
}
