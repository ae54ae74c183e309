//! Speed of the reduce and copy kernels on one core, in cache and from memory, for every type and operator.
//! `cargo bench -p busbw-shm --bench kernels [-- ROUNDS]`. Not their results: tests look at those.

use std::{hint::black_box, time::Instant};

use busbw_core::{DataType, ReduceOp};
use busbw_shm::kernel::{self, Source, Store};
use busbw_stats::median;

/// Bytes of a buffer that fits the second-level cache together with two more.
const CACHED_BUFFER_BYTES: usize = 256 << 10;

/// Elements of a buffer in cache, at most.
const MAX_CACHED_ELEMENTS: usize = 64 << 10;

/// Bytes of a buffer that fits no cache.
const UNCACHED_BUFFER_BYTES: usize = 64 << 20;

/// A measured line: seconds for a buffer of results, in cache, then from memory by `Store`, and the
/// same as shares of the speed of an f32 sum measured right before.
#[derive(Default)]
struct Samples {
    cache: Vec<f64>,
    memory: [Vec<f64>; 2],
    shares: [Vec<f64>; 2],
}

/// A page, where buffers that ranks share begin.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page {
    _words: [u64; 512],
}

/// Two sources and two destinations.
struct Memory {
    a: Vec<Page>,
    b: Vec<Page>,
    to: [Vec<Page>; 2],
}

impl Memory {
    fn new() -> Memory {
        // Numbers of every type that neither overflow nor are subnormal.
        let fill = |bits: u64| {
            vec![Page { _words: [bits; 512] }; UNCACHED_BUFFER_BYTES / size_of::<Page>()]
        };
        let a = fill(0x3c3c_3c3c_3c3c_3c3c);
        let b = fill(0x3838_3838_3838_3838);
        Memory { a, b, to: [fill(1), fill(1)] }
    }

    /// Seconds to reduce `bytes` of two sources into the first `destinations`.
    fn reduce(
        &mut self,
        case: (DataType, ReduceOp),
        bytes: usize,
        destinations: usize,
        store: Store,
    ) -> f64 {
        let source = |at: &[Page], scalar| Source { at: at.as_ptr().cast(), scalar };
        let sources = [source(&self.a, 1), source(&self.b, 2)];
        let to = self.to.each_mut().map(|to| to.as_mut_ptr().cast::<u8>());
        let (datatype, op) = case;
        let count = bytes / datatype.bytes();
        let start = Instant::now();
        // SAFETY: every buffer holds at least `bytes` bytes, aligned to a page, and is another one.
        unsafe {
            kernel::reduce(datatype, op, &to[..destinations], black_box(&sources), count, store)
        };
        start.elapsed().as_secs_f64()
    }

    /// Seconds to copy `bytes`.
    fn copy(&mut self, bytes: usize, store: Store) -> f64 {
        let (from, to) = (self.a.as_ptr().cast(), self.to[0].as_mut_ptr().cast());
        let start = Instant::now();
        // SAFETY: both hold at least `bytes` bytes and are two buffers.
        unsafe { kernel::copy(black_box(from), to, bytes, store) };
        start.elapsed().as_secs_f64()
    }
}

/// Seconds of one of many repetitions, by the fastest: interrupts only ever add.
fn in_cache(mut once: impl FnMut() -> f64) -> f64 {
    (0..50).map(|_| once()).fold(f64::INFINITY, f64::min)
}

const STORES: [Store; 2] = [Store::Cached, Store::Streamed];

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(7);
    let mut memory = Memory::new();
    let cases: Vec<(DataType, ReduceOp)> = DataType::ALL
        .into_iter()
        .flat_map(|datatype| ReduceOp::ALL.map(|op| (datatype, op)))
        .collect();
    let mut lines: Vec<Samples> = cases.iter().map(|_| Samples::default()).collect();
    let (mut copies, mut both) = (Samples::default(), Samples::default());
    let float = (DataType::Float, ReduceOp::Sum);
    for _ in 0..rounds {
        let small = CACHED_BUFFER_BYTES;
        copies.cache.push(in_cache(|| memory.copy(small, Store::Cached)) / small as f64);
        both.cache.push(in_cache(|| memory.reduce(float, small, 2, Store::Cached)) / small as f64);
        for (s, store) in STORES.into_iter().enumerate() {
            let plain = memory.reduce(float, UNCACHED_BUFFER_BYTES, 1, store);
            let copy = memory.copy(UNCACHED_BUFFER_BYTES, store);
            let two = memory.reduce(float, UNCACHED_BUFFER_BYTES, 2, store);
            for (samples, time) in [(&mut copies, copy), (&mut both, two)] {
                samples.memory[s].push(time / UNCACHED_BUFFER_BYTES as f64);
                samples.shares[s].push(plain / time);
            }
        }
        for (case, samples) in cases.iter().zip(&mut lines) {
            let bytes = CACHED_BUFFER_BYTES.min(MAX_CACHED_ELEMENTS * case.0.bytes());
            samples
                .cache
                .push(in_cache(|| memory.reduce(*case, bytes, 1, Store::Cached)) / bytes as f64);
            for (s, store) in STORES.into_iter().enumerate() {
                let before = memory.reduce(float, UNCACHED_BUFFER_BYTES, 1, store);
                let time = memory.reduce(*case, UNCACHED_BUFFER_BYTES, 1, store);
                samples.memory[s].push(time / UNCACHED_BUFFER_BYTES as f64);
                samples.shares[s].push(before / time);
            }
        }
    }
    println!(
        "GB/s of result, one core, two sources, medians of {rounds} rounds; share: of an f32 sum from memory, stored alike"
    );
    println!(
        "{:<16}{:>10}{:>10}{:>8}{:>10}{:>8}",
        "", "in cache", "cached", "share", "streamed", "share"
    );
    print("copy", &copies);
    print("float sum to 2", &both);
    for ((datatype, op), samples) in cases.iter().zip(&lines) {
        print(&format!("{} {}", datatype.name(), op.name()), samples);
    }
}

fn print(name: &str, samples: &Samples) {
    let speed = |times: &[f64]| 1e-9 / median(times).unwrap_or(f64::NAN);
    let share = |shares: &[f64]| median(shares).unwrap_or(f64::NAN);
    println!(
        "{name:<16}{:>10.1}{:>10.2}{:>8.2}{:>10.2}{:>8.2}",
        speed(&samples.cache),
        speed(&samples.memory[0]),
        share(&samples.shares[0]),
        speed(&samples.memory[1]),
        share(&samples.shares[1])
    );
}
