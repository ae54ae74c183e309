//! Kernels of the 8- and 16-bit floats: widen a block to f32, compute, round back.
//! One rounding to the narrow type a step: f32 holds sums and products of these types exactly enough
//! that rounding twice gives the same (24 ≥ 2·11 + 2, Figueroa 1995).
//! Not a scalar path: conversions cost more than the arithmetic.

use std::sync::LazyLock;

use half::{bf16, f16, slice::HalfFloatSliceExt};
use model::{DataType, ReduceOp, number::FloatFormat};

use super::{Element, native};

/// Elements that are widened at a time: three blocks of f32 stay within the first-level cache.
const LANES: usize = 1024;

/// A float narrower than f32.
pub(super) trait Narrow: Copy {
    fn widen(from: &[Self], to: &mut [f32]);
    fn round(from: &[f32], to: &mut [Self]);
}

/// IEEE binary16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(f16);

/// bfloat16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bfloat16(u16);

/// FP8 E4M3.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct E4m3(u8);

/// FP8 E5M2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct E5m2(u8);

impl Narrow for Half {
    fn widen(from: &[Self], to: &mut [f32]) {
        // SAFETY: Half is a transparent f16: same size, same alignment, same values.
        let from = unsafe { std::slice::from_raw_parts(from.as_ptr().cast::<f16>(), from.len()) };
        from.convert_to_f32_slice(to);
    }

    fn round(from: &[f32], to: &mut [Self]) {
        // SAFETY: as in `widen`; the slice is borrowed mutably, hence exclusive.
        let to = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<f16>(), to.len()) };
        to.convert_from_f32_slice(from);
    }
}

impl Narrow for Bfloat16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        for (from, to) in from.iter().zip(to) {
            *to = f32::from_bits(u32::from(from.0) << 16);
        }
    }

    fn round(from: &[f32], to: &mut [Self]) {
        for (from, to) in from.iter().zip(to) {
            let bits = from.to_bits();
            // Adding half of the cut part, less one where the kept part is even, rounds to nearest
            // even and carries into the exponent as it must.
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            to.0 = if from.is_nan() { bf16::NAN.to_bits() } else { rounded as u16 };
        }
    }
}

/// The 256 values of an FP8 format.
type Table = LazyLock<[f32; 256]>;

fn table(datatype: DataType) -> [f32; 256] {
    let format = FloatFormat::of(datatype);
    std::array::from_fn(|bits| format.map_or(f32::NAN, |f| f.decode(bits as u64) as f32))
}

macro_rules! fp8 {
    ($type:ident, $datatype:expr, $table:ident) => {
        static $table: Table = LazyLock::new(|| table($datatype));

        impl Narrow for $type {
            fn widen(from: &[Self], to: &mut [f32]) {
                let table = &*$table;
                for (from, to) in from.iter().zip(to) {
                    *to = table[usize::from(from.0)];
                }
            }

            fn round(from: &[f32], to: &mut [Self]) {
                let Some(format) = FloatFormat::of($datatype) else { return };
                for (from, to) in from.iter().zip(to) {
                    to.0 = format.encode_f32(*from) as u8;
                }
            }
        }
    };
}
fp8!(E4m3, DataType::F8e4m3, E4M3);
fp8!(E5m2, DataType::F8e5m2, E5M2);

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn combine(op: ReduceOp, to: &mut [Self], from: &[Self], scalar: u8) {
                combine(op, to, from, scalar);
            }
            fn scale(to: &mut [Self], scalar: u8) {
                each(to, |wide| native::scale(wide, scalar));
            }
            fn divide(to: &mut [Self], ranks: usize) {
                each(to, |wide| native::divide(wide, ranks));
            }
        }
    )*};
}
element!(Half, Bfloat16, E4m3, E5m2);

fn combine<T: Narrow>(op: ReduceOp, to: &mut [T], from: &[T], scalar: u8) {
    let (mut a, mut b) = ([0f32; LANES], [0f32; LANES]);
    for (to, from) in to.chunks_mut(LANES).zip(from.chunks(LANES)) {
        let (a, b) = (&mut a[..to.len()], &mut b[..to.len()]);
        T::widen(to, a);
        T::widen(from, b);
        // A scalar is a power of two, so b × scalar is exact and the step still rounds once.
        native::combine(op, a, b, scalar);
        T::round(a, to);
    }
}

fn each<T: Narrow>(to: &mut [T], work: impl Fn(&mut [f32])) {
    let mut wide = [0f32; LANES];
    for to in to.chunks_mut(LANES) {
        let wide = &mut wide[..to.len()];
        T::widen(to, wide);
        work(wide);
        T::round(wide, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast conversions against the one in exact arithmetic, for every f16 and bf16 bit pattern
    /// and the halfway points between neighbours.
    #[test]
    fn conversions_agree_with_exact_arithmetic() {
        let half = FloatFormat::of(DataType::Half).unwrap();
        let brain = FloatFormat::of(DataType::Bfloat16).unwrap();
        for bits in 0..0x7bffu64 {
            let middle = ((half.decode(bits) + half.decode(bits + 1)) / 2.0) as f32;
            let mut out = [Half(f16::ZERO)];
            Half::round(&[middle], &mut out);
            assert_eq!(u64::from(out[0].0.to_bits()), half.encode_f32(middle), "half {bits:#x}");
        }
        for bits in 0..0x7f7fu64 {
            let middle = ((brain.decode(bits) + brain.decode(bits + 1)) / 2.0) as f32;
            let mut out = [Bfloat16(0)];
            Bfloat16::round(&[middle, -middle], &mut out);
            assert_eq!(u64::from(out[0].0), brain.encode_f32(middle), "bfloat16 {bits:#x}");
        }
    }
}
