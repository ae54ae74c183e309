//! The kernels against exact results, with every instruction set that this processor has.
//! Not their speed: `bench/kernels.rs` measures that.
//!
//! Under Miri: `MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-deterministic-floats" cargo +nightly miri
//! test -p busbw-shm --lib kernel::tests` (baseline only, 4 minutes; without the second flag Miri
//! falsifies `powi`, which the reference values are made with).

mod narrow;

use std::sync::Once;

use busbw_core::pattern::{Content, Mismatch, Pattern, fill, verify};
use proptest::prelude::*;

use super::{Source, Store, copy, isa::Level, reduce};
use busbw_core::{DataType, ReduceOp};

/// The instruction sets to try. Says which cannot be.
pub(super) fn levels() -> Vec<Level> {
    let (here, missing): (Vec<Level>, Vec<Level>) = Level::ALL.iter().partition(|l| l.here());
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        for level in missing {
            eprintln!("waived: {level:?}: this processor does not have it");
        }
    });
    here
}

/// Cases of a property test: an interpreter runs few.
fn cases(many: u32) -> ProptestConfig {
    let failure_persistence = None;
    let cases = if cfg!(miri) { 8 } else { many };
    ProptestConfig { cases, failure_persistence, ..ProptestConfig::default() }
}

/// Bytes on either side of a buffer that nobody may touch.
const GUARD: usize = 192;

/// A buffer that starts `shift` bytes past a cache line, between guards.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(content: &[u8], shift: usize) -> Buffer {
        let len = content.len();
        let mut memory = vec![0x5a; len + 2 * GUARD + 64];
        let start = memory.as_ptr().align_offset(64) + GUARD + shift % 64;
        memory[start..start + len].copy_from_slice(content);
        Buffer { memory, start, len }
    }

    fn at(&mut self) -> *mut u8 {
        // By no slice, which would end the validity of pointers made before.
        self.memory.as_mut_ptr().wrapping_add(self.start)
    }

    fn content(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    fn guarded(&self) -> bool {
        let (before, rest) = self.memory.split_at(self.start);
        before.iter().chain(&rest[self.len..]).all(|byte| *byte == 0x5a)
    }
}

/// What a destination is to start at.
#[derive(Debug, Clone, Copy)]
enum Start {
    Source(usize),
    Elsewhere(usize),
}

/// Destinations: mostly few; some are sources, each at most once.
fn places() -> impl Strategy<Value = Vec<Start>> {
    let place =
        prop_oneof![(0usize..17).prop_map(Start::Source), (0usize..64).prop_map(Start::Elsewhere)];
    prop::collection::vec(place, 1..6)
}

proptest! {
    #![proptest_config(cases(1500))]
    /// Every type and operator against the exact result: any number of ranks and destinations, in
    /// place and not, any length and alignment, stored either way.
    #[test]
    fn exact_for_every_type_and_operator(
        seed in any::<u64>(), t in 0usize..12, o in 0usize..6, ranks in 1usize..18,
        count in prop_oneof![0usize..40, 100usize..300, 1000usize..3000], start in 0usize..17,
        places in places(), shifts in prop::collection::vec(0usize..64, 17), streamed in any::<bool>(),
    ) {
        let (datatype, op) = (DataType::ALL[t], ReduceOp::ALL[o]);
        let count = if cfg!(miri) { count % 300 } else { count };
        let element = datatype.bytes();
        let pattern = Pattern { seed, datatype, op, ranks };
        let mut bytes = vec![0; count * element];
        let inputs: Vec<Vec<u8>> = (0..ranks)
            .map(|rank| {
                fill(&mut bytes, &pattern, Content::Contribution { rank, first: 0 });
                bytes.clone()
            })
            .collect();
        for level in levels() {
            let aligned = |shift: usize| shift / element * element;
            let mut from: Vec<Buffer> =
                (0..ranks).map(|r| Buffer::new(&inputs[r], aligned(shifts[r]))).collect();
            let mut others: Vec<Buffer> = Vec::new();
            let mut taken = [false; 17];
            let mut destinations = Vec::new();
            for place in &places {
                match *place {
                    Start::Source(rank) if rank < ranks && !taken[rank] => {
                        taken[rank] = true;
                        destinations.push(from[rank].at());
                    }
                    Start::Source(shift) | Start::Elsewhere(shift) => {
                        let blank = vec![0; count * element];
                        others.push(Buffer::new(&blank, aligned(shift)));
                        destinations.extend(others.last_mut().map(Buffer::at));
                    }
                }
            }
            let sources: Vec<Source> = (0..ranks)
                .map(|i| (i + start) % ranks)
                .map(|rank| Source { at: from[rank].at(), scalar: ReduceOp::premul_scalar(rank) })
                .collect();
            let store = if streamed { Store::Streamed } else { Store::Cached };
            let job = reduce::Job { op, destinations: &destinations, sources: &sources, count, store };
            // SAFETY: every buffer holds `count` elements, aligned to them; destinations are
            // buffers of their own or whole sources, each once; the processor has `level`.
            unsafe { reduce::run(level, datatype, job) };
            let what = format!("{level:?} {datatype:?} {op:?} {ranks} ranks");
            for (rank, buffer) in from.iter().enumerate() {
                prop_assert!(buffer.guarded(), "{}", what);
                if !taken[rank] {
                    prop_assert_eq!(buffer.content(), &inputs[rank], "{}", what);
                }
            }
            let results = from.iter().zip(taken).filter(|(_, taken)| *taken).map(|(b, _)| b);
            for buffer in results.chain(&others) {
                prop_assert!(buffer.guarded(), "{}", what);
                let found = verify(buffer.content(), &pattern, Content::Reduced { first: 0 });
                prop_assert_eq!(found, Mismatch::default(), "{}", what);
            }
        }
    }

    #[test]
    fn copies_are_copies(
        content in prop::collection::vec(any::<u8>(), 0..5000), shifts in any::<[u8; 2]>(),
        streamed in any::<bool>(),
    ) {
        let content = if cfg!(miri) { &content[..content.len() % 500] } else { &content[..] };
        for level in levels() {
            let mut from = Buffer::new(content, shifts[0].into());
            let mut to = Buffer::new(&vec![0; content.len()], shifts[1].into());
            let store = if streamed { Store::Streamed } else { Store::Cached };
            // SAFETY: two buffers of this length; the processor has `level`.
            unsafe { copy::run(level, from.at(), to.at(), content.len(), store) };
            prop_assert_eq!(to.content(), content);
            prop_assert!(from.guarded() && to.guarded());
        }
    }
}
