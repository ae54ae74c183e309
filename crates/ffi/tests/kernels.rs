//! The pattern kernels' CUDA C, compiled for a processor, against `busbw_core::pattern`: what they write, what
//! they find. Not what a device makes of their PTX: that needs one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{ffi::CString, path::Path, process::Command, sync::LazyLock};

use busbw_core::{
    DataType, ReduceOp,
    number::FloatFormat,
    pattern::{self, Content, Mismatch, Pattern, Wrong},
};
use busbw_ffi::kernels::{Kernel, Parameters, WrongElements, blocks, kernel};
use libloading::{Library, Symbol};
use proptest::prelude::*;

type Launch = unsafe extern "C" fn(
    *const std::ffi::c_char,
    *const u32,
    *const u32,
    *mut *mut std::ffi::c_void,
) -> i32;

/// The kernels as a library of this machine; g++ has everything that it takes.
static KERNELS: LazyLock<Library> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/shims/kernels_host.cc");
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("kernels_host.so");
    let flags = ["-O2", "-std=c++17", "-shared", "-fPIC", "-fno-strict-aliasing"];
    let compiler = Command::new("g++")
        .args(flags)
        .arg("-ffp-contract=off")
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .status()
        .unwrap();
    assert!(compiler.success(), "g++ {} ended with {compiler}", source.display());
    // SAFETY: the library was just made from the repository's source and runs nothing on loading.
    unsafe { Library::new(&library) }.unwrap()
});

/// Runs a kernel. Blocks are small, so that short stretches have several.
fn launch(
    kernel: &Kernel,
    memory: &mut [u8],
    elements: usize,
    blocks: u32,
    p: Parameters,
    found: Option<&mut WrongElements>,
) {
    // SAFETY: the symbol has this type in tests/shims/kernels_host.cc.
    let launch: Symbol<Launch> = unsafe { KERNELS.get(b"busbw_kernel_launch") }.unwrap();
    let (grid, block) = ([blocks, 1, 1], [32, 1, 1]);
    let (mut memory, mut elements, mut p) = (memory.as_mut_ptr(), elements as u64, p);
    let mut found = found.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let mut params = [
        std::ptr::from_mut(&mut memory).cast(),
        std::ptr::from_mut(&mut elements).cast(),
        std::ptr::from_mut(&mut p).cast(),
        std::ptr::from_mut(&mut found).cast(),
    ];
    let name = CString::new(kernel.name).unwrap();
    // SAFETY: the parameters are the kernels', `memory` holds `elements` elements, and nobody else
    // looks at either.
    let rc = unsafe { launch(name.as_ptr(), grid.as_ptr(), block.as_ptr(), params.as_mut_ptr()) };
    assert_eq!(rc, 0, "{name:?}");
}

/// A buffer that starts `shift` elements after a 16-byte boundary, with a margin on either side.
struct Buffer {
    words: Vec<u128>,
    start: usize,
    len: usize,
}

const MARGIN: u8 = 0x5c;

impl Buffer {
    fn new(elements: usize, shift: usize, datatype: DataType) -> Buffer {
        let (start, len) = (16 + shift * datatype.bytes(), elements * datatype.bytes());
        let words = vec![u128::from_ne_bytes([MARGIN; 16]); (start + len).div_ceil(16) + 1];
        Buffer { words, start, len }
    }

    fn all(&mut self) -> &mut [u8] {
        let bytes = self.words.len() * 16;
        // SAFETY: the vector's memory, initialised, for as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), bytes) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let range = self.start..self.start + self.len;
        &mut self.all()[range]
    }

    fn margins_hold(&mut self) -> bool {
        let (start, end) = (self.start, self.start + self.len);
        let all = self.all();
        all[..start].iter().chain(&all[end..]).all(|byte| *byte == MARGIN)
    }
}

/// One stretch of memory and what it should hold.
#[derive(Debug, Clone, Copy)]
struct Case {
    pattern: Pattern,
    content: Content,
    elements: usize,
    shift: usize,
}

impl Case {
    fn buffer(&self) -> Buffer {
        Buffer::new(self.elements, self.shift, self.pattern.datatype)
    }

    fn launch(&self, buffer: &mut Buffer, p: Parameters, found: Option<&mut WrongElements>) {
        let datatype = self.pattern.datatype;
        let blocks = blocks(self.elements as u64, datatype, 1).max(1);
        launch(kernel(datatype, self.content), buffer.bytes(), self.elements, blocks, p, found);
    }

    fn fill(&self, buffer: &mut Buffer) {
        self.launch(buffer, Parameters::new(&self.pattern, self.content), None);
    }

    fn verify(&self, buffer: &mut Buffer, tolerance: u32, found: &mut WrongElements, base: u64) {
        let p = Parameters { tolerance, base, ..Parameters::new(&self.pattern, self.content) };
        self.launch(buffer, p, Some(found));
    }

