//! Reductions against brute force: any order, any grouping, the type's own rounding at every step.

use super::*;
use crate::DataType;
use proptest::prelude::*;

mod averages;

/// One step of a reduction in the type's own arithmetic, by way of exact f64 and one rounding.
fn combine(datatype: DataType, op: ReduceOp, a: u64, b: u64) -> u64 {
    if let Some(format) = FloatFormat::of(datatype) {
        let (x, y) = (format.decode(a), format.decode(b));
        return match op {
            ReduceOp::Prod => to_bits(datatype, x * y),
            ReduceOp::Max => {
                if x > y {
                    a
                } else {
                    b
                }
            }
            ReduceOp::Min => {
                if x < y {
                    a
                } else {
                    b
                }
            }
            _ => to_bits(datatype, x + y),
        };
    }
    let (x, y) = (widen(datatype, a), widen(datatype, b));
    let value = match op {
        ReduceOp::Prod => x.wrapping_mul(y),
        ReduceOp::Max => x.max(y),
        ReduceOp::Min => x.min(y),
        _ => x.wrapping_add(y),
    };
    truncate(datatype, value as u64)
}

fn to_bits(datatype: DataType, value: f64) -> u64 {
    match datatype {
        DataType::Double => value.to_bits(),
        DataType::Float => {
            assert_eq!(f64::from(value as f32), value, "not exact in f32");
            u64::from((value as f32).to_bits())
        }
        other => {
            let format = FloatFormat::of(other).unwrap();
            let bits = format.encode_f32(value as f32);
            assert_eq!(format.decode(bits), value, "not exact in {other:?}");
            bits
        }
    }
}

fn widen(datatype: DataType, bits: u64) -> i128 {
    match datatype {
        DataType::Int8 => i128::from(bits as i8),
        DataType::Int32 => i128::from(bits as i32),
        DataType::Int64 => i128::from(bits as i64),
        DataType::Uint8 => i128::from(bits as u8),
        DataType::Uint32 => i128::from(bits as u32),
        _ => i128::from(bits),
    }
}

fn truncate(datatype: DataType, bits: u64) -> u64 {
    match datatype.bytes() {
        8 => bits,
        bytes => bits & ((1 << (8 * bytes)) - 1),
    }
}

fn scaled(datatype: DataType, rank: usize, bits: u64) -> u64 {
    let scalar = u64::from(ReduceOp::premul_scalar(rank));
    match FloatFormat::of(datatype) {
        Some(format) => to_bits(datatype, format.decode(bits) * scalar as f64),
        None => truncate(datatype, bits.wrapping_mul(scalar)),
    }
}

