//! Instruction sets: which of them this processor has, and the instructions that the kernels need
//! of each.
//! Not the kernels: those are written once, over arrays, and compiled once for each set.

use super::half;

/// Numbers that are converted at a time: enough that loops over them vectorise, few enough that the
/// intermediate results stay in the first-level cache.
pub(super) const GROUP: usize = 128;

/// Bytes of a cache line, the unit of streaming stores.
pub(super) const LINE: usize = 64;

/// Instructions that the compiler's vectoriser does not find.
pub(super) trait Isa {
    /// Whether [`Isa::look_up`] takes one or two instructions.
    const TABLES: bool = false;

    /// The entries of a table of bytes, at the lower 7 bits of every byte of `at`.
    #[inline(always)]
    fn look_up(table: &[u8; GROUP], at: &[u8; GROUP]) -> [u8; GROUP] {
        half::convert(at, 0, |at| table[usize::from(at & 0x7f)])
    }

    /// f16 bits to f32.
    fn widen(bits: &[u16; GROUP]) -> [f32; GROUP];
    /// f32 to f16 bits, to nearest even; infinity beyond the largest.
    fn round(wide: &[f32; GROUP]) -> [u16; GROUP];
    /// Stores a line past the caches, where the instruction set can.
    ///
    /// # Safety
    /// `to` is valid for a line and aligned to it.
    unsafe fn stream(to: *mut u8, line: [u8; LINE]);

    /// Makes streamed lines visible before any later write.
    #[inline(always)]
    fn fence() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every x86-64 processor has it.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// Work that is compiled once for each instruction set. Its `run`, and everything that it calls,
/// must be inlined for that.
pub(super) trait Work {
    /// Runs the work.
    ///
    /// # Safety
    /// That of the work; and the processor has `I`.
    unsafe fn run<I: Isa>(self);
}

/// An instruction set by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The baseline of the architecture.
    Baseline,
    /// AVX2 with F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with byte and word lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The same with VBMI: byte tables in registers.
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi,
}

impl Level {
    /// Every level, slowest first.
    pub(super) const ALL: &[Level] = &[
        Level::Baseline,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi,
    ];

    /// Whether this processor has it. Detected once a process.
    pub(super) fn here(self) -> bool {
        match self {
            Level::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vbmi => Level::Avx512.here() && is_x86_feature_detected!("avx512vbmi"),
        }
    }

    /// The fastest level of this processor.
    pub(super) fn best() -> Level {
        Level::ALL.iter().rev().copied().find(|l| l.here()).unwrap_or(Level::Baseline)
    }

    /// Runs `work` with this instruction set.
    ///
    /// # Safety
    /// That of the work; and the processor has this instruction set.
    pub(super) unsafe fn run(self, work: impl Work) {
        match self {
            // SAFETY: the caller vouches for the work, and every processor has the baseline.
            Level::Baseline => unsafe { work.run::<Baseline>() },
            // SAFETY: the caller vouches for the work and for the instruction set.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vbmi => unsafe { x86::avx512_vbmi(work) },
        }
    }
}

/// The baseline of the architecture.
pub(super) struct Baseline;

impl Isa for Baseline {
    #[inline(always)]
    fn widen(bits: &[u16; GROUP]) -> [f32; GROUP] {
        half::convert(bits, 0.0, half::widen)
    }

    #[inline(always)]
    fn round(wide: &[f32; GROUP]) -> [u16; GROUP] {
        half::convert(wide, 0, half::round)
    }

    #[inline(always)]
    unsafe fn stream(to: *mut u8, line: [u8; LINE]) {
        // Miri does not support such stores.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the caller vouches for `to`; every x86-64 processor has SSE2.
        unsafe {
            x86::stream_sse2(to, line);
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        // SAFETY: the caller vouches for `to`.
        unsafe {
            to.cast::<[u8; LINE]>().write(line);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The sets of x86-64.
    //! Not arithmetic: the compiler vectorises that by itself.

    use std::{arch::x86_64::*, mem::transmute};

    use super::{GROUP, Isa, LINE, Work};

    /// # Safety
    /// That of the work.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn avx2(work: impl Work) {
        // SAFETY: the caller vouches for the work, and this function for the instruction set.
        unsafe { work.run::<Avx2>() }
    }

    /// # Safety
    /// That of the work.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn avx512(work: impl Work) {
        // SAFETY: the caller vouches for the work, and this function for the instruction set.
        unsafe { work.run::<Avx512>() }
    }

    /// # Safety
    /// That of the work.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) unsafe fn avx512_vbmi(work: impl Work) {
        // SAFETY: the caller vouches for the work, and this function for the instruction set.
        unsafe { work.run::<Avx512Vbmi>() }
    }