    fn mismatch(&self, buffer: &mut Buffer, tolerance: u32) -> Mismatch {
        let mut found = WrongElements::NONE;
        self.verify(buffer, tolerance, &mut found, 0);
        assert_eq!(found.lock, 0);
        found.mismatch()
    }

    /// What the kernels write is what `busbw_core::pattern` writes, they find it right, and nothing beside it
    /// was touched.
    fn agrees(&self) {
        let mut want = vec![0; self.elements * self.pattern.datatype.bytes()];
        pattern::fill(&mut want, &self.pattern, self.content);
        let mut buffer = self.buffer();
        self.fill(&mut buffer);
        assert!(*buffer.bytes() == want[..], "{self:?}: {:?}", self.first_difference(&mut buffer));
        assert!(buffer.margins_hold(), "{self:?}");
        assert_eq!(self.mismatch(&mut buffer, 0), Mismatch::default(), "{self:?}");
    }

    fn first_difference(&self, buffer: &mut Buffer) -> Mismatch {
        pattern::verify(buffer.bytes(), &self.pattern, self.content)
    }
}

/// Every type, operator and content, for every number of ranks to 17 and some beyond.
#[test]
fn everything_agrees() {
    for datatype in DataType::ALL {
        for (step, ranks) in (1..18).chain([31, 32, 72, 1000, 10_000]).enumerate() {
            for (o, op) in ReduceOp::ALL.into_iter().enumerate() {
                let pattern = Pattern { seed: 5 + step as u64, datatype, op, ranks };
                // Of 57 elements some lie in groups below a multiple of 2^32, some beyond.
                let in_group = 8 / datatype.bytes() as u64;
                let first = if step % 2 == 0 { (3 << 32) * in_group - 20 } else { 1 << 40 | 7 };
                let rank = (step * 7 + o) % ranks;
                for content in [
                    Content::Copied { source: rank, first },
                    Content::Contribution { rank, first },
                    Content::Contribution { rank: ranks - 1, first },
                    Content::Contribution { rank: 0, first: 0 },
                    Content::Reduced { first },
                    Content::Reduced { first: 0 },
                    Content::Poison,
                ] {
                    let shift = (step + o) % (16 / datatype.bytes());
                    Case { pattern, content, elements: 57, shift }.agrees();
                }
            }
        }
    }
}

/// Values that seldom occur, seldom occur in 57 elements.
#[test]
fn long_stretches_agree() {
    for datatype in DataType::ALL {
        for op in ReduceOp::ALL {
            for ranks in [3, 8, 17, 1000] {
                let pattern = Pattern { seed: 9, datatype, op, ranks };
                for content in [
                    Content::Contribution { rank: 2, first: 0 },
                    Content::Reduced { first: 0 },
                    Content::Copied { source: 1, first: 0 },
                ] {
                    Case { pattern, content, elements: 10_007, shift: 1 }.agrees();
                }
            }
        }
    }
}

/// Every kernel that is asked for is in its module.
#[test]
fn modules_hold_their_kernels() {
    for datatype in DataType::ALL {
        for content in [Content::Poison, Content::Reduced { first: 0 }] {
            let kernel = kernel(datatype, content);
            let (name, ptx) = (kernel.name, kernel.ptx());
            assert!(ptx.starts_with(".version 8.0\n.target sm_70\n"), "{name}");
            assert!(ptx.contains(&format!(".visible .entry {name}(\n")), "{name}");
        }
    }
}

