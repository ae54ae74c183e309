//! A process that exits at once after it has sent something: that comes all the same.
//! Not exits by a signal.
#![allow(clippy::unwrap_used)]

mod loopback;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio, exit},
};

use loopback::{Between, network, soon};
use nccl_plugin_busbw::network::Network;

const HANDLE: &str = "BUSBW_TEST_HANDLE";
const BYTES: usize = 100;
const MESSAGES: u8 = 10;

/// Connects, waits for a line, sends, and exits.
fn child(handle: &str) -> ! {
    let mut handle: [u8; 128] = handle
        .split(',')
        .map(|byte| byte.parse().unwrap())
        .collect::<Vec<u8>>()
        .try_into()
        .unwrap();
    let network = network();
    let mut sender = soon(|| network.connect(0, &mut handle).unwrap());
    println!("\nconnected");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for number in 0..MESSAGES {
        // SAFETY: it is copied.
        let request = unsafe { sender.send([number; BYTES].as_ptr(), BYTES) }.unwrap().unwrap();
        assert_eq!(sender.test(request).unwrap(), Some(BYTES));
    }
    exit(0)
}

#[test]
fn what_was_sent_comes_though_the_process_exits() {
    if let Ok(handle) = env::var(HANDLE) {
        child(&handle);
    }
    let network = network();
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let between = Between::before(&mut handle);
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", "what_was_sent_comes_though_the_process_exits", "--nocapture"])
        .env(HANDLE, handle.map(|byte| byte.to_string()).join(","))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut receiver = soon(|| listener.accept().unwrap());
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "connected"));
    // What it sends is lost with its paths, and must go by others.
    between.cut();
    process.stdin.take().unwrap().write_all(b"send\n").unwrap();
    assert!(soon(|| process.try_wait().unwrap()).success());
    for number in 0..MESSAGES {
        let mut place = [0xff; BYTES];
        // SAFETY: the place is there until the request is done, or the test has failed.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), BYTES) }.unwrap().unwrap();
        soon(|| receiver.test(request).unwrap());
        assert_eq!(place, [number; BYTES]);
    }
}
