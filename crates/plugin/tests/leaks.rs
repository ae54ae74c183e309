//! A thousand connections, one after the other: no file and no thread is left. In a process of its own.
//! Not what goes over them.
#![allow(clippy::unwrap_used)]

use std::{
    net::{IpAddr, Ipv4Addr},
    thread,
    time::{Duration, Instant},
};

use plugin::{
    devices::{Device, Interface},
    multipath::Multipath,
    network::Network,
};

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn nothing_is_left() {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let interface =
        Interface { name: "lo".to_owned(), address, prefix: 8, speed: None, path: None };
    let device = Device {
        name: c"busbw".to_owned(),
        path: None,
        guid: 0,
        speed: 10_000,
        interfaces: vec![interface],
    };
    let network = Multipath::new(vec![device], None);
    let mut before = None;
    for cycle in 0..1000 {
        let mut handle = [0; 128];
        let mut listener = network.listen(0, &mut handle).unwrap();
        if cycle % 7 == 0 {
            // Nobody comes.
            continue;
        }
        let until = Instant::now() + Duration::from_secs(10);
        let (mut sender, mut receiver) = (None, None);
        while sender.is_none() || receiver.is_none() {
            assert!(Instant::now() < until, "no connection in cycle {cycle}");
            sender = sender.or_else(|| network.connect(0, &mut handle).unwrap());
            receiver = receiver.or_else(|| listener.accept().unwrap());
        }
        drop(listener);
        let (mut sender, mut receiver) = (sender.unwrap(), receiver.unwrap());
        let data = [7u8; 100];
        let mut place = [0u8; 100];
        // SAFETY: both outlive the requests.
        let request = unsafe {
            sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
            receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap()
        };
        while receiver.test(request).unwrap().is_none() {
            assert!(Instant::now() < until, "no message in cycle {cycle}");
        }
        assert_eq!(place, data);
        if cycle % 2 == 0 {
            drop(receiver);
            drop(sender);
        }
        if cycle == 10 {
            thread::sleep(Duration::from_millis(500));
            before = Some((count("/proc/self/fd"), count("/proc/self/task")));
        }
    }
    let (files, threads) = before.unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while count("/proc/self/fd") > files || count("/proc/self/task") > threads {
        let now = (count("/proc/self/fd"), count("/proc/self/task"));
        assert!(Instant::now() < until, "{now:?} files and threads, {files} and {threads} before");
        thread::sleep(Duration::from_millis(50));
    }
}
