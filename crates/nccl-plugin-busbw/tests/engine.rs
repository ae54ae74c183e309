//! The engine's threads move long messages, and sleep otherwise. In a process of its own.
//! Not how fast that is (bench/).
#![allow(clippy::unwrap_used)]

mod loopback;

use std::{thread, time::Duration};

use loopback::{Worked, connected, exchange, lo, over, soon};

#[test]
fn threads_move_long_messages_and_sleep_otherwise() {
    let network = over(vec![lo(1)], 2, None);
    let (mut sender, mut receiver) = connected(&network);
    let mut movers = ["busbw-mover-0", "busbw-mover-1"].map(Worked::of);
    let mut worked = || movers.iter_mut().map(Worked::so_far).sum::<u64>();
    // Whoever calls moves short ones.
    (0..1000).for_each(|_| exchange(sender.as_mut(), receiver.as_mut(), &[7; 1000]));
    assert!(worked() < 5, "{} hundredths of a second for short messages", worked());
    soon(|| {
        exchange(sender.as_mut(), receiver.as_mut(), &vec![7; 16 << 20]);
        (worked() >= 10).then_some(())
    });
    // Both ends are there still.
    let before = worked();
    thread::sleep(Duration::from_secs(1));
    let idle = worked() - before;
    assert!(idle < 10, "{idle} hundredths of a second in one second without messages");
}
