//! What is asked of a network.
//! Not the calls (`table`), nor the messages (`flow`).

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::ExitCode,
    ptr::null_mut,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;

use crate::{
    flow::{Chance, Flow, GUARD, closed, flows, message},
    peer::{Peer, patiently},
    table::{Pointer, Table, tables},
};

type Case = (&'static str, fn(Table));

/// With every version.
const CASES: [Case; 5] = [
    ("describes its devices", devices),
    ("refuses invalid arguments", mistakes),
    ("carries messages of all sizes, one thread", sizes),
    ("accepts out of order", out_of_order),
    ("reports a message that is longer than its receive", too_long),
];
/// With one version: what is the same behind all of them, and takes its time.
const LONGER: [Case; 5] = [
    ("carries messages of all sizes, a thread an end", threads),
    ("refuses connections that are not the peer's", foreign_connections),
    ("closes with requests open", closes),
    ("reports a receiver that was killed", receiver_killed),
    ("leaves nothing after 1000 connections", nothing_left),
];
/// It takes as long as a connection may be without a path, so it runs beside the others, all but the last.
const BESIDE: Case = ("reports a sender that was killed", sender_killed);

/// All of it, a line each.
pub fn all() -> ExitCode {
    let newest = tables()[4];
    let beside = thread::spawn(|| (passes(tables()[4], BESIDE), rustix::thread::gettid()));
    let every = tables().into_iter().flat_map(|table| CASES.map(|case| (table, case)));
    let [longer @ .., last] = LONGER;
    let cases = every.chain(longer.map(|case| (newest, case)));
    let failed = cases.filter(|(table, case)| !passes(*table, *case)).count();
    let beside = beside.join().is_ok_and(|(passes, thread)| {
        until_left(thread);
        passes
    });
    let last = passes(newest, last);
    if failed == 0 && beside && last { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A thread that was joined may be among the process's for a moment more: the kernel wakes who joins before it removes it.
fn until_left(thread: Pid) {
    let task = format!("/proc/self/task/{}", thread.as_raw_nonzero());
    let until = Instant::now() + Duration::from_secs(10);
    while Path::new(&task).exists() && Instant::now() < until {
        thread::yield_now();
    }
}

/// Whether a case passes, which a line says.
fn passes(table: Table, (name, case): Case) -> bool {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        table.init().unwrap();
        case(table);
    }));
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    let seconds = began.elapsed().as_secs_f64();
    println!("  {word:6} {:3} {name} ({seconds:.1} s)", table.version());
    outcome.is_ok()
}

fn devices(table: Table) {
    let count = table.devices().unwrap();
    assert!(count >= 1, "{count} devices");
    for number in 0..count {
        let device = table.device(number).unwrap();
        assert!(!device.name.is_empty() && device.speed > 0, "{device:?}");
        assert_eq!((device.max_receives, device.kinds), (1, 1), "{device:?}");
    }
}

fn mistakes(table: Table) {
    let count = table.devices().unwrap();
    for number in [-1, count, i32::MAX] {
        assert!(table.device(number).is_err(), "device {number}");
        assert!(table.listen(number).is_err(), "device {number}");
        assert!(table.connect(number, &mut [0; 128]).is_err(), "device {number}");
    }
    assert!(table.connect(0, &mut [0; 128]).is_err(), "a handle of zeros");
    assert!(table.connect(0, &mut [0xa5; 128]).is_err(), "a handle of nonsense");
    assert!(table.accept(null_mut()).is_err());
    assert!(table.test(null_mut()).is_err());
    // SAFETY: nothing may happen.
    unsafe { assert!(table.send(null_mut(), null_mut(), 0).is_err()) };
    // SAFETY: nothing may happen.
    unsafe { assert!(table.receive(null_mut(), null_mut(), 0).is_err()) };
    table.close_send(null_mut()).unwrap();
    table.close_receive(null_mut()).unwrap();
    table.close_listen(null_mut()).unwrap();
    let (sends, receives) = table.pair().unwrap();
    let mut data = [0; 8];
    // SAFETY: nothing may happen: the wrong ends.
    unsafe { assert!(table.send(receives, data.as_ptr(), 8).is_err()) };
    // SAFETY: nothing may happen: the wrong ends.
    unsafe { assert!(table.receive(sends, data.as_mut_ptr(), 8).is_err()) };
    // As many as no int tells.
    let most = i32::MAX as usize + 1;
    // SAFETY: nothing may happen.
    unsafe { assert!(table.send(sends, data.as_ptr(), most).is_err()) };
    // SAFETY: nothing may happen.
    unsafe { assert!(table.receive(receives, data.as_mut_ptr(), most).is_err()) };
    table.register(sends, &mut data).unwrap();
    table.close_send(sends).unwrap();
    table.close_receive(receives).unwrap();
}

