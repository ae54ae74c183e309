//! Defaults and checks of OSU's names: backend, sizes, loops, memory, and what else goes into the plan.
//! Not their grammar (`options::osu`).

use busbw_core::{
    Collective, DataType,
    alltoallv::Traffic,
    messages::Messages,
    plan::{BackendChoice, BufferMemory, GpuOptions, LargeMessages, Messaging, Osu, Step},
};

use super::{
    Asked, BenchArguments,
    messages::MAX_MESSAGE_BYTES,
    part::{self, Loops, Part, Sizes},
    ranks::Ranks,
};
use crate::options::BadOption;
use crate::options::osu::OsuArguments;

/// Beyond so many bytes messages are large (c/util/osu_util.h: LARGE_MESSAGE_SIZE).
const LARGE_MESSAGE_BYTES: u64 = 8192;
/// Last size of messages and of collectives (MAX_MESSAGE_SIZE, MAX_MSG_SIZE_COLL).
const MESSAGES_MAX_BYTES: u64 = 4 << 20;
const COLLECTIVES_MAX_BYTES: u64 = 1 << 20;
/// Timed and untimed iterations of small messages, then of large ones (LAT_, BW_ and COLL_LOOP_SMALL,
/// and what follows them there).
const LATENCY_LOOPS: [u32; 4] = [10_000, 100, 1000, 10];
const BANDWIDTH_LOOPS: [u32; 4] = [100, 10, 20, 2];
const COLLECTIVE_LOOPS: [u32; 4] = [1000, 100, 100, 10];
/// Windows of `-V` (c/util/osu_util_mpi.h: WINDOW_SIZES).
const WINDOWS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The part of one of OSU's names.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn part(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    osu: &OsuArguments,
) -> Result<Part, BadOption> {
    let collective = osu.program.benchmark.collective();
    let mut remarks = osu.remarks.clone();
    let sizes = sizes(osu, ranks.count(), &mut remarks)?;
    let loops = loops(osu, ranks.count())?;
    possible(osu, ranks)?;
    remarks.extend(part::crowding(asked, ranks));
    remarks.extend(unasked(asked, &ranks.backend));
    let checks = collective.is_none_or(Collective::moves_data) && osu.validate;
    let reduces = collective.is_some_and(Collective::reduces);
    // NCCL reduces floats in osu_xccl_*, and moves characters.
    let usual = if osu.program.is_xccl() && reduces { DataType::Float } else { DataType::Int8 };
    Ok(Part {
        sizes,
        loops,
        check: u32::from(checks),
        datatypes: if osu.types.is_empty() { vec![usual] } else { osu.types.clone() },
        roots: vec![osu.root],
        traffic: match collective {
            Some(Collective::AllToAllV) => Traffic::Even,
            _ => Traffic::default(),
        },
        latency: collective.is_some(),
        pairing: None,
        calls: None,
        osu: Some(Osu {
            full: osu.full,
            in_place: osu.in_place,
            rate: osu.rate,
            on_gpus: on_gpus(osu, &ranks.backend)?,
            accelerator: osu.accelerator.unwrap_or_default(),
        }),
        remarks,
        waived: osu.waived.clone(),
    })
}

/// Refuses numbers of ranks, roots and communicators that none of the programs can use.
fn possible(osu: &OsuArguments, ranks: &Ranks<'_>) -> Result<(), BadOption> {
    let (name, count) = (osu.program.name, ranks.count());
    if count < 2 {
        return Err(BadOption::new(format!(
            "{name} needs two ranks at least: use -g, or a launcher"
        )));
    }
    if osu.root >= count {
        return Err(BadOption::new(format!(
            "-k fixed:{}: with {count} ranks the root is 0 to {}",
            osu.root,
            count - 1
        )));
    }
    if !ranks.colours.is_empty() {
        return Err(BadOption::new(format!(
            "NCCL_TESTS_SPLIT makes communicators of nccl-tests' collectives: unset it for {name}"
        )));
    }
    Ok(())
}

/// The backend that is asked for; by default MPI, where its launcher and its library are there.
pub(super) fn backend(osu: &OsuArguments, a: &BenchArguments, has_mpi: bool) -> BackendChoice {
    a.backend.unwrap_or(match osu.program.is_xccl() || a.nccl.is_some() {
        true => BackendChoice::Nccl(GpuOptions::default()),
        false if has_mpi || a.mpi.is_some() => BackendChoice::Mpi,
        false => BackendChoice::Host,
    })
}

/// The remark about a default backend.
fn unasked(asked: &Asked<'_>, backend: &BackendChoice) -> Option<String> {
    let unasked = asked.arguments.backend.is_none() && *backend == BackendChoice::Host;
    unasked.then(|| {
        let why = match &asked.host_resources.mpi {
            Ok(_) => "no launcher started this (mpirun -n 2 …)",
            Err(why) => why,
        };
        format!(
            "MPI is not used, since {why}: this measures memory of this machine (--backend host)"
        )
    })
}

