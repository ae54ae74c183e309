//! The kernels that fill a GPU's memory with a pattern or compare it with one: PTX text and
//! interface.
//! Not launching them: `loaded` does that. docs/kernels.md has the details.

mod loaded;

pub use loaded::Kernels;

use busbw_core::{
    DataType, ReduceOp,
    number::FloatFormat,
    pattern::{Content, Mismatch, Pattern, Wrong},
};
use embedded_files::deflated;
use miniz_oxide::inflate::decompress_to_vec_zlib;

/// One kernel: `(memory, elements: u64, Parameters, *mut WrongElements)`. With the last one it compares the
/// memory; without (null) it writes it. `memory` is aligned to the element.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name in the module.
    pub name: &'static str,
    /// The module: PTX for every GPU since Volta, version 8.0, for drivers of CUDA 12.0 (525.60)
    /// on. One module a kernel, since a driver takes a twentieth of a second to compile it. In zlib's format.
    ptx: &'static [u8],
}

impl Kernel {
    /// The module's text.
    pub fn ptx(&self) -> String {
        // The compiler packed it: it can be unpacked.
        String::from_utf8(decompress_to_vec_zlib(self.ptx).unwrap_or_default()).unwrap_or_default()
    }
}

macro_rules! kernel {
    ($name:literal, $file:literal) => {
        &Kernel { name: concat!("pattern_", $name), ptx: deflated!($file) }
    };
}

/// The kernel for `content` of elements of a type.
pub fn kernel(datatype: DataType, content: Content) -> &'static Kernel {
    let reduces = matches!(content, Content::Contribution { .. } | Content::Reduced { .. });
    let float = FloatFormat::of(datatype).is_some();
    match (reduces, float, datatype.bytes()) {
        (false, _, 1) => kernel!("data_1", "kernels/data_1.ptx"),
        (false, _, 2) => kernel!("data_2", "kernels/data_2.ptx"),
        (false, _, 4) => kernel!("data_4", "kernels/data_4.ptx"),
        (false, _, _) => kernel!("data_8", "kernels/data_8.ptx"),
        (true, false, 1) => kernel!("integer_1", "kernels/integer_1.ptx"),
        (true, false, 4) => kernel!("integer_4", "kernels/integer_4.ptx"),
        (true, false, _) => kernel!("integer_8", "kernels/integer_8.ptx"),
        (true, true, 1) => kernel!("float_1", "kernels/float_1.ptx"),
        (true, true, 2) => kernel!("float_2", "kernels/float_2.ptx"),
        (true, true, 4) => kernel!("float_4", "kernels/float_4.ptx"),
        (true, true, _) => kernel!("float_8", "kernels/float_8.ptx"),
    }
}

/// Threads of a block: what the kernels were compiled for. Any grid of one dimension is right, as
/// long as it has fewer than 2^29 threads.
pub const BLOCK: u32 = 256;

/// Blocks for each multiprocessor: a multiple of 4, 5, 6 and 8, the possible numbers of resident
/// blocks, so that the last ones do not run alone.
const BLOCKS_PER_PROCESSOR: u64 = 120;

/// Bytes that a thread handles in one step.
const BYTES_PER_STEP: u64 = 16;

/// Blocks for `elements` of a type on a device with this number of multiprocessors; 0 for no
/// elements: nothing to launch.
pub fn blocks(elements: u64, datatype: DataType, processors: u32) -> u32 {
    let pieces = (elements * datatype.bytes() as u64).div_ceil(BYTES_PER_STEP);
    let enough = u64::from(processors.max(1)) * BLOCKS_PER_PROCESSOR;
    pieces.div_ceil(u64::from(BLOCK)).min(enough) as u32
}

