//! Command lines and NCCL_TESTS_* values: from words to a plan, and what every plan must keep to.
//! Not the run of a plan, and no file but the traffic matrix that the input itself holds.
#![no_main]

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    fs::File,
    io::{Seek, Write},
    os::{fd::AsRawFd, unix::ffi::OsStringExt},
    sync::{Mutex, PoisonError},
};

use busbw_cli::options::HostResources;
use busbw_cli::options::{self, Command, Environment};
use busbw_core::{
    Collective,
    messages::Messages,
    plan::{Case, Plan, Sweep},
};
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_runner::{
    backend::nccl::{Gpus, Libraries},
    request::Request,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// Sizes that are looked at in one plan; `-b 1 -e 4G -i 1` has four thousand million.
const SIZES: usize = 10_000;

const MATRIX: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";

const VARIABLES: [&str; 9] = [
    "NCCL_TESTS_DEVICE",
    "NCCL_TESTS_SPLIT",
    "NCCL_TESTS_SPLIT_MASK",
    "NCCL_TESTS_MIN_BW",
    "NCCL_TESTS_ALLTOALLV_SPREAD",
    MATRIX,
    "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
    "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY",
    "BUSBW_NO_RECORD",
];

const LAUNCHERS: [&str; 12] = [
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "PMI_SIZE",
    "PMI_RANK",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_PROCID",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "PALS_SIZE",
    "PALS_RANKID",
    "WORLD_SIZE",
    "RANK",
];

// An input is a command line, one word a line, with NAME=value lines before it as in a shell.
fuzz_target!(|data: &[u8]| {
    let lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
    let first = lines.iter().position(|line| variable(line).is_none()).unwrap_or(lines.len());
    let (settings, words) = lines.split_at(first);
    let words = words.iter().map(|word| OsString::from_vec(word.to_vec()));
    let planned: Vec<Request> = match options::parse(words) {
        Ok(Command::Bench { benchmark, style, program, arguments }) => {
            let environment = environment(settings);
            // Once on a machine without GPUs, once on one with eight.
            let libraries = Libraries {
                amd: false,
                driver: "libcuda.so.1".into(),
                nccl: "libnccl.so.2".into(),
            };
            let eight = Gpus { count: 8, memory: 1 << 37, libraries };
            let planned = [Err("there are none".to_owned()), Ok(eight)].map(|gpus| {
                let mpi = Err("there is none".to_owned());
                let host_resources =
                    HostResources { cores: 4, cores_of_parent: 4, gpus, mpi, seed: 1 };
                options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
                    .map_err(|refusal| assert!(!refusal.to_string().is_empty()))
                    .ok()
            });
            planned.into_iter().flatten().collect()
        }
        Ok(_) => Vec::new(),
        Err(refusal) => {
            assert!(!refusal.render().to_string().is_empty());
            // Help and version leave with 0, every mistake with 2.
            let wanted = if refusal.use_stderr() { 2 } else { 0 };
            assert_eq!(refusal.exit_code(), wanted, "{refusal:?}");
            Vec::new()
        }
    };
    share::count(!planned.is_empty());
    planned.iter().for_each(check);
});

/// `NAME=value` of a name that busbw reads.
fn variable(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let at = line.iter().position(|b| *b == b'=')?;
    let name = std::str::from_utf8(&line[..at]).ok()?;
    let known = VARIABLES.into_iter().chain(LAUNCHERS).find(|known| *known == name)?;
    Some((known, &line[at + 1..]))
}

/// The environment that the settings make. The matrix file's value is its text with `;` for the
/// ends of lines, since no input may name a file of this machine.
fn environment(settings: &[&[u8]]) -> Environment {
    let settings: HashMap<&str, String> = settings
        .iter()
        .filter_map(|line| variable(line))
        .map(|(name, value)| (name, String::from_utf8_lossy(value).into_owned()))
        .collect();
    Environment::read(|name| {
        let value = settings.get(name)?;
        Some(if name == MATRIX { matrix_file(value) } else { value.clone() })
    })
}

/// A file without a name that holds the text; the same one every time.
fn matrix_file(text: &str) -> String {
    static FILE: Mutex<Option<File>> = Mutex::new(None);
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let file = file.get_or_insert_with(|| {
        let path = std::env::temp_dir().join(format!("busbw-fuzz-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.expect("cannot make a file for the matrix");
        std::fs::remove_file(&path).expect("cannot remove the matrix file's name");
        file
    });
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(text.replace(';', "\n").as_bytes()));
    written.expect("cannot write the matrix");
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// What holds for every request that was not refused.
fn check(request: &Request) {
    let plan = &request.plan;
    let ranks = plan.ranks();
    assert!((1..=4096).contains(&ranks), "{ranks} ranks");
    assert!(plan.colours.is_empty() || plan.colours.len() == ranks);
    assert!(plan.iterations > 0 && plan.aggregated > 0);
    assert!(plan.sampling.min_batches > 0 && plan.sampling.launches > 0);
    assert!(plan.per_iteration_skip < plan.iterations);
    assert!(request.remarks.iter().all(|remark| !remark.is_empty()));

    let sweeps = plan.sweeps();
    assert!(!sweeps.is_empty());
    let sizes = sizes(plan);
    assert!(plan.warmup_sizes().count() <= 64, "doubling ends after 63 steps");

    let groups = plan.groups();
    assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), ranks);
    let lengths: BTreeSet<usize> = groups.iter().map(Vec::len).collect();
    // A root is a rank of every communicator.
    let least = lengths.first().copied().unwrap_or(0);
    assert!(!plan.roots.is_empty());
    assert!(plan.roots.iter().all(|root| *root < least), "{:?} of {lengths:?}", plan.roots);
    // Neither root nor operator matters to a count, so one sweep of a type stands for all.
    let mut sweeps: Vec<Sweep> = sweeps;
    sweeps.dedup_by_key(|sweep| sweep.datatype);
    for (sweep, collective) in
        sweeps.into_iter().filter_map(|sweep| Some((sweep, plan.benchmark.collective()?)))
    {
        for &bytes in sizes.iter().take(24).chain(sizes.iter().rev().take(8)) {
            for &length in lengths.iter().take(4) {
                fits(plan, &plan.case(collective, sweep, bytes, length), length);
            }
        }
    }

    let json = serde_json::to_string(plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert_eq!(&again, plan, "ranks would get another plan: {json}");
}

/// The first sizes of the sweep, and the last one where there are more.
fn sizes(plan: &Plan) -> Vec<u64> {
    let mut sizes: Vec<u64> = plan.sizes().take(SIZES).collect();
    assert_eq!(sizes.first(), Some(&plan.min_bytes));
    // Rising by at least one byte up to a last one: that ends.
    assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(sizes.iter().all(|size| *size <= plan.max_bytes));
    if sizes.len() == SIZES {
        sizes.push(plan.max_bytes);
    }
    sizes
}

/// A case stays within the buffers, wherever an iteration or a rank puts it.
fn fits(plan: &Plan, case: &Case, ranks: usize) {
    let element = case.sweep.datatype.bytes();
    let counts = case.counts;
    let size = counts.bytes(element);
    let room = plan.data_bytes();
    assert!(size <= room, "{size} bytes in buffers of {room}: {case:?}");
    // In alltoallv a rank's own totals may differ from the busiest rank's.
    if case.collective != Collective::AllToAllV {
        let last = ranks - 1;
        let sent = last * counts.send_in_place_stride + counts.send;
        let received = last * counts.recv_in_place_stride + counts.recv;
        assert!(sent.max(received) * element <= room, "in place: {case:?} of {ranks} ranks");
    }
    for iteration in [0, 1, 2, u64::from(plan.iterations) - 1, u64::MAX] {
        let shift = plan.shift(case, iteration);
        assert!(shift + size <= room, "iteration {iteration}: {shift} + {size} > {room}");
    }
    assert!(plan.buffer_bytes() >= room);
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let pieces = match draw.below(16) {
        0..=5 => fresh_line(&mut draw),
        6..=13 => {
            let mut pieces = pieces(&data[..size]);
            for _ in 0..=draw.below(3) {
                edit(&mut draw, &mut pieces, another);
            }
            pieces
        }
        14 => {
            let mut pieces = fresh_line(&mut draw);
            let at = draw.below(pieces.len() + 1);
            pieces.insert(at, stray(&mut draw));
            pieces
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(&pieces.join(&b'\n'), data, max_size)
});

/// Cuts an input into settings, the program's words, and options with their values.
fn pieces(data: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for line in data.split(|b| *b == b'\n') {
        let is_value = !line.starts_with(b"-")
            && pieces.last().is_some_and(|last| last.starts_with(b"-") && !last.contains(&b'\n'));
        match pieces.last_mut() {
            Some(last) if is_value => {
                last.push(b'\n');
                last.extend_from_slice(line);
            }
            _ => pieces.push(line.to_vec()),
        }
    }
    pieces
}

/// A piece for the place of `old`: of its kind, mostly.
fn another(draw: &mut Draw, old: Option<&Vec<u8>>) -> Vec<u8> {
    if draw.one_in(12) {
        return stray(draw);
    }
    let Some(old) = old else { return option(draw).into_bytes() };
    if variable(old).is_some() {
        return setting(draw).into_bytes();
    }
    if !old.starts_with(b"-") {
        return program(draw).into_bytes();
    }
    option(draw).into_bytes()
}

/// A line that is right, but for options that happen to exclude each other.
fn fresh_line(draw: &mut Draw) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for _ in 0..draw.pick(&[0, 0, 0, 1, 2]) {
        pieces.push(setting(draw));
    }
    if draw.one_in(12) {
        matrix_run(draw, &mut pieces);
    } else {
        pieces.push(program(draw));
        if draw.one_in(2) {
            let last = draw.pick(&["64M", "1G", "33554432", "1e9", "100000000", "4Gib"]);
            pieces.push(format!("-e\n{last}"));
        }
    }
    for _ in 0..draw.below(7) {
        pieces.push(option(draw));
    }
    pieces.into_iter().map(String::into_bytes).collect()
}

/// alltoallv with a matrix that suits its ranks and its one size.
fn matrix_run(draw: &mut Draw, pieces: &mut Vec<String>) {
    let ranks = 1 + draw.below(4);
    let width = draw.pick(&[4, 10, 20, 62]);
    let row = |draw: &mut Draw| {
        (0..ranks).map(|_| draw.number(width).to_string()).collect::<Vec<_>>().join(" ")
    };
    let rows: Vec<String> = (0..ranks).map(|_| row(draw)).collect();
    pieces.push(format!("{MATRIX}={}", rows.join(";")));
    pieces.push(draw.pick(&["busbw\nalltoallv", "alltoallv_perf"]).to_owned());
    let size = if width < 20 { 64 << 10 } else { 1u64 << (width + 2).min(62) };
    pieces.push(format!("-g\n{ranks}\n-b\n{size}\n-e\n{size}"));
}

fn program(draw: &mut Draw) -> String {
    let name = draw.pick(&Collective::ALL).name();
    match draw.below(5) {
        4 => format!("busbw\n{}", draw.pick(&Messages::ALL).name()),
        0 | 1 => format!("busbw\n{name}"),
        2 => format!("{name}_perf"),
        _ => format!("./build/{name}_perf{}", draw.pick(&["", "_mpi", "é"])),
    }
}

fn setting(draw: &mut Draw) -> String {
    let name = draw.pick(&VARIABLES);
    let number = draw.number(16);
    let value = match name {
        "NCCL_TESTS_DEVICE" => draw.pick(&["0", "1", " 7", "0x10", "-1", "x"]).to_owned(),
        "NCCL_TESTS_SPLIT" => {
            let operator = draw.pick(&["AND", "or ", "MOD ", "%", "/", "&0x", "| 0b", "D I V"]);
            format!("{operator}{}", number % 13)
        }
        "NCCL_TESTS_SPLIT_MASK" => format!("{}{number:x}", draw.pick(&["", "0x", "0X"])),
        "NCCL_TESTS_MIN_BW" => {
            draw.pick(&["0", "-1", "300.5", "1e-9", "inf", "1e400", "nan", "-0", "fast"]).to_owned()
        }
        "NCCL_TESTS_ALLTOALLV_SPREAD" => {
            draw.pick(&["0", "1", "0.5", "-0.0", "1e-320", "0.30000000000000004", "2"]).to_owned()
        }
        "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE" => {
            draw.pick(&["1", "0", "0.1", "1e12", "-1"]).to_owned()
        }
        MATRIX => draw.pick(&["0 1;2 3", "16", "", "# no numbers", "1 2;3", "1e3 inf"]).to_owned(),
        _ => draw.pick(&["0", "1", "", " "]).to_owned(),
    };
    // A job of several ranks refuses everything, so it comes seldom.
    if draw.one_in(40) {
        let at = 2 * draw.below(LAUNCHERS.len() / 2);
        return format!("{}={}\n{}=0", LAUNCHERS[at], draw.pick(&["1", "2"]), LAUNCHERS[at + 1]);
    }
    format!("{name}={value}")
}

/// What an option's value is.
#[derive(Clone, Copy)]
enum Value {
    /// A whole number of these bounds.
    Count(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// None: the option is a switch.
    Nothing,
}

use Value::{Count, Nothing, Word};

const SWITCH: Value = Word(&["0", "1", "1", "2", "-1"]);

const SMALL_SIZES: Value = Word(&[
    "8", "0", "1", "4", "16", "1K", "1.5K", " 4 k", "100", "1e3", ".5K", "64Kib", "1000003",
]);

const LARGE_SIZES: Value =
    Word(&["32M", "128m", "1G", "8Gib", "4294967297", "1e15", "1e18", "4e9G"]);

const TYPES: Value = Word(&[
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2", "all",
]);

/// Short and long name, if any, and the value.
const OPTIONS: [(&str, &str, Value); 44] = [
    ("-t", "--nthreads", Count(1, 8)),
    ("-g", "--ngpus", Count(1, 16)),
    ("-g", "--ngpus", Count(1, 512)),
    ("-b", "--minbytes", SMALL_SIZES),
    ("-e", "--maxbytes", LARGE_SIZES),
    ("-i", "--stepbytes", SMALL_SIZES),
    ("-i", "--stepbytes", LARGE_SIZES),
    ("-f", "--stepfactor", Count(2, 1 << 40)),
    ("-n", "--iters", Count(1, 1 << 30)),
    ("-m", "--agg_iters", Count(1, 1 << 20)),
    ("-w", "--warmup_iters", Count(0, 1 << 30)),
    ("-N", "--run_cycles", Count(0, 1 << 60)),
    ("-a", "--average", Count(0, 3)),
    ("-z", "--blocking", Count(0, 3)),
    ("", "--batches", Count(0, 1 << 31)),
    ("", "--precision", Word(&["2%", "0.02", "1e-300", " 99.999 %", "33.333333333333336%"])),
    ("", "--max-time", Word(&["1", "0.5s", "1e300", "3e-5ss", "5e-324"])),
    ("", "--repeat", Count(0, 1 << 31)),
    ("-c", "--check", Count(0, 1 << 30)),
    ("-o", "--op", Word(&["sum", "prod", "max", "min", "avg", "mulsum", "all"])),
    ("-d", "--datatype", TYPES),
    ("-d", "--datatype", TYPES),
    ("-r", "--root", Word(&["0", "0", "all", "-1", "1", "0x0"])),
    ("-u", "--unalign", Count(0, 1 << 20)),
    ("-I", "--per_iter_timing", SWITCH),
    ("-K", "--per_iter_skip", Count(0, 30)),
    ("-S", "--report_timestamps", SWITCH),
    ("-C", "--report_cputime", SWITCH),
    ("-M", "--memory", SWITCH),
    ("-J", "--output_file", Word(&["out.json", "", "/dev/null", "é"])),
    ("", "--csv", Nothing),
    ("", "--json", Nothing),
    ("", "--record", Word(&["r.jsonl", "/tmp"])),
    ("", "--no-record", Nothing),
    ("-T", "--timeout", Count(0, 1 << 30)),
    ("-G", "--cudagraph", Count(0, 1 << 20)),
    ("-p", "--parallel_init", SWITCH),
    ("-y", "--stream_null", SWITCH),
    ("-R", "--local_register", Count(0, 2)),
    ("-x", "--cta_policy", Count(0, 2)),
    ("-V", "--device_cta_count", Count(0, 200)),
    ("", "--backend", Word(&["host", "fake"])),
    ("", "--seed", Count(0, u64::MAX)),
    ("", "--fault", Word(&["rank=1,phase=verify,row=7,do=corrupt:12", "do=slow:1.1", "do=kill"])),
];

/// One option that is right by itself.
fn option(draw: &mut Draw) -> String {
    let (short, long, value) = draw.pick(&OPTIONS);
    let value = match value {
        Count(least, most) => {
            let between = least + draw.number(63) % (most - least).max(1);
            let number = draw.pick(&[between, between, between, least, most]);
            // Only nccl-tests' own numbers are read in C's bases.
            match draw.below(8) {
                0 if !short.is_empty() => format!("0x{number:x}"),
                1 if !short.is_empty() => format!("0{number:o}"),
                _ => number.to_string(),
            }
        }
        Word(words) => draw.pick(words).to_owned(),
        Nothing => return long.to_owned(),
    };
    if short.is_empty() || draw.one_in(4) {
        let cut = if short.is_empty() { long.len() } else { 3 + draw.below(long.len() - 2) };
        let name = if draw.one_in(3) { &long[..cut] } else { long };
        return format!("{name}{}{value}", draw.pick(&["=", "\n"]));
    }
    format!("{short}{}{value}", draw.pick(&["", "\n", "\n", "\n"]))
}

/// A word that does not belong, or is wrong.
fn stray(draw: &mut Draw) -> Vec<u8> {
    const WORDS: [&[u8]; 36] = [
        b"",
        b"-",
        b"--",
        b"---",
        b"-h",
        b"--help",
        b"--version",
        b"--h",
        b"stray",
        b"\xff\xfe",
        b"-n\n0x-8000000000000000",
        b"-n-0x-8000000000000000",
        b"-N-0x-8000000000000000",
        b"-n\n9223372036854775808",
        b"-n\n0x+5",
        b"-n\n 5 ",
        b"-D\n1\n-R\n2",
        b"-D\n1",
        b"-q",
        b"-b\n1T",
        b"-b\n-1",
        b"-e\n4611686018427387904",
        b"-e\n4611686018427387903",
        b"-b\n1e400",
        b"-d\nflaot",
        b"-o\nmix",
        b"-g\n4096",
        b"-g\n4097",
        b"-t\n4096",
        b"-r\n4095",
        b"--seed\n-1",
        b"show",
        b"lint",
        b"__rank\n3",
        b"--fault\nrank=18446744073709551615,do=stop",
        b"--=",
    ];
    if draw.one_in(6) {
        return (0..draw.below(6)).map(|_| draw.bits() as u8).collect();
    }
    draw.pick(&WORDS).to_vec()
}