/// Ratios so close to the middle between two numbers of the type that 24 bits cannot tell: multiples
/// of these divisors are one off a power of two. Only absurd numbers of ranks give them.
#[test]
fn averages_are_rounded_once() {
    for ranks in [8_193, 12_153, 24_573, 55_831, 87_211, 262_657, 699_051] {
        for datatype in [DataType::Half, DataType::Bfloat16, DataType::F8e4m3, DataType::F8e5m2] {
            let pattern = Pattern { seed: 2, datatype, op: ReduceOp::Avg, ranks };
            Case { pattern, content: Content::Reduced { first: 0 }, elements: 500, shift: 0 }
                .agrees();
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let first = prop_oneof![
        0u64..100_000,
        // The upper half of a group's index changes at element 2^32 of 8 bytes, 2^35 of 1.
        (32u32..36, 0u64..600).prop_map(|(power, off)| (1 << power) - 300 + off),
        (1u64 << 40) - 300..1 << 40,
        any::<u64>(),
    ];
    let ranks = prop_oneof![8 => 1usize..18, 1 => 18usize..=1 << 20];
    (
        any::<u64>(),
        0usize..12,
        0usize..6,
        ranks,
        0usize..4,
        first,
        any::<u32>(),
        1usize..600,
        0usize..16,
    )
        .prop_map(|(seed, t, o, ranks, kind, first, rank, elements, shift)| {
            let (datatype, rank) = (DataType::ALL[t], rank as usize % ranks);
            let content = match kind {
                0 => Content::Copied { source: rank, first },
                1 => Content::Contribution { rank, first },
                2 => Content::Reduced { first },
                _ => Content::Poison,
            };
            let pattern = Pattern { seed, datatype, op: ReduceOp::ALL[o], ranks };
            Case { pattern, content, elements, shift: shift % (16 / datatype.bytes()) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3000)
    })]
    #[test]
    fn any_case_agrees(case in case()) {
        case.agrees();
    }

    /// Wrong bits are found where they are, counted, and reported as `busbw_core::pattern` reports them.
    #[test]
    fn flipped_bits_are_found(
        case in case(), flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..8), 1..9),
    ) {
        let mut buffer = case.buffer();
        case.fill(&mut buffer);
        for (at, bit) in flips {
            let bytes = buffer.bytes();
            bytes[at.index(bytes.len())] ^= 1 << bit;
        }
        let want = pattern::verify(buffer.bytes(), &case.pattern, case.content);
        prop_assert_eq!(case.mismatch(&mut buffer, 0), want);
    }

    /// Within the tolerance is right, one further is wrong, for every float type.
    #[test]
    fn tolerance_is_a_distance_in_numbers(
        case in case(), distance in -40i64..=40, tolerance in 0u32..40, at in any::<prop::sample::Index>(),
    ) {
        let mut buffer = case.buffer();
        case.fill(&mut buffer);
        let bytes = case.pattern.datatype.bytes();
        let at = at.index(case.elements);
        let element = &mut buffer.bytes()[at * bytes..][..bytes];
        let mut raw = [0; 8];
        raw[..bytes].copy_from_slice(element);
        let want = u64::from_le_bytes(raw);
        let format = FloatFormat::of(case.pattern.datatype);
        let got = match format {
            Some(format) => {
                let end = i64::MAX >> (64 - format.bits());
                format.from_ordinal((ordinal(format, want) + distance).clamp(-end, end))
            }
            None => want.wrapping_add_signed(distance) & (u64::MAX >> (64 - 8 * bytes)),
        };
        element.copy_from_slice(&got.to_le_bytes()[..bytes]);
        let right = got == want || format.is_some_and(|format| {
            tolerance > 0
                && ordinal(format, got).abs_diff(ordinal(format, want)) <= u64::from(tolerance)
                && ordinal(format, got).unsigned_abs() <= format.largest
                && ordinal(format, want).unsigned_abs() <= format.largest
        });
        let wrong = Mismatch { wrong: 1, first: Some(Wrong { index: at as u64, got, want }) };
        let expected = if right { Mismatch::default() } else { wrong };
        prop_assert_eq!(case.mismatch(&mut buffer, tolerance), expected);
    }

    /// Stretches of one buffer share their result.
    #[test]
    fn stretches_add_up(mut case in case(), base in 0u64..1 << 40) {
        let mut buffer = case.buffer();
        case.fill(&mut buffer);
        let mut found = WrongElements::NONE;
        case.verify(&mut buffer, 0, &mut found, 0);
        prop_assert_eq!(found, WrongElements::NONE);
        case.pattern.seed ^= 1;
        let want = pattern::verify(buffer.bytes(), &case.pattern, case.content);
        case.verify(&mut buffer, 0, &mut found, base + 1);
        case.verify(&mut buffer, 0, &mut found, base);
        let mut both = Mismatch::default();
        both.add(want, base);
        both.wrong *= 2;
        prop_assert_eq!(found.mismatch(), both);
    }
}

/// The place of a number in its format's rising order; −0 has that of 0.
fn ordinal(format: FloatFormat, bits: u64) -> i64 {
    let sign = 1 << (format.bits() - 1);
    let magnitude = (bits & (sign - 1)) as i64;
    if bits & sign == 0 { magnitude } else { -magnitude }
}

/// The kernels keep to their share of the grid whatever its size, and no elements are no work.
#[test]
fn any_grid_will_do() {
    let pattern = Pattern { seed: 1, datatype: DataType::Float, op: ReduceOp::Sum, ranks: 8 };
    let content = Content::Reduced { first: 11 };
    let mut want = vec![0; 4 * 3001];
    pattern::fill(&mut want, &pattern, content);
    for grid in [1, 2, 3, 7, 64, 1000] {
        let mut buffer = Buffer::new(3001, 3, pattern.datatype);
        let p = Parameters::new(&pattern, content);
        launch(kernel(pattern.datatype, content), buffer.bytes(), 3001, grid, p, None);
        assert!(*buffer.bytes() == want[..], "{grid} blocks");
    }
    Case { pattern, content, elements: 0, shift: 0 }.agrees();
    assert_eq!(blocks(0, DataType::Float, 132), 0);
    assert_eq!(blocks(1, DataType::Float, 132), 1);
    assert_eq!(blocks(1 << 32, DataType::Float, 132), 15_840);
}