/// The parameters of a launch: by value, as the kernels' third parameter. `struct Parameters` of
/// kernels/pattern.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The pattern's seed.
    pub seed: u64,
    /// Index in the pattern of the first element.
    pub first: u64,
    /// The base of [`WrongElements::first_index`]: the stretch's offset in the buffer, in elements.
    pub base: u64,
    /// Index in [`DataType::ALL`].
    pub datatype: u32,
    /// 0 copied, 1 contribution, 2 reduced, 3 poison.
    pub content: u32,
    /// Index in [`ReduceOp::ALL`].
    pub op: u32,
    /// The rank that contributes, or whose data is copied.
    pub rank: u32,
    /// Ranks that take part, 1 to 2^20.
    pub ranks: u32,
    /// How far floats may be from the exact value, in representable numbers of the type; 0: every
    /// bit counts.
    pub tolerance: u32,
}

impl Parameters {
    /// For `content` at the start of a buffer, every bit of it.
    pub fn new(pattern: &Pattern, content: Content) -> Parameters {
        let (kind, rank, first) = match content {
            Content::Copied { source, first } => (0, source, first),
            Content::Contribution { rank, first } => (1, rank, first),
            Content::Reduced { first } => (2, 0, first),
            Content::Poison => (3, 0, 0),
        };
        Parameters {
            seed: pattern.seed,
            first,
            base: 0,
            datatype: index_of(&DataType::ALL, pattern.datatype),
            content: kind,
            op: index_of(&ReduceOp::ALL, pattern.op),
            rank: rank as u32,
            ranks: pattern.ranks as u32,
            tolerance: 0,
        }
    }
}

impl Parameters {
    /// Its bytes in memory.
    pub(crate) fn to_bytes(self) -> [u8; size_of::<Parameters>()] {
        let mut bytes = [0; size_of::<Parameters>()];
        let (words, halves) = bytes.split_at_mut(24);
        for (place, word) in
            words.as_chunks_mut::<8>().0.iter_mut().zip([self.seed, self.first, self.base])
        {
            *place = word.to_ne_bytes();
        }
        let small = [self.datatype, self.content, self.op, self.rank, self.ranks, self.tolerance];
        for (place, word) in halves.as_chunks_mut::<4>().0.iter_mut().zip(small) {
            *place = word.to_ne_bytes();
        }
        bytes
    }
}

fn index_of<T: PartialEq>(all: &[T], one: T) -> u32 {
    all.iter().take_while(|other| **other != one).count() as u32
}

/// The result of a comparison, in device memory: `struct WrongElements` of kernels/pattern.h. Set to
/// [`WrongElements::NONE`] before the first launch; further launches on one stream add to it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongElements {
    /// Wrong elements.
    pub wrong: u64,
    /// [`Parameters::base`] + index of the first of them; all ones when there is none.
    pub first_index: u64,
    /// Bits found there.
    pub got: u64,
    /// Expected bits.
    pub want: u64,
    /// A lock of the thread that writes here. 0 between launches.
    pub lock: u32,
    /// Padding.
    pub padding: u32,
}

impl WrongElements {
    /// No wrong element.
    pub const NONE: WrongElements =
        WrongElements { wrong: 0, first_index: u64::MAX, got: 0, want: 0, lock: 0, padding: 0 };

    /// Its bytes in memory.
    pub(crate) fn to_bytes(self) -> [u8; size_of::<WrongElements>()] {
        let mut bytes = [0; size_of::<WrongElements>()];
        let words = [self.wrong, self.first_index, self.got, self.want];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    /// From its bytes in memory.
    pub(crate) fn from_bytes(bytes: &[u8; size_of::<WrongElements>()]) -> WrongElements {
        let word = |at: usize| u64::from_ne_bytes(bytes.as_chunks::<8>().0[at]);
        let (wrong, first_index, got, want) = (word(0), word(1), word(2), word(3));
        WrongElements { wrong, first_index, got, want, ..WrongElements::NONE }
    }

    /// Converts to the type of `busbw_core`.
    pub fn mismatch(&self) -> Mismatch {
        let first = Wrong { index: self.first_index, got: self.got, want: self.want };
        Mismatch { wrong: self.wrong, first: (self.wrong > 0).then_some(first) }
    }
}

const _: () = assert!(size_of::<Parameters>() == 48 && size_of::<WrongElements>() == 40);