    pub(super) struct Avx2;

    pub(super) struct Avx512;

    pub(super) struct Avx512Vbmi;

    /// # Safety
    /// `to` is valid for a line and aligned to it.
    #[cfg(not(miri))]
    #[inline(always)]
    pub(super) unsafe fn stream_sse2(to: *mut u8, line: [u8; LINE]) {
        // SAFETY: a line is four such vectors; the caller vouches for `to`.
        unsafe {
            let vectors: [__m128i; 4] = transmute(line);
            for (i, vector) in vectors.into_iter().enumerate() {
                _mm_stream_si128(to.cast::<__m128i>().add(i), vector);
            }
        }
    }

    impl Isa for Avx2 {
        #[inline(always)]
        fn widen(bits: &[u16; GROUP]) -> [f32; GROUP] {
            // SAFETY: only `avx2` hands this set to work; arrays and vectors are plain bits.
            unsafe {
                let bits: [__m128i; GROUP / 8] = transmute(*bits);
                let mut wide = [_mm256_setzero_ps(); GROUP / 8];
                for (wide, bits) in wide.iter_mut().zip(bits) {
                    *wide = _mm256_cvtph_ps(bits);
                }
                transmute(wide)
            }
        }

        #[inline(always)]
        fn round(wide: &[f32; GROUP]) -> [u16; GROUP] {
            // SAFETY: as in `widen`.
            unsafe {
                let wide: [__m256; GROUP / 8] = transmute(*wide);
                let mut bits = [_mm_setzero_si128(); GROUP / 8];
                for (bits, wide) in bits.iter_mut().zip(wide) {
                    *bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
                }
                transmute(bits)
            }
        }

        #[inline(always)]
        unsafe fn stream(to: *mut u8, line: [u8; LINE]) {
            // SAFETY: only `avx2` hands this set to work; a line is two such vectors; the caller
            // vouches for `to`.
            unsafe {
                let [low, high]: [__m256i; 2] = transmute(line);
                _mm256_stream_si256(to.cast(), low);
                _mm256_stream_si256(to.cast::<__m256i>().add(1), high);
            }
        }
    }

    impl Isa for Avx512 {
        #[inline(always)]
        fn widen(bits: &[u16; GROUP]) -> [f32; GROUP] {
            // SAFETY: only `avx512` hands this set to work; arrays and vectors are plain bits.
            unsafe {
                let bits: [__m256i; GROUP / 16] = transmute(*bits);
                let mut wide = [_mm512_setzero_ps(); GROUP / 16];
                for (wide, bits) in wide.iter_mut().zip(bits) {
                    *wide = _mm512_cvtph_ps(bits);
                }
                transmute(wide)
            }
        }

        #[inline(always)]
        fn round(wide: &[f32; GROUP]) -> [u16; GROUP] {
            // SAFETY: as in `widen`.
            unsafe {
                let wide: [__m512; GROUP / 16] = transmute(*wide);
                let mut bits = [_mm256_setzero_si256(); GROUP / 16];
                for (bits, wide) in bits.iter_mut().zip(wide) {
                    *bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
                }
                transmute(bits)
            }
        }

        #[inline(always)]
        unsafe fn stream(to: *mut u8, line: [u8; LINE]) {
            // SAFETY: as in `widen`; the caller vouches for `to`.
            unsafe { _mm512_stream_si512(to.cast(), transmute::<[u8; LINE], __m512i>(line)) }
        }
    }

    impl Isa for Avx512Vbmi {
        const TABLES: bool = true;

        #[inline(always)]
        fn look_up(table: &[u8; GROUP], at: &[u8; GROUP]) -> [u8; GROUP] {
            // SAFETY: only `avx512_vbmi` hands this set to work; arrays and vectors are plain bits.
            unsafe {
                let [low, high]: [__m512i; 2] = transmute(*table);
                let mut at: [__m512i; GROUP / LINE] = transmute(*at);
                for at in &mut at {
                    *at = _mm512_permutex2var_epi8(low, *at, high);
                }
                transmute(at)
            }
        }

        #[inline(always)]
        fn widen(bits: &[u16; GROUP]) -> [f32; GROUP] {
            Avx512::widen(bits)
        }

        #[inline(always)]
        fn round(wide: &[f32; GROUP]) -> [u16; GROUP] {
            Avx512::round(wide)
        }

        #[inline(always)]
        unsafe fn stream(to: *mut u8, line: [u8; LINE]) {
            // SAFETY: the caller vouches for it.
            unsafe { Avx512::stream(to, line) }
        }
    }
}
