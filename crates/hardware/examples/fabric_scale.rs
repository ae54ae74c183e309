//! How long forecasts of 100,000 GPUs take, and how much memory:
//!   cargo run --release -p busbw-hardware --example fabric_scale [FABRIC GPUS JOB COLLECTIVE PLACEMENT]
//! Not whether they come true. Output: bench/results/fabric_scale.txt.

use std::error::Error;
use std::time::Instant;

use busbw_core::Collective;
use busbw_hardware::fabric::{Routing, ready};
use busbw_hardware::forecast::{Placement, Question};

/// Fabric, routing, GPUs, job, collective, placement.
type Case = (&'static str, Routing, usize, &'static str, Collective, Placement);

fn main() -> Result<(), Box<dyn Error>> {
    use Collective::{AllGather, AllReduce, AllToAll, HyperCube, SendRecv};
    let (packed, scattered) = (Placement::Packed, Placement::Scattered(1));
    let (spray, ecmp) = (Routing::Spray, Routing::Ecmp);
    let cases: Vec<Case> = vec![
        ("clos-3tier", spray, 99_968, "tp8,pp8,dp", AllReduce, packed),
        ("clos-3tier", spray, 99_968, "tp8,pp8,dp", AllToAll, packed),
        ("clos-3tier", spray, 99_968, "tp8,pp8,dp", SendRecv, packed),
        ("clos-3tier", spray, 99_968, "ep64", AllReduce, packed),
        ("clos-3tier", spray, 99_968, "ep64", AllToAll, packed),
        ("multi-plane", spray, 131_072, "tp8,pp8,dp", AllReduce, packed),
        ("multi-plane", spray, 131_072, "ep64", AllToAll, packed),
        ("clos-3tier", spray, 102_400, "all", AllReduce, packed),
        ("clos-3tier", spray, 102_400, "all", AllToAll, packed),
        ("clos-3tier", spray, 99_968, "tp8,pp8,dp", AllGather, scattered),
        ("clos-3tier", spray, 99_968, "ep64", AllReduce, scattered),
        ("clos-3tier", spray, 99_968, "ep64", AllToAll, scattered),
        ("clos-3tier", ecmp, 99_968, "tp8,pp8,dp", AllReduce, packed),
        ("clos-3tier", ecmp, 99_968, "ep64", AllReduce, packed),
        ("clos-3tier", ecmp, 99_968, "ep64", AllToAll, packed),
        ("clos-3tier", spray, 65_536, "all", HyperCube, packed),
        ("clos-3tier", ecmp, 99_968, "ep64", HyperCube, scattered),
        ("clos-2tier", ecmp, 1024, "all", AllToAll, packed),
        ("clos-2tier", ecmp, 1020, "all", AllToAll, packed),
        ("clos-2tier", ecmp, 2048, "all", AllToAll, scattered),
        ("clos-3tier", ecmp, 4096, "all", AllToAll, packed),
    ];
    let only: Option<usize> = std::env::args().nth(1).map(|word| word.parse()).transpose()?;
    println!(
        "{:>3} {:<12} {:<6} {:>7} {:<11} {:<11} {:<10} {:>8} {:>9}  8 GiB: busbw (range) by dimension",
        "", "fabric", "routes", "GPUs", "job", "collective", "placement", "seconds", "peak MiB"
    );
    let sizes: Vec<u64> = (3..=33).map(|power| 1 << power).collect();
    let cases = cases.into_iter().enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at));
    for (at, (name, routing, gpus, job, collective, placement)) in cases {
        let begin = Instant::now();
        let mut fabric = ready::ready(name).ok_or("no example")?;
        fabric.routing = routing;
        let question = Question {
            gpus,
            job: job.parse()?,
            placement,
            ..Question::new(fabric, collective, sizes.clone())
        };
        let answer = question.answer()?;
        let seconds = begin.elapsed().as_secs_f64();
        let placed = if placement == Placement::Packed { "packed" } else { "scattered" };
        print!(
            "{at:>3} {name:<12} {:<6} {gpus:>7} {job:<11} {:<11} {placed:<10} {seconds:>8.2} {:>9} ",
            routing.name(),
            collective.name(),
            peak_mib().map_or_else(|| "unknown".to_owned(), |mib| mib.to_string())
        );
        for dimension in &answer.dimensions {
            if let Some(last) = dimension.sizes.last() {
                let [low, high] = last.busbw_range;
                print!(
                    " {}{}: {:.1} ({low:.1} to {high:.1}) {} by {};",
                    dimension.name, dimension.ranks, last.busbw, last.algorithm, last.limited_by
                );
            }
        }
        println!();
    }
    Ok(())
}

/// The most memory that this process had so far (VmHWM of /proc/self/status); unknown elsewhere than on Linux.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}
