//! The engine's threads move long messages, and whoever calls moves short ones. In a process of its own.
//! Not how fast that is (bench/), nor that the threads sleep otherwise (`multipath::engine`).
#![allow(clippy::unwrap_used)]

mod loopback;

use loopback::{Sleeps, connected, exchange, lo, over, soon};

#[test]
fn threads_move_long_messages_and_no_short_ones() {
    let network = over(vec![lo(1)], 2, None);
    let (mut sender, mut receiver) = connected(&network);
    let mut movers = ["busbw-mover-0", "busbw-mover-1"].map(Sleeps::of);
    let mut slept = || movers.iter_mut().map(Sleeps::count).sum::<u64>();
    // Each has slept at least once, or is about to.
    let before = slept();
    (0..1000).for_each(|_| exchange(sender.as_mut(), receiver.as_mut(), &[7; 1000]));
    let short = slept() - before;
    assert!(short < 10, "threads were called {short} times for short messages");
    let before = slept();
    soon(|| {
        exchange(sender.as_mut(), receiver.as_mut(), &vec![7; 16 << 20]);
        (slept() - before >= 10).then_some(())
    });
}
