//! The file that says what paths have done: against what was sent over them, over loopback.
//! Not its form (`nccl_plugin_abi::net_stats`).
#![allow(clippy::unwrap_used)]

mod loopback;

use std::{
    fs,
    path::Path,
    thread::yield_now,
    time::{Duration, Instant},
};

use loopback::{connected, exchange, lo, over};
use nccl_plugin_abi::net_stats::{NetStats, PathState};
use nccl_plugin_busbw::{
    multipath::{Multipath, fault::Fault},
    network::Receiver,
};

const LIMIT: Duration = Duration::from_secs(20);

fn network(file: &Path, fault: Option<Fault>) -> Multipath {
    over(vec![lo(1)], 0, fault).written_to(Some(file.to_owned()))
}

/// The file once it says what is waited for.
fn read(file: &Path, is_there: impl Fn(&NetStats) -> bool) -> NetStats {
    let until = Instant::now() + LIMIT;
    loop {
        // There is never half a file.
        if let Ok(text) = fs::read(file) {
            let stats: NetStats = serde_json::from_slice(&text).unwrap();
            stats.check().unwrap();
            if is_there(&stats) {
                return stats;
            }
        }
        assert!(Instant::now() < until, "it does not come in {}", file.display());
        yield_now();
    }
}

fn closed(stats: &NetStats, connections: usize) -> bool {
    stats.connections.len() == connections && stats.connections.iter().all(|one| one.closed)
}

#[test]
fn what_was_sent_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats");
    let network = network(&file, None);
    let (mut sender, mut receiver) = connected(&network);
    // At once. While it goes on: `multipath::manager::thread`.
    let begun = read(&file, |stats| !stats.connections.is_empty());
    assert_eq!((begun.pid, begun.interfaces.len()), (std::process::id(), 1));
    for (bytes, times) in [(100, 10), (1 << 20, 20)] {
        (0..times).for_each(|_| exchange(sender.as_mut(), receiver.as_mut(), &vec![7; bytes]));
    }
    let sent = (10 * 100 + (20 << 20)) as u64;
    let under_way = network.counted().unwrap();
    assert!(under_way.totals().bytes == sent && !under_way.connections[0].closed);
    let up = |path: &nccl_plugin_abi::net_stats::NetPath| path.state == PathState::Up;
    assert!(under_way.connections[0].paths.iter().all(up), "{under_way:?}");
    drop(sender);
    let stats = read(&file, |stats| closed(stats, 1));
    let [one] = stats.connections.as_slice() else { panic!("{stats:?}") };
    assert_eq!((stats.totals().bytes, one.paths.len(), &one.broken), (sent, 4, &None));
    let timed: u64 = one.paths.iter().map(|path| path.timed_bytes).sum();
    assert!((1 << 20..=sent).contains(&timed), "{stats:?}");
    for path in one.paths.iter().filter(|path| path.timed_bytes > 0) {
        assert!(path.timed_us > 0 && path.rate().unwrap() > 0.0, "{path:?}");
        assert!(path.rtt_us.is_some() && path.segments > 0, "{path:?}");
        assert!(path.local.unwrap().port() > 0, "{path:?}");
        assert_eq!((path.lost, path.again), (0, 0), "{path:?}");
    }
    drop(receiver);
}

#[test]
fn lost_paths_are_counted_with_what_they_had() {
    const BYTES: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats");
    let network = network(&file, Some(Fault { every: Duration::from_millis(20) }));
    let (mut sender, mut receiver) = connected(&network);
    let data = vec![7u8; BYTES];
    let mut places = [vec![0u8; BYTES], vec![0u8; BYTES]];
    // One more than is sent, so that there is always one to ask for: else nobody acknowledges again what was lost.
    let mut receive = |receiver: &mut dyn Receiver, message: usize| {
        // SAFETY: it lives until the receiver has ended.
        unsafe { receiver.receive(places[message % 2].as_mut_ptr(), BYTES) }.unwrap().unwrap()
    };
    let mut received = receive(receiver.as_mut(), 0);
    let mut messages = 0;
    let totals = || network.counted().unwrap().totals();
    // Some of them with chunks in flight.
    while totals().lost < 10 || totals().again == 0 {
        // SAFETY: as above.
        let sent = unsafe { sender.send(data.as_ptr(), BYTES) }.unwrap().unwrap();
        let mut next = None;
        let until = Instant::now() + LIMIT;
        while sender.test(sent).unwrap().is_none() || next.is_none() {
            assert!(Instant::now() < until, "a message does not come");
            match next {
                Some(next) => assert!(receiver.test(next).unwrap().is_none()),
                None if receiver.test(received).unwrap().is_some() => {
                    next = Some(receive(receiver.as_mut(), messages + 1));
                }
                None => {}
            }
        }
        received = next.unwrap();
        messages += 1;
    }
    drop(sender);
    let stats = read(&file, |stats| closed(stats, 1));
    let all = stats.totals();
    // The four paths may be lost as the connection ends, which is no loss.
    assert!(all.lost >= 6 && all.again > 0, "{stats:?}");
    // What comes by two paths counts once.
    let sent = (messages * BYTES) as u64;
    assert_eq!(all.bytes, sent, "{stats:?}");
    // Over all of the connections that a path has had.
    assert!(all.segments * 65_536 >= sent, "{stats:?}");
    drop(receiver);
}

#[test]
fn connections_that_come_and_go_stay_few() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats");
    let network = network(&file, None);
    for _ in 0..300 {
        let (mut sender, mut receiver) = connected(&network);
        exchange(sender.as_mut(), receiver.as_mut(), &[7; 1000]);
    }
    let stats = read(&file, |stats| stats.totals().connections == 300 && closed(stats, 256));
    assert_eq!(stats.others.unwrap().connections, 44);
}

#[test]
fn a_file_that_cannot_be_written_costs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    let network = network(&folder.path().join("missing/stats"), None);
    let (mut sender, mut receiver) = connected(&network);
    (0..3).for_each(|_| exchange(sender.as_mut(), receiver.as_mut(), &vec![7; 1 << 20]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
