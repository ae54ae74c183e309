//! No file can be opened any more: connections wait to be accepted. In a process of its own.
//! Not what is sent, nor how often it is tried meanwhile (`multipath::manager::thread`).
#![allow(clippy::unwrap_used)]

mod loopback;

use std::{
    fs::File,
    io::Write,
    net::TcpStream,
    os::fd::{AsRawFd, OwnedFd},
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
    let mut manager = loopback::Sleeps::of("busbw-manager");
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();

    let before = getrlimit(Resource::Nofile);
    let most = File::open("/dev/null").unwrap().as_raw_fd().max(client.as_raw_fd()) as u64 + 1;
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..before }).unwrap();
    let full: Vec<OwnedFd> =
        std::iter::from_fn(|| File::open("/dev/null").ok()).map(OwnedFd::from).collect();
    let slept = manager.count();
    connect(&client, &loopback::address(&handle)).unwrap();
    // It has tried to accept, twice: now, and when it is time again.
    loopback::soon(|| (manager.count() >= slept + 2).then_some(()));
    setrlimit(Resource::Nofile, before).unwrap();
    drop(full);

    let mut client = TcpStream::from(client);
    client.write_all(&loopback::hello(&handle)).unwrap();
    loopback::soon(|| listener.accept().unwrap());
}
