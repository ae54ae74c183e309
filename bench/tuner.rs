//! What one call of the tuner takes, through the table that NCCL calls, with the clock's own time beside it.
//! `cargo bench -p nccl-tuner-busbw --bench tuner`. Not what a choice gains.

use std::{ffi::c_int, fmt::Write, hint::black_box, ptr, time::Instant};

use busbw_tuner_file::{Algorithm, Collective, Digest, Entry, Protocol, TunerFile};
use nccl_plugin_abi::Status;
use nccl_tuner_busbw::exported::ncclTunerPlugin_v4;

/// Calls that are timed one by one.
const CALLS: usize = 200_000;
/// The same where the caches are emptied before each.
const COLD_CALLS: usize = 5_000;
/// More than the second-level cache of the machines in bench/README.md.
const OTHER_WORK_BYTES: usize = 4 << 20;

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Anyhow<()> {
    let mut clock: Vec<u64> = (0..CALLS).map(|_| timed(|| ())).collect();
    println!("{:<34} {}", "the clock alone", percentiles(&mut clock));
    let folder = std::env::temp_dir().join(format!("busbw-bench-tuner-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("tuner.csv");
    let mut said = String::new();
    for entries in [0, 20, 400, 4096] {
        let text = file(entries).to_string();
        std::fs::write(&path, &text)?;
        let value = format!("{}#sha256={}", path.display(), Digest::of(text.as_bytes()));
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("BUSBW_TUNER", value) };
        report(entries, &mut said)?;
    }
    std::fs::remove_dir_all(&folder)?;
    print!("{said}");
    Ok(())
}

/// Entries of every collective, beside and over one another, some for two operations in one.
fn file(entries: usize) -> TunerFile {
    let entry = |at: usize| {
        let from = (at as u64 / 10) * 4099;
        Entry {
            collective: Collective::ALL[at % 5],
            least_bytes: from,
            most_bytes: from + 5000,
            algorithm: Algorithm::Ring,
            protocol: if at.is_multiple_of(2) { Protocol::Ll } else { Protocol::Simple },
            channels: Some(8),
            nodes: None,
            ranks: None,
            pipe_ops: (at % 10 > 4).then_some(2),
        }
    };
    TunerFile { entries: (0..entries).map(entry).collect() }
}

fn report(entries: usize, said: &mut String) -> Anyhow<()> {
    let table = ncclTunerPlugin_v4.0;
    let (Some(init), Some(ask), Some(end)) = (table.init, table.ask, table.end) else {
        return Err("the table lacks a function".into());
    };
    let mut context = ptr::null_mut();
    // SAFETY: as NCCL calls it.
    if unsafe { init(8, 2, None, &raw mut context) } != Status::SUCCESS {
        return Err("init failed".into());
    }
    let mut costs = [[5.0_f32; 3]; 7];
    let mut state = 1_u64;
    let mut call = || {
        // A generator of Knuth's (MMIX): sizes and collectives that no branch predictor knows.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = (state >> 32) as usize % (4099 * (entries / 10 + 2));
        let (function, operations) = ((state >> 13) as c_int & 3, 1 + (state >> 11 & 1) as c_int);
        let mut channels = 0;
        timed(|| {
            // SAFETY: as NCCL calls it.
            let status = unsafe {
                let table = costs.as_mut_ptr().cast();
                ask(context, function, bytes, operations, table, 7, 3, 0, &raw mut channels)
            };
            black_box((status, channels));
        })
    };
    let mut warm: Vec<u64> = (0..CALLS).map(|_| call()).collect();
    let mut other = vec![0_u8; OTHER_WORK_BYTES];
    let mut cold: Vec<u64> = (0..COLD_CALLS)
        .map(|round| {
            other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(round as u8));
            black_box(&mut other);
            call()
        })
        .collect();
    // SAFETY: as NCCL calls it.
    unsafe { end(context) };
    writeln!(said, "{:<34} {}", format!("{entries} entries"), percentiles(&mut warm))?;
    let name = format!("{entries} entries, caches emptied");
    writeln!(said, "{name:<34} {}", percentiles(&mut cold))?;
    Ok(())
}

/// Nanoseconds, the clock's own among them.
fn timed(act: impl FnOnce()) -> u64 {
    let begun = Instant::now();
    act();
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn percentiles(times: &mut [u64]) -> String {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    format!(
        "median {:>4} ns, 99 % {:>4} ns, 99.9 % {:>5} ns, largest {:>7} ns, {} calls",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        times.len()
    )
}
