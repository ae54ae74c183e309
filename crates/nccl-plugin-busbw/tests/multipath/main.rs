//! busbw's own network, both ends in this process, over loopback: messages of all sizes, also while paths break.
//! Not NCCL's tables (`networks`).
#![allow(clippy::unwrap_used)]

mod ends;
#[path = "../loopback/mod.rs"]
mod loopback;
mod refused;

use std::{
    collections::VecDeque,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use loopback::{Between, connected, exchange, lo, meet, network, over};
use nccl_plugin_busbw::{
    devices::Interface,
    multipath::fault::Fault,
    network::{Network, Receiver, Result, Sender},
};

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
                // It has something else to do.
                (0..chance.next(100_000)).for_each(|_| std::hint::spin_loop());
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

/// Messages from one thread to another, moved by them alone, and with threads of the plugin's.
fn pass(interfaces: Vec<Interface>, sizes: Vec<usize>, windows: (usize, usize)) {
    pass_under(None, interfaces, sizes, windows);
}

fn pass_under(
    fault: Option<Fault>,
    interfaces: Vec<Interface>,
    sizes: Vec<usize>,
    windows: (usize, usize),
) {
    for threads in [0, 3] {
        let network = over(interfaces.clone(), threads, fault);
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
}

#[test]
fn sizes_at_every_edge() {
    let chunk = 128 << 10;
    let edges =
        [0, 1, 8191, 8192, 8193, chunk - 1, chunk, chunk + 1, 3 * chunk, 5 * chunk + 17, 20 << 20];
    pass(vec![lo(1)], edges.to_vec(), (1, 1));
    pass(vec![lo(1)], edges.iter().rev().copied().collect(), (32, 32));
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
        pass(vec![lo(1), lo(2)], sizes, windows);
    }
}

#[test]
fn only_small_ones() {
    pass(vec![lo(1)], (0..20_000).map(|number| number % 300).collect(), (32, 32));
}

#[test]
fn paths_that_break_all_the_time() {
    for (seed, millis) in [(1, 2), (2, 5), (3, 20), (4, 50)] {
        let mut chance = Chance(seed);
        let sizes = (0..300).map(|_| chance.next(2_000_000) as usize).collect();
        let fault = Fault { every: Duration::from_millis(millis) };
        pass_under(Some(fault), vec![lo(1), lo(2)], sizes, (8, 4));
    }
}

#[test]
fn small_ones_while_paths_break() {
    let fault = Fault { every: Duration::from_millis(3) };
    let sizes = (0..50_000).map(|number| number % 9000).collect();
    pass_under(Some(fault), vec![lo(1)], sizes, (16, 16));
}

/// What has arrived, and was acknowledged in vain, arrives again, in parts that fit a socket whose owner does not ask.
#[test]
fn paths_break_after_the_last_receive() {
    let fault = Fault { every: Duration::from_millis(5) };
    let network = over(vec![lo(1)], 0, Some(fault));
    let (mut sender, mut receiver) = connected(&network);
    let data = fill(1, 1 << 20);
    (0..1000).for_each(|_| exchange(sender.as_mut(), receiver.as_mut(), &data));
}

/// While nothing is sent, and how soon: `multipath::manager::thread`.
#[test]
fn paths_that_are_all_lost_come_back() {
    let network = network();
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let between = Between::before(&mut handle);
    let (mut sender, mut receiver) = meet(&network, listener.as_mut(), &mut handle);
    for _ in 0..3 {
        exchange(sender.as_mut(), receiver.as_mut(), &[7; 100]);
        between.cut();
    }
}

/// TCP has nothing to complain of, and no other message moves that would show that this path is late.
#[test]
fn what_is_held_up_on_a_path_goes_over_others() {
    let network = network();
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let between = Between::before(&mut handle);
    let (mut sender, mut receiver) = meet(&network, listener.as_mut(), &mut handle);
    let data = fill(1, 4 << 20);
    exchange(sender.as_mut(), receiver.as_mut(), &data);
    between.hold_one_up();
    // TCP itself would hold the path's chunks for ever.
    for message in 2..5 {
        exchange(sender.as_mut(), receiver.as_mut(), &fill(message, 4 << 20));
    }
}
