//! Latency and bandwidth of messages between two ranks of this host, in the loops and windows of OSU's osu_latency,
//! osu_bw and osu_bibw. `cargo bench -p busbw-shm --bench messages [-- TEST [SIZE …]]`. Not a verdict.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::{sync::Arc, time::Instant};

use busbw_shm::{Address, Buffer, Buffers, Control, Mailboxes, Messages, Wait, WaitPolicy};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Bytes of the largest message.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Messages in a window.
const MESSAGES_PER_WINDOW: usize = 64;

/// What each side sends, and where it receives.
const SEND_ADDRESS: Address = Address { buffer: Buffer::Send, offset: 0 };
const RECV_ADDRESS: Address = Address { buffer: Buffer::Recv, offset: 0 };

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Latency,
    Bw,
    Bibw,
}

impl Test {
    const ALL: [(Test, &str); 3] =
        [(Test::Latency, "latency"), (Test::Bw, "bw"), (Test::Bibw, "bibw")];

    /// Iterations at `size`, those to skip first; OSU's.
    fn iterations(self, size: usize) -> (usize, usize) {
        match (self, size > 8192) {
            (Test::Latency, false) => (10_000, 100),
            (Test::Latency, true) => (1000, 10),
            (_, false) => (100, 10),
            (_, true) => (20, 2),
        }
    }

    /// One iteration on one side.
    fn iterate(self, ours: &mut Messages, size: usize) -> Result<(), Wait> {
        let (first, peer) = (ours.rank() == 0, 1 - ours.rank());
        if self == Test::Latency {
            return if first {
                ours.send(peer, SEND_ADDRESS, size)?;
                ours.recv(peer, RECV_ADDRESS, size)
            } else {
                ours.recv(peer, RECV_ADDRESS, size)?;
                ours.send(peer, SEND_ADDRESS, size)
            };
        }
        if !first || self == Test::Bibw {
            (0..MESSAGES_PER_WINDOW).try_for_each(|_| ours.start_recv(peer, RECV_ADDRESS, size))?;
        }
        if first || self == Test::Bibw {
            (0..MESSAGES_PER_WINDOW).try_for_each(|_| ours.start_send(peer, SEND_ADDRESS, size))?;
        }
        ours.complete()?;
        if first { ours.recv(peer, RECV_ADDRESS, 1) } else { ours.send(peer, SEND_ADDRESS, 1) }
    }

    /// Microseconds one way, or MB/s, from the seconds that all iterations took.
    fn figure(self, size: usize, iterations: usize, seconds: f64) -> f64 {
        let windows = (size * MESSAGES_PER_WINDOW * iterations) as f64 / 1e6 / seconds;
        match self {
            Test::Latency => seconds * 1e6 / iterations as f64 / 2.0,
            Test::Bw => windows,
            Test::Bibw => 2.0 * windows,
        }
    }
}

/// Runs all `sizes` on one side, and prints them on the first.
fn run(ours: &mut Messages, test: Test, name: &str, sizes: &[usize]) -> Result<(), Wait> {
    let nothing = Address { buffer: Buffer::Recv, offset: 0 };
    for &size in sizes {
        let (iterations, skipped) = test.iterations(size);
        let peer = 1 - ours.rank();
        ours.start_send(peer, nothing, 0)?;
        ours.recv(peer, nothing, 0)?;
        ours.complete()?;
        let mut start = Instant::now();
        for iteration in 0..iterations + skipped {
            if iteration == skipped {
                start = Instant::now();
            }
            test.iterate(ours, size)?;
        }
        let figure = test.figure(size, iterations, start.elapsed().as_secs_f64());
        if ours.rank() == 0 {
            println!("{name} {size} {figure:.3}");
        }
    }
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let wanted = |name: &str| words.first().is_none_or(|word| word == name);
    let mut sizes: Vec<usize> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes =
            (0..).map(|power| 1 << power).take_while(|size| *size <= MAX_MESSAGE_BYTES).collect();
    }
    let most = sizes.iter().copied().max().unwrap_or(1);
    let control = Control::map(Control::create(2).unwrap(), 2).unwrap();
    let mailboxes = Mailboxes::map(Mailboxes::create(2).unwrap(), 2).unwrap();
    let fds = [0, 1].map(|rank| Buffers::create(rank, most, false).unwrap());
    let buffers = Buffers::map(&fds, most, false).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (control, mailboxes) = (Arc::clone(&control), Arc::clone(&mailboxes));
            let (buffers, sizes) = (Arc::clone(&buffers), &sizes);
            scope.spawn(move || {
                let mut cpu = CpuSet::new();
                cpu.set(rank);
                sched_setaffinity(None, &cpu).unwrap();
                let policy = WaitPolicy::new(2, 2);
                let mut ours = Messages::new(&[0, 1], rank, buffers, control, mailboxes, policy);
                ours.touch().unwrap();
                for (test, name) in Test::ALL.into_iter().filter(|(_, name)| wanted(name)) {
                    run(&mut ours, test, name, sizes).unwrap();
                }
            });
        }
    });
}
