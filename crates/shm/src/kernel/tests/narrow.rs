//! 8- and 16-bit floats: every number, every pair, against rounding in exact arithmetic.
//! Not buffers and places: the parent looks at those.

use busbw_core::{DataType, ReduceOp, number::FloatFormat};

use super::{Level, Source, Store, levels, reduce};

/// A format with its numbers in order.
struct Reference {
    datatype: DataType,
    format: FloatFormat,
    /// From 0 to the largest, by ordinal.
    positive: Vec<f64>,
}

impl Reference {
    fn new(datatype: DataType) -> Reference {
        let format = FloatFormat::of(datatype).unwrap();
        let positive = (0..=format.largest).map(|bits| format.decode(bits)).collect();
        Reference { datatype, format, positive }
    }

    fn value(&self, bits: u16) -> f64 {
        self.format.decode(bits.into())
    }

    /// Bits of the number nearest to `exact`, ties to even; none for NaN. Two formats have an
    /// infinity to round to, the 8-bit ones end at their largest number.
    fn nearest(&self, exact: f64) -> Option<u16> {
        let magnitude = exact.abs();
        let above = self.positive.partition_point(|number| *number < magnitude);
        let last = self.positive.len() - 1;
        let ordinal = if above > last {
            let largest = self.positive[last];
            let half_a_step = (largest - self.positive[last - 1]) / 2.0;
            last + usize::from(self.datatype.bytes() == 2 && magnitude >= largest + half_a_step)
        } else if above == 0 {
            0
        } else {
            let (low, high) =
                (magnitude - self.positive[above - 1], self.positive[above] - magnitude);
            let up = high < low || (high == low && above % 2 == 0);
            if up { above } else { above - 1 }
        };
        let sign = u16::from(exact.is_sign_negative()) << (self.format.bits() - 1);
        (!exact.is_nan()).then_some(ordinal as u16 | sign)
    }

    /// What reducing a and b must give; none for NaN.
    fn combined(&self, op: ReduceOp, a: u16, b: u16, scalar: u8) -> Option<u16> {
        let (x, y) = (self.value(a), self.value(b));
        match op {
            ReduceOp::Sum => self.nearest(x + y),
            ReduceOp::Prod => self.nearest(x * y),
            ReduceOp::Max => Some(if y > x { b } else { a }).filter(|_| !x.is_nan()),
            ReduceOp::Min => Some(if y < x { b } else { a }).filter(|_| !x.is_nan()),
            ReduceOp::Avg => {
                self.nearest(x + y).and_then(|sum| self.nearest(self.value(sum) / 2.0))
            }
            ReduceOp::Mulsum => self.nearest(x + y * f64::from(scalar)),
        }
    }

    /// Compares the kernel's results for pairs with the exact ones.
    fn check(&self, level: Level, op: ReduceOp, a: &[u16], b: &[u16], scalar: u8) {
        let got = self.reduce(level, op, &[(a, 1), (b, scalar)]);
        for ((a, b), got) in a.iter().zip(b).zip(got) {
            // Only bfloat16 times a scalar can leave f32, where such steps are computed.
            let scaled = self.value(*b) * f64::from(scalar);
            if scaled.is_finite() && (scaled as f32).is_infinite() {
                continue;
            }
            let want = self.combined(op, *a, *b, scalar);
            let right = want.map_or(self.value(got).is_nan(), |want| want == got);
            let datatype = self.datatype;
            assert!(
                right,
                "{level:?} {datatype:?} {op:?} {a:#x} {b:#x} × {scalar}: {got:#x}, not {want:x?}"
            );
        }
    }

    /// Reduces sources of one length, each with its scalar.
    fn reduce(&self, level: Level, op: ReduceOp, sources: &[(&[u16], u8)]) -> Vec<u16> {
        let count = sources[0].0.len();
        // As u16 in either case, which aligns them.
        let packed = |bits: &[u16]| match self.datatype.bytes() {
            2 => bits.to_vec(),
            _ => bits.chunks(2).map(|two| two[0] | two.get(1).map_or(0, |b| b << 8)).collect(),
        };
        let memory: Vec<Vec<u16>> = sources.iter().map(|(bits, _)| packed(bits)).collect();
        let sources: Vec<Source> = memory
            .iter()
            .zip(sources)
            .map(|(memory, (_, scalar))| Source { at: memory.as_ptr().cast(), scalar: *scalar })
            .collect();
        let mut result = vec![0u16; count];
        let destinations = [result.as_mut_ptr().cast::<u8>()];
        let store = Store::Cached;
        let job = reduce::Job { op, destinations: &destinations, sources: &sources, count, store };
        // SAFETY: every buffer holds `count` elements, aligned to two bytes; the destination is
        // none of the sources; the processor has `level`.
        unsafe { reduce::run(level, self.datatype, job) };
        match self.datatype.bytes() {
            2 => result,
            _ => result.iter().flat_map(|two| [two & 0xff, two >> 8]).take(count).collect(),
        }
    }
}

