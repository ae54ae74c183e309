//! Averages of floats as NCCL makes them: every contribution times 1/n, rounded to the type, before
//! anything is added (src/enqueue.cc, hostToDevRedOp: ncclDevPreMulSum). Within two numbers of what we
//! want in any order, and what is wrong is further off.

use super::*;
use crate::pattern::{Content, fill, verify_within};

/// Numbers of the type that such an average may be off: the tolerance that is given to NCCL.
const TOLERANCE: u64 = 2;

const FLOATS: [DataType; 6] = [
    DataType::Half,
    DataType::Float,
    DataType::Double,
    DataType::Bfloat16,
    DataType::F8e4m3,
    DataType::F8e5m2,
];

/// In what order ranks are added.
#[derive(Debug, Clone, Copy)]
enum Order {
    Ring,
    Tree,
    Random(u64),
}

/// The nearest number of the type, ties to even.
fn round(datatype: DataType, value: f64) -> u64 {
    match datatype {
        DataType::Double => value.to_bits(),
        DataType::Float => u64::from((value as f32).to_bits()),
        // Sums and products of two such numbers are exact in f32, and so is every 1/n in what
        // matters: the second rounding is that of the exact value (24 ≥ 2·11 + 2, Figueroa 1995).
        other => FloatFormat::of(other).unwrap().encode_f32(value as f32),
    }
}

/// NCCL's way, over the contributions of `ranks`.
fn nccl(reduction: &Reduction, ranks: &[usize], order: Order, index: u64) -> u64 {
    let Pattern { datatype, ranks: n, .. } = reduction.pattern;
    let format = FloatFormat::of(datatype).unwrap();
    let value = |bits| format.decode(bits);
    let scalar = value(round(datatype, 1.0 / n as f64));
    let mut parts: Vec<u64> = ranks
        .iter()
        .map(|rank| round(datatype, value(reduction.contribution(*rank, index)) * scalar))
        .collect();
    let add = |a: u64, b: u64| round(datatype, value(a) + value(b));
    if let Order::Random(seed) = order {
        // Any two of what is left, until one is.
        let mut state = seed;
        while parts.len() > 1 {
            let mut pick = |from: usize| {
                state = crate::pattern::derive_seed(state, 1);
                state as usize % from
            };
            let (i, len) = (pick(parts.len()), parts.len());
            let a = parts.swap_remove(i);
            let j = pick(len - 1);
            parts[j] = add(a, parts[j]);
        }
    }
    if let Order::Tree = order {
        while parts.len() > 1 {
            parts = parts.chunks(2).map(|p| p.iter().copied().reduce(add).unwrap()).collect();
        }
    }
    // From the middle on, as a ring does.
    let middle = parts.len() / 2;
    parts.rotate_left(middle);
    parts.into_iter().reduce(add).unwrap_or(0)
}

/// Numbers of the type between two.
fn distance(datatype: DataType, a: u64, b: u64) -> u64 {
    let sign = 1u64 << (8 * datatype.bytes() - 1);
    let place = |bits: u64| {
        let magnitude = (bits & (sign - 1)) as i64;
        if bits & sign == 0 { magnitude } else { -magnitude }
    };
    place(a).abs_diff(place(b))
}

/// Where 1/n is a normal number of the type.
fn provable(datatype: DataType, ranks: usize) -> bool {
    super::super::averages_within_two(datatype, ranks)
}

/// Every type, every number of ranks to 1024, and some beyond.
#[test]
fn nccls_averages_are_within_two_numbers() {
    let mut worst = std::collections::HashMap::new();
    for datatype in FLOATS {
        for ranks in (1..=1024).chain([4096, 10_000, 16_384]).filter(|n| provable(datatype, *n)) {
            let reduction =
                Reduction::new(Pattern { seed: ranks as u64, datatype, op: ReduceOp::Avg, ranks });
            // Only two contribute: what they are is all that orders could change.
            for group in 0..if ranks <= 64 { 300 } else { 60 } {
                let index = group * 8 / datatype.bytes() as u64;
                let first = Draw::new(reduction.pattern.seed, 0).below(
                    ROTATION_LANE,
                    group as u32,
                    ranks as u32,
                );
                let contributors = [first as usize, (first as usize + 1) % ranks];
                let two = if ranks == 1 { &contributors[..1] } else { &contributors[..] };
                let (got, want) =
                    (nccl(&reduction, two, Order::Ring, index), reduction.result(index));
                let off = distance(datatype, got, want);
                assert!(off <= TOLERANCE, "{datatype:?} {ranks} ranks: {got:#x} for {want:#x}");
                let worst = worst.entry(datatype).or_insert(0);
                *worst = off.max(*worst);
            }
        }
    }
    // They are off: the tolerance is needed.
    assert!(worst.values().any(|off| *off > 0), "{worst:?}");
}

