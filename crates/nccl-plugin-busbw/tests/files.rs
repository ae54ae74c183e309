//! No file can be opened any more: connections wait to be accepted, and the connection manager waits without working. In a process of its own.
//! Not what is sent.
#![allow(clippy::unwrap_used)]

mod loopback;

use std::{
    fs::File,
    io::Write,
    net::TcpStream,
    os::fd::{AsRawFd, OwnedFd},
    thread,
    time::Duration,
};

use nccl_plugin_busbw::network::Network;
use rustix::{
    net::{AddressFamily, SocketType, connect, socket},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

#[test]
fn connections_wait_until_files_can_be_opened() {
    let network = loopback::network();
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let mut manager = loopback::Worked::of("busbw-manager");
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();

    let before = getrlimit(Resource::Nofile);
    let most = File::open("/dev/null").unwrap().as_raw_fd().max(client.as_raw_fd()) as u64 + 1;
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..before }).unwrap();
    let full: Vec<OwnedFd> =
        std::iter::from_fn(|| File::open("/dev/null").ok()).map(OwnedFd::from).collect();
    connect(&client, &loopback::address(&handle)).unwrap();
    let began = manager.so_far();
    thread::sleep(Duration::from_secs(1));
    let worked = manager.so_far() - began;
    setrlimit(Resource::Nofile, before).unwrap();
    drop(full);
    assert!(worked < 25, "{worked} hundredths of a second in one second");

    let mut client = TcpStream::from(client);
    client.write_all(&loopback::hello(&handle)).unwrap();
    loopback::soon(|| listener.accept().unwrap());
}