/// Every n-th bit pattern of `bits` bits; every one but under an interpreter.
fn patterns(bits: u32) -> Vec<u16> {
    (0..=u16::MAX >> (16 - bits))
        .step_by(if cfg!(miri) { 1 << (bits - 4) | 1 } else { 1 })
        .collect()
}

const FP8: [DataType; 2] = [DataType::F8e4m3, DataType::F8e5m2];

#[test]
fn every_pair_of_fp8_numbers() {
    let numbers = patterns(8);
    let pairs = || numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b)));
    let (a, b): (Vec<u16>, Vec<u16>) = pairs().unzip();
    for reference in FP8.map(Reference::new) {
        for level in levels() {
            for op in ReduceOp::ALL {
                reference.check(level, op, &a, &b, 1);
            }
            for power in 1..8 {
                reference.check(level, ReduceOp::Mulsum, &a, &b, 1 << power);
            }
        }
    }
}

/// Every f16 and bf16 number with others that make every halfway point: half a unit in the last
/// place, a little more, a little less; and with 1, large and small numbers.
#[test]
fn every_half_and_bfloat16_number() {
    for reference in [DataType::Half, DataType::Bfloat16].map(Reference::new) {
        let numbers = patterns(16);
        let mantissa = reference.format.mantissa_bits as u16;
        let infinity = reference.format.largest as u16 + 1;
        let one = (infinity / 2) & !((1 << mantissa) - 1);
        let half_unit = |a: u16| (a & infinity).saturating_sub((mantissa + 1) << mantissa);
        let others: [&dyn Fn(u16) -> u16; 12] = [
            &|a| half_unit(a),
            &|a| half_unit(a) + 1,
            &|a| half_unit(a).saturating_sub(1),
            &|a| half_unit(a) | 0x8000,
            &|a| (half_unit(a) + 1) | 0x8000,
            &|_| one,
            &|_| one + 1,
            &|_| (one / 2 + 3) | 0x8000,
            &|_| infinity - 1,
            &|_| 1,
            &|_| infinity,
            &|a| a.rotate_left(7),
        ];
        for other in others {
            let b: Vec<u16> = numbers.iter().map(|a| other(*a)).collect();
            for level in levels() {
                for op in ReduceOp::ALL {
                    reference.check(level, op, &numbers, &b, 1);
                }
                reference.check(level, ReduceOp::Mulsum, &numbers, &b, 128);
            }
        }
    }
}

/// The average of a number and zeros, for numbers of ranks that divide nothing evenly, and enough
/// of them that rounding by way of another format would show.
#[test]
fn averages_are_rounded_once() {
    let types = [DataType::F8e4m3, DataType::F8e5m2, DataType::Half, DataType::Bfloat16];
    let many = if cfg!(miri) { vec![3] } else { vec![1, 3, 4, 7, 100, 129, 255, 257, 1000, 3001] };
    for reference in types.map(Reference::new) {
        let numbers = patterns(reference.format.bits());
        let zeros = vec![0; numbers.len()];
        for &ranks in &many {
            let mut sources = vec![(&zeros[..], 1); ranks];
            sources[0].0 = &numbers;
            // The zeros are one source many times over, so that this takes no memory to speak of.
            if ranks > 300 && reference.datatype.bytes() == 2 {
                continue;
            }
            for level in levels() {
                for (a, got) in numbers.iter().zip(reference.reduce(level, ReduceOp::Avg, &sources))
                {
                    let sum =
                        if ranks == 1 { reference.value(*a) } else { reference.value(*a) + 0.0 };
                    let saturated = reference.nearest(sum).map(|sum| reference.value(sum));
                    let want = saturated.and_then(|sum| reference.nearest(sum / ranks as f64));
                    let right = want.map_or(reference.value(got).is_nan(), |want| want == got);
                    assert!(
                        right,
                        "{level:?} {:?} {a:#x} / {ranks}: {got:#x}, not {want:x?}",
                        reference.datatype
                    );
                }
            }
        }
    }
}

/// The first source's scalar is a step of its own.
#[test]
fn the_first_source_is_scaled_too() {
    for datatype in FP8.into_iter().chain([DataType::Half, DataType::Bfloat16]) {
        let reference = Reference::new(datatype);
        let numbers = patterns(reference.format.bits());
        let zeros = vec![0x8000u16 >> (16 - reference.format.bits()); numbers.len()];
        for level in levels() {
            for scalar in [2, 128] {
                let sources = [(&numbers[..], scalar), (&zeros[..], 1)];
                for (a, got) in
                    numbers.iter().zip(reference.reduce(level, ReduceOp::Mulsum, &sources))
                {
                    let want = reference.nearest(reference.value(*a) * f64::from(scalar));
                    let right = want.map_or(reference.value(got).is_nan(), |want| want == got);
                    assert!(
                        right,
                        "{level:?} {datatype:?} {a:#x} × {scalar}: {got:#x}, not {want:x?}"
                    );
                }
            }
        }
    }
}
