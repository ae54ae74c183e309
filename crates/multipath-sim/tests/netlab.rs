//! The simulated bed against the real one (docs/netlab.md, docs/benchmarks.md).
//! Not properties of the transport (`properties`).

mod bed;

use std::time::{Duration, Instant};

use bed::{Bed, MIB, MILLI, goodput};
use busbw_multipath_sim::{Change, tcp::Algorithm, transport::Endless};

#[test]
fn bars() {
    let spread: Vec<usize> = (0..16).map(|path| path % 4).collect();
    for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
        for (case, offload) in [("even", true), ("quarter", true), ("loss", false), ("hash", true)]
        {
            let mut values = Vec::new();
            let began = Instant::now();
            for seed in 0..5 {
                let mut bed = Bed::four(seed);
                bed.tcp.algorithm = algorithm;
                bed.tcp.offload = offload;
                match case {
                    "quarter" => bed.change(0, Change::Rate(250_000_000)),
                    "loss" => bed.change(0, Change::Loss(0.01)),
                    _ => {}
                }
                let pair = bed.connect(if case == "hash" { &[] } else { &spread });
                let mut endless = Endless::new(&[pair], MIB, 8);
                values.push(goodput(&mut bed, &mut endless, Duration::ZERO, 4000 * MILLI));
            }
            println!("{algorithm:?} {case}: {values:.2?} {:?}", began.elapsed() / 5);
        }
    }
}