/// The reduction over `order`, left to right, then divided for avg.
fn brute_force(reduction: &Reduction, order: &[usize], index: u64) -> u64 {
    let Pattern { datatype, op, ranks, .. } = reduction.pattern;
    let input = |rank: usize| {
        let bits = reduction.contribution(rank, index);
        if op == ReduceOp::Mulsum { scaled(datatype, rank, bits) } else { bits }
    };
    let sum = order[1..]
        .iter()
        .fold(input(order[0]), |sum, rank| combine(datatype, op, sum, input(*rank)));
    if op != ReduceOp::Avg {
        return sum;
    }
    match FloatFormat::of(datatype) {
        None => truncate(datatype, (widen(datatype, sum) / ranks as i128) as u64),
        Some(format) => {
            let value = format.decode(sum) / ranks as f64;
            match datatype {
                DataType::Double => value.to_bits(),
                DataType::Float => u64::from((value as f32).to_bits()),
                // f32 division then one more rounding is exact: 24 >= 2·11 + 2 (Figueroa 1995).
                _ => format.encode_f32(format.decode(sum) as f32 / ranks as f32),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn exact_in_any_order(
        seed in any::<u64>(), t in 0usize..12, o in 0usize..6,
        ranks in 1usize..18, index in any::<u64>(), rotate in 0usize..17, reverse in any::<bool>(),
    ) {
        let (datatype, op) = (DataType::ALL[t], ReduceOp::ALL[o]);
        let reduction = Reduction::new(Pattern { seed, datatype, op, ranks });
        let mut order: Vec<usize> = (0..ranks).map(|r| (r + rotate) % ranks).collect();
        if reverse { order.reverse(); }
        let want = reduction.result(index);
        let got = brute_force(&reduction, &order, index);
        prop_assert_eq!(got, want, "{:?} {:?} {} ranks", datatype, op, ranks);
    }

    #[test]
    fn exact_as_a_tree(seed in any::<u64>(), t in 6usize..12, ranks in 1usize..18, index in any::<u64>()) {
        let datatype = DataType::ALL[t];
        let reduction = Reduction::new(Pattern { seed, datatype, op: ReduceOp::Sum, ranks });
        let mut level: Vec<u64> = (0..ranks).map(|r| reduction.contribution(r, index)).collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| match pair {
                [a, b] => combine(datatype, ReduceOp::Sum, *a, *b),
                _ => pair[0],
            }).collect();
        }
        prop_assert_eq!(level[0], reduction.result(index));
    }
}

/// A thousand ranks still add up exactly, and every rank matters somewhere.
#[test]
fn many_ranks() {
    for datatype in [DataType::F8e5m2, DataType::F8e4m3, DataType::Bfloat16, DataType::Half] {
        let ranks = 1000;
        let reduction = Reduction::new(Pattern { seed: 3, datatype, op: ReduceOp::Sum, ranks });
        let order: Vec<usize> = (0..ranks).collect();
        for index in 0..64 {
            assert_eq!(brute_force(&reduction, &order, index), reduction.result(index));
        }
        for rank in [0, 1, 500, 999] {
            assert!(
                (0..100_000).any(|i| reduction.contribution(rank, i) != 0),
                "{datatype:?} {rank}"
            );
        }
    }
}

/// A rank that is left out, or counted twice, shows within a few elements, for every type and op.
#[test]
fn a_missing_or_doubled_rank_shows() {
    for datatype in DataType::ALL {
        for op in ReduceOp::ALL {
            let reduction = Reduction::new(Pattern { seed: 11, datatype, op, ranks: 4 });
            for odd in 0..4 {
                let without: Vec<usize> = (0..4).filter(|r| *r != odd).collect();
                let twice = [0, 1, 2, 3, odd];
                let caught = |order: &[usize]| {
                    (0..64)
                        .any(|i| exact_or_none(&reduction, order, i) != Some(reduction.result(i)))
                };
                assert!(caught(&without), "{datatype:?} {op:?} without rank {odd}");
                // The largest of all is that of one twice as well.
                let idempotent = matches!(op, ReduceOp::Max | ReduceOp::Min);
                assert_eq!(caught(&twice), !idempotent, "{datatype:?} {op:?} rank {odd} twice");
            }
        }
    }
}

/// What [`brute_force`] gives, or nothing where that is no number of the type: a wrong result.
fn exact_or_none(reduction: &Reduction, order: &[usize], index: u64) -> Option<u64> {
    let exact = std::panic::AssertUnwindSafe(|| brute_force(reduction, order, index));
    std::panic::catch_unwind(exact).ok()
}

/// Results at neighbouring places, of and of another seed are not the same: an element
/// that lies in the wrong place, or is left over from before, shows.
#[test]
fn stale_and_displaced_elements_show() {
    const ELEMENTS: u64 = 4000;
    for datatype in DataType::ALL {
        for op in ReduceOp::ALL {
            let with = |seed| Reduction::new(Pattern { seed, datatype, op, ranks: 8 });
            let (reduction, later) = (with(11), with(12));
            let result = |i: u64| reduction.result(i);
            let others: [(&str, &dyn Fn(u64) -> u64); 5] = [
                ("the next", &|i| result(i + 1)),
                ("the next group", &|i| result(i + 8)),
                ("far away", &|i| result(i + (1 << 35))),
                ("another seed", &|i| later.result(i)),
                ("a contribution", &|i| reduction.contribution(3, i)),
            ];
            for (what, other) in others {
                let same = (0..ELEMENTS).filter(|i| other(*i) == result(*i)).count() as u64;
                // Sums of 8 ranks in f8e5m2 have three values, one of them 0, before scaling.
                assert!(same < ELEMENTS / 2, "{datatype:?} {op:?} {what}: {same}");
            }
        }
    }
}

/// Results take many values: no lane and no bit of the hash is stuck.
#[test]
fn results_are_spread() {
    for datatype in DataType::ALL {
        for op in ReduceOp::ALL {
            let reduction = Reduction::new(Pattern { seed: 3, datatype, op, ranks: 8 });
            let values: std::collections::HashSet<u64> =
                (0..4000).map(|i| reduction.result(i)).collect();
            let least = match (datatype.bytes(), FloatFormat::of(datatype)) {
                (1, Some(_)) => 9,
                (1, None) if op == ReduceOp::Avg => 31,
                (1, None) => 100,
                (2, _) => 100,
                _ => 3900,
            };
            assert!(values.len() >= least, "{datatype:?} {op:?}: {}", values.len());
        }
    }
}