/// Around every size at which something changes, and at random.
fn many(table: Table, most: usize) -> Vec<usize> {
    let edges =
        [0, 1, 7, 127, 128, 129, 4096, 8191, 8192, 8193, 65535, 65536, 65537, 1 << 20, most];
    let mut chance = Chance(table.version().len() as u64 + most as u64);
    edges.into_iter().chain((0..60).map(|_| chance.size(most))).collect()
}

fn sizes(table: Table) {
    let sizes = many(table, 4 << 20);
    let (mut sends, mut receives) = flows(table, &sizes);
    let until = Instant::now() + Duration::from_secs(60);
    while sends.done < sizes.len() || receives.done < sizes.len() {
        sends.step().unwrap();
        receives.step().unwrap();
        assert!(Instant::now() < until, "{} sent, {} received", sends.done, receives.done);
    }
    closed(table, &sends, &receives);
}

fn threads(table: Table) {
    let sizes = many(table, 20 << 20);
    let (mut sends, mut receives) = flows(table, &sizes);
    thread::scope(|scope| {
        scope.spawn(|| sends.until(sizes.len()));
        receives.until(sizes.len());
    });
    closed(table, &sends, &receives);
}

fn out_of_order(table: Table) {
    let listeners: Vec<_> = (0..3).map(|_| table.listen(0).unwrap()).collect();
    let mut handles: Vec<_> = listeners.iter().map(|(handle, _)| *handle).collect();
    let mut made = [const { (None, None) }; 3];
    // Those that listened last are asked for first.
    let until = Instant::now() + Duration::from_secs(20);
    while made.iter().any(|(sends, receives): &(Option<Pointer>, Option<Pointer>)| {
        sends.is_none() || receives.is_none()
    }) {
        for at in (0..3).rev() {
            if made[at].0.is_none() {
                made[at].0 = table.connect(0, &mut handles[at]).unwrap();
            }
            let accepts = 2 - at;
            if made[accepts].1.is_none() {
                made[accepts].1 = table.accept(listeners[accepts].1).unwrap();
            }
        }
        assert!(Instant::now() < until, "no connection after 20 s");
    }
    for (at, (sends, receives)) in made.into_iter().enumerate() {
        table.close_listen(listeners[at].1).unwrap();
        let sizes = vec![8 + at; 1];
        let mut sends = Flow::of(table, sends.unwrap(), true, sizes.clone());
        let mut receives = Flow::of(table, receives.unwrap(), false, sizes);
        while receives.done < 10 {
            sends.step().unwrap();
            receives.step().unwrap();
        }
        closed(table, &sends, &receives);
    }
}

/// Ports of IPv4 on which this process listens.
fn ports() -> Vec<u16> {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let own: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours =
            words.get(3) == Some(&"0A") && own.contains(&format!("socket:[{}]", words[9]));
        is_ours.then(|| u16::from_str_radix(words[1].split(':').nth(1).unwrap(), 16).unwrap())
    });
    listening.collect()
}

