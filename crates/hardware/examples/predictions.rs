//! NCCL's own predictions in a record (ncclGroupSimulateEnd) beside those of `busbw_hardware::tuning`:
//!   cargo run --release -p busbw-hardware --example predictions -- RECORD MACHINE [NODES]
//! MACHINE is a ready machine's name or a machine file; NODES those the ranks were spread over (1).
//! Not a measurement: both columns are predictions.

use std::{error::Error, path::Path};

use busbw_core::record::Folded;
use busbw_hardware::limits::RankPlacement;
use busbw_hardware::machine::{Machine, parse, ready};
use busbw_hardware::tuning::{Version, infer};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [record, machine, rest @ ..] = words.as_slice() else {
        return Err("say RECORD MACHINE [NODES]".into());
    };
    let nodes = rest.first().map_or(Ok(1), |word| word.parse::<usize>())?;
    compare(record, &machine_of(machine)?, nodes)
}

fn machine_of(word: &str) -> Result<Machine, Box<dyn Error>> {
    match ready(word) {
        Some(machine) => Ok(machine),
        None => Ok(parse(&text_of(word)?).map_err(|error| format!("{word}, {error}"))?),
    }
}

fn text_of(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

fn compare(path: &str, machine: &Machine, nodes: usize) -> Result<(), Box<dyn Error>> {
    let Folded { run, library, rows, .. } = busbw_store::read(Path::new(path))?;
    let code = run.nccl[1];
    let version = Version::from_code(code).ok_or_else(|| {
        format!("unknown release: the model of NCCL {code} is not known, 2.18 to 2.30 are")
    })?;
    println!("NCCL {code}, model of 2.{}; {}", version.minor, machine.name);
    let (mut compared, mut chosen, mut worst) = (0, 0, 0.0f64);
    for row in &rows {
        let Some((half, said)) = row
            .meaningful_halves()
            .find_map(|half| half.predicted_us.map(|predicted| (half, predicted)))
        else {
            continue;
        };
        let placement = RankPlacement::new(nodes, row.ranks / nodes.max(1));
        let mut inferred =
            infer(machine, &placement, version).map_err(|missing| missing.join(", "))?;
        for facts in &library {
            inferred.apply_log(facts);
        }
        if compared == 0 {
            for guess in &inferred.guessed {
                println!("guessed: {guess}");
            }
            println!(
                "{:>12} {:>12} {:>12} {:>8}  model chose, NCCL said",
                "size", "NCCL us", "model us", "ratio"
            );
        }
        let Some(collective) = row.benchmark.collective() else { continue };
        let Some(choice) = inferred.communicator.choose(collective, row.size) else { continue };
        let ratio = f64::from(choice.best.us) / said;
        let ours = format!("{} {}", choice.best.algorithm, choice.best.protocol.name());
        let theirs = half.figures.algorithm.as_deref().unwrap_or("-");
        println!(
            "{:>12} {said:>12.3} {:>12.3} {ratio:>8.4}  {ours}, {theirs}",
            row.size, choice.best.us
        );
        let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
        chosen += usize::from(plain(theirs).starts_with(&plain(&ours)));
        compared += 1;
        worst = worst.max((ratio - 1.0).abs());
    }
    if compared == 0 {
        return Err("no row of this record has a prediction of NCCL's".into());
    }
    println!(
        "{compared} sizes, same choice in {chosen}, times differ by {:.2} % at most",
        worst * 100.0
    );
    Ok(())
}