/// First and last size and the step; what does not fit into `-M` is left out with a remark.
fn sizes(osu: &OsuArguments, ranks: usize, remarks: &mut Vec<String>) -> Result<Sizes, BadOption> {
    let Some(collective) = osu.program.benchmark.collective() else {
        let last = osu.sizes[1].unwrap_or(MESSAGES_MAX_BYTES.max(osu.sizes[0].unwrap_or(0)));
        if last > MAX_MESSAGE_BYTES {
            return Err(BadOption::new(format!(
                "-m {last}: messages have 4 GiB ({MAX_MESSAGE_BYTES} bytes) at most"
            )));
        }
        return ordered(osu.sizes[0].unwrap_or(1), last);
    };
    if !collective.moves_data() {
        return Ok((0, 0, Step::Factor(2)));
    }
    let first = osu.sizes[0].unwrap_or(1);
    let last = osu.sizes[1].unwrap_or(COLLECTIVES_MAX_BYTES.max(first));
    let room = osu.memory / if collective.chunked() { ranks as u64 } else { 1 };
    if last > room {
        remarks.push(format!(
            "Warning! Limiting max message size to: {room}. Increase -M, --mem-limit for higher message sizes."
        ));
    }
    ordered(first, last.min(room))
}

fn ordered(first: u64, last: u64) -> Result<Sizes, BadOption> {
    if first <= last {
        return Ok((first, last, Step::Factor(2)));
    }
    Err(BadOption::new(format!(
        "-m: the first size is {first} and the last {last}: the first must not be above the last"
    )))
}

/// Iterations of small messages, timed and untimed, and the rest of the loops.
fn loops(osu: &OsuArguments, ranks: usize) -> Result<Loops, BadOption> {
    let test = osu.program.benchmark.messages();
    let [small, small_warmup, large, large_warmup] = match test {
        None => COLLECTIVE_LOOPS,
        Some(test) if test.is_latency() => LATENCY_LOOPS,
        Some(_) => BANDWIDTH_LOOPS,
    };
    let asked = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
    let (iterations, warmup) = (asked(osu.iterations), asked(osu.warmup));
    let messaging = Messaging {
        window: asked(osu.window).unwrap_or(Messaging::default().window),
        large: Some(LargeMessages {
            above: LARGE_MESSAGE_BYTES,
            iterations: iterations.unwrap_or(large),
            warmup: warmup.unwrap_or(large_warmup),
        }),
        percentiles: percentiles(osu),
        varied: if osu.varied { WINDOWS.to_vec() } else { Vec::new() },
        pairs: test.map(|test| pairs(test, osu, ranks)).transpose()?,
        separate: osu.separate,
    };
    Ok((iterations.unwrap_or(small), warmup.unwrap_or(small_warmup), messaging))
}

/// Percentiles of times: the fastest windows are those of the shortest times.
fn percentiles(osu: &OsuArguments) -> Vec<u8> {
    let bandwidth = osu.program.benchmark.messages().is_some_and(|test| !test.is_latency());
    let of = |percent: &u8| if bandwidth { 100 - percent } else { *percent };
    osu.percentiles.iter().map(of).collect()
}

/// How many pairs exchange messages. The remaining ranks only take part in barriers.
fn pairs(test: Messages, osu: &OsuArguments, ranks: usize) -> Result<usize, BadOption> {
    let name = osu.program.name;
    if !test.is_multiple() {
        return match ranks {
            2 => Ok(1),
            _ => Err(BadOption::new(format!(
                "{name} is between two ranks, and there are {ranks}: use -g 2, or two processes of a launcher"
            ))),
        };
    }
    let most = ranks / 2;
    match osu.pairs.unwrap_or(most) {
        0 => Err(BadOption::new(format!("{name} needs two ranks at least, and there are {ranks}"))),
        pairs if pairs > most => {
            Err(BadOption::new(format!("-p {pairs}: {ranks} ranks make {most} pairs at most")))
        }
        pairs => Ok(pairs),
    }
}

/// Which side's buffers lie on GPUs, as far as the backend can put them there.
fn on_gpus(osu: &OsuArguments, backend: &BackendChoice) -> Result<[bool; 2], BadOption> {
    match (backend.spec().buffers, osu.on_gpus()) {
        (BufferMemory::Host, Some(sides)) if sides.contains(&true) => Err(BadOption::impossible(
            "the host backend has no buffers on GPUs (D, -d cuda): use --backend nccl, --backend mpi under its launcher, or host memory (H)",
        )),
        (BufferMemory::Gpu, Some(sides)) if sides.contains(&false) => Err(BadOption::impossible(
            "NCCL moves memory of GPUs, and H asks for host memory: use D D, or --backend host",
        )),
        (BufferMemory::Gpu, _) => Ok([true; 2]),
        (_, asked) => Ok(asked.unwrap_or_default()),
    }
}