fn foreign_connections(table: Table) {
    let (mut handle, listener) = table.listen(0).unwrap();
    let ports = ports();
    assert!(!ports.is_empty(), "it listens nowhere");
    let foreign = |port| TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    let silent: Vec<TcpStream> = ports.iter().map(|&port| foreign(port)).collect();
    let mut loud: Vec<TcpStream> = ports.iter().map(|&port| foreign(port)).collect();
    for stream in &mut loud {
        stream.write_all(&[0x5a; 200]).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    // Those that send nonsense are closed.
    let until = Instant::now() + Duration::from_secs(20);
    while !loud.is_empty() {
        assert!(table.accept(listener).unwrap().is_none(), "a foreign connection was accepted");
        loud.retain_mut(|stream| match stream.read(&mut [0; 64]) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                )
            }
        });
        assert!(Instant::now() < until, "a foreign connection stays open");
    }
    // The peer is accepted beside those that send nothing.
    let mut receives = None;
    let sends = patiently(|| {
        if receives.is_none() {
            receives = table.accept(listener).unwrap();
        }
        table.connect(0, &mut handle).unwrap()
    });
    let receives = receives.unwrap_or_else(|| patiently(|| table.accept(listener).unwrap()));
    table.close_listen(listener).unwrap();
    let mut sends = Flow::new(table, sends, true, 100_000);
    let mut receives = Flow::new(table, receives, false, 100_000);
    while receives.done < 10 {
        sends.step().unwrap();
        receives.step().unwrap();
    }
    closed(table, &sends, &receives);
    drop(silent);
}

fn too_long(table: Table) {
    for (sent, place) in [(9, 8), (200, 100), (300_000, 200_000)] {
        let (sends, receives) = table.pair().unwrap();
        let (data, mut room) = (message(0, sent), vec![0xee; place + GUARD]);
        // SAFETY: both stay until the connection is closed.
        let (sending, receiving) = unsafe {
            (
                table.send(sends, data.as_ptr(), sent).unwrap().unwrap(),
                table.receive(receives, room.as_mut_ptr(), place).unwrap().unwrap(),
            )
        };
        let until = Instant::now() + Duration::from_secs(10);
        let mut sending = Some(sending);
        loop {
            // How the sender learns of it is its own matter.
            if sending.is_some_and(|request| !matches!(table.test(request), Ok(None))) {
                sending = None;
            }
            match table.test(receiving) {
                Ok(None) => assert!(Instant::now() < until, "nothing is said of it"),
                Ok(Some(bytes)) => panic!("{bytes} bytes came where {sent} were sent"),
                Err(_) => break,
            }
        }
        table.close_send(sends).unwrap();
        table.close_receive(receives).unwrap();
        assert!(room[place..].iter().all(|&byte| byte == 0xee), "bytes beyond the place");
    }
}

fn closes(table: Table) {
    for receiver_first in [true, false] {
        let (mut sends, mut receives) = flows(table, &[20 << 20]);
        sends.step().unwrap();
        receives.step().unwrap();
        for _ in 0..50 {
            sends.step().unwrap();
        }
        if receiver_first {
            table.close_receive(receives.connection).unwrap();
            table.close_send(sends.connection).unwrap();
        } else {
            closed(table, &sends, &receives);
        }
    }
}

/// Our end learns that the other process is gone. How soon is tested in virtual time (`busbw_multipath`).
fn killed(table: Table, we_send: bool) {
    let mut peer = Peer::new(if we_send { "receives" } else { "sends" });
    let connection = peer.connected(table, we_send);
    let mut flow = Flow::new(table, connection, we_send, 1 << 20);
    flow.until(20);
    peer.process.kill().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while flow.step().is_ok() {
        assert!(Instant::now() < until, "no error after 60 s");
    }
    let close = if we_send { Table::close_send } else { Table::close_receive };
    close(table, connection).unwrap();
}

fn receiver_killed(table: Table) {
    killed(table, true);
}

fn sender_killed(table: Table) {
    killed(table, false);
}

fn nothing_left(table: Table) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let here = || (count("fd"), count("task"));
    let before = here();
    for _ in 0..1000 {
        let (mut sends, mut receives) = flows(table, &[70_000]);
        while receives.done < 1 {
            sends.step().unwrap();
            receives.step().unwrap();
        }
        closed(table, &sends, &receives);
    }
    // What ends by itself does so soon.
    let until = Instant::now() + Duration::from_secs(10);
    while here() != before && Instant::now() < until {
        thread::yield_now();
    }
    assert_eq!(here(), before, "descriptors and threads");
}