/// All numbers that two ranks can contribute, for the types of 8 and 16 bits.
#[test]
fn whatever_is_drawn_is_within_two_numbers() {
    for datatype in [DataType::F8e4m3, DataType::F8e5m2, DataType::Bfloat16, DataType::Half] {
        let format = FloatFormat::of(datatype).unwrap();
        let (most, others): (i64, Vec<i64>) = match datatype {
            DataType::F8e4m3 | DataType::F8e5m2 => (8, vec![0]),
            DataType::Bfloat16 => (128, (1..=128).collect()),
            // Every x beside some y.
            _ => (1024, (1..=1024).step_by(89).collect()),
        };
        let all = (2..=1024).filter(|n| provable(datatype, *n));
        for ranks in all.step_by(if most > 8 { 13 } else { 1 }) {
            let scalar = format.decode(round(datatype, 1.0 / ranks as f64));
            let part = |x: i64| format.decode(round(datatype, x as f64 * scalar));
            for x in 1..=most {
                for y in &others {
                    let got = round(datatype, part(x) + part(*y));
                    let want = format.encode_ratio(x + y, ranks as u64, 0);
                    let off = distance(datatype, got, want);
                    assert!(off <= TOLERANCE, "{datatype:?} ({x} + {y}) / {ranks}: {off}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// In any order, with all the zeros of the ranks that do not contribute.
    #[test]
    fn orders_do_not_matter(
        seed in any::<u64>(), t in 0usize..6, ranks in 1usize..200, index in any::<u64>(), kind in 0u8..3,
    ) {
        let datatype = FLOATS[t];
        prop_assume!(provable(datatype, ranks));
        let reduction = Reduction::new(Pattern { seed, datatype, op: ReduceOp::Avg, ranks });
        let order = [Order::Ring, Order::Tree, Order::Random(seed)][usize::from(kind)];
        let all: Vec<usize> = (0..ranks).collect();
        let (got, want) = (nccl(&reduction, &all, order, index), reduction.result(index));
        prop_assert!(distance(datatype, got, want) <= TOLERANCE, "{:?} {:?} {}", datatype, order, ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// A contribution that is missing, or counted twice, is found nearly wherever it is not 0.
    #[test]
    fn what_is_missing_or_doubled_is_found(seed in any::<u64>(), t in 0usize..6, ranks in 2usize..65, odd in any::<prop::sample::Index>()) {
        let datatype = FLOATS[t];
        let pattern = Pattern { seed, datatype, op: ReduceOp::Avg, ranks };
        let reduction = Reduction::new(pattern);
        let odd = odd.index(ranks);
        let without: Vec<usize> = (0..ranks).filter(|r| *r != odd).collect();
        let twice: Vec<usize> = (0..ranks).chain([odd]).collect();
        // Some 32 groups to which a rank contributes.
        let elements = (32 * 8 * ranks / datatype.bytes()) as u64;
        let wrong = |order: &[usize]| {
            let (mut wrong, mut contributed) = (0, 0);
            let mut memory = Vec::new();
            for index in 0..elements {
                let got = nccl(&reduction, order, Order::Ring, index);
                memory.extend(&got.to_le_bytes()[..datatype.bytes()]);
                contributed += u64::from(reduction.contribution(odd, index) != 0);
            }
            let content = Content::Reduced { first: 0 };
            wrong += verify_within(&memory, &pattern, content, TOLERANCE as u32).wrong;
            (wrong, contributed)
        };
        for (wrong, contributed) in [wrong(&without), wrong(&twice)] {
            let least = contributed * 95 / 100;
            prop_assert!(contributed > 0 && wrong > 0 && wrong >= least, "{:?}: {} of {}", datatype, wrong, contributed);
        }
    }

    /// An element off by more than the tolerance is found.
    #[test]
    fn what_is_further_off_is_found(seed in any::<u64>(), t in 0usize..6, ranks in 1usize..65, at in 0usize..64, off in 3u64..6) {
        let datatype = FLOATS[t];
        let pattern = Pattern { seed, datatype, op: ReduceOp::Avg, ranks };
        let mut memory = vec![0; 64 * datatype.bytes()];
        fill(&mut memory, &pattern, Content::Reduced { first: 0 });
        let bits = Reduction::new(pattern).result(at as u64) + off;
        memory[at * datatype.bytes()..][..datatype.bytes()].copy_from_slice(&bits.to_le_bytes()[..datatype.bytes()]);
        let found = verify_within(&memory, &pattern, Content::Reduced { first: 0 }, TOLERANCE as u32);
        prop_assert_eq!((found.wrong, found.first.map(|w| w.index)), (1, Some(at as u64)));
    }
}
