//! Events of every version as NCCL gives them, from several threads, and what is in the file then. Each scenario is a process
//! of its own, since a process has one recorder. Not a real NCCL (tests/gpu/profiler.sh).
#![allow(clippy::unwrap_used)]

mod played {
    pub mod calls;
    pub mod scenarios;
    pub mod versions;
}

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use busbw_watch_file::{
    Call, Class, Communicator, Heartbeat, Line, OpenCall, Steps, Totals, WatchFile,
};
use played::calls::{CHANNELS, GPU_CLOCK, KERNEL_TIME};
use played::scenarios::{self, CALLS, SCENARIO};
use tempfile::TempDir;

/// What a scenario left.
struct Left {
    folder: TempDir,
    stderr: String,
}

/// Runs a scenario in a process. All kernels are timed unless `variables` say otherwise.
fn play(name: &str, variables: &[(&str, &str)]) -> Left {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["scenario", "--exact", "--nocapture"]).env(SCENARIO, name);
    for name in ["RANK", "SLURM_JOB_ID", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    command
        .env("BUSBW_WATCH_DIR", folder.path())
        .env_remove("BUSBW_WATCH")
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let ended =
        output.status.success() || (name == "killed_early" && output.status.code().is_none());
    assert!(ended, "{name}: {}{stderr}", String::from_utf8_lossy(&output.stdout));
    Left { folder, stderr }
}

/// In the process of a scenario: plays it.
#[test]
fn scenario() {
    if let Ok(name) = std::env::var(SCENARIO) {
        scenarios::play(&name);
    }
}

impl Left {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The one file.
    fn file(&self) -> WatchFile {
        let [name] = &self.names()[..] else { panic!("{:?}", self.names()) };
        read(&self.folder.path().join(name))
    }
}

fn read(path: &Path) -> WatchFile {
    let file = WatchFile::parse(&fs::read(path).unwrap()).unwrap();
    assert_eq!((file.unread, file.torn), (0, false));
    file
}

fn calls(file: &WatchFile) -> BTreeMap<Class, Vec<Call>> {
    let mut all = BTreeMap::<Class, Vec<Call>>::new();
    for line in &file.lines {
        if let Line::Calls(one) = line {
            all.entry(one.class.clone()).or_default().extend(&one.calls);
        }
    }
    all
}

fn only<T>(file: &WatchFile, kind: impl Fn(&Line) -> Option<T>) -> Vec<T> {
    file.lines.iter().filter_map(kind).collect()
}

fn communicators(file: &WatchFile) -> Vec<Communicator> {
    only(file, |line| if let Line::Communicator(one) = line { Some(one.clone()) } else { None })
}

fn totals(file: &WatchFile) -> BTreeMap<Class, Totals> {
    let each =
        only(file, |line| if let Line::Totals(one) = line { Some(one.clone()) } else { None });
    each.into_iter().map(|one| (one.class.clone(), one)).collect()
}

fn beats(file: &WatchFile) -> Vec<Heartbeat> {
    only(file, |line| if let Line::Heartbeat(one) = line { Some(*one) } else { None })
}

fn open(file: &WatchFile) -> Vec<OpenCall> {
    only(file, |line| if let Line::Open(one) = line { Some(one.clone()) } else { None })
}

fn end(file: &WatchFile) -> String {
    match file.lines.last() {
        Some(Line::End(end)) => end.why.clone(),
        other => panic!("{other:?}"),
    }
}

/// Two communicators, each with a thread that calls and one that stands for the proxy.
fn version(number: u32) {
    let left = play(&format!("v{number}"), &[("RANK", "5"), ("SLURM_JOB_ID", "77")]);
    let file = left.file();
    assert_eq!((file.process.interface, file.process.rank), (number, Some(5)));
    assert_eq!(file.process.job.as_deref(), Some("77"));
    let both = communicators(&file);
    assert_eq!(both.len(), 2, "{both:?}");
    for (one, id) in both.iter().zip([0xabc0_u64, 0xabc1]) {
        assert_eq!(one.id, format!("{id:016x}"));
        let said = if number < 4 { (0, 0) } else { (2, 16) };
        assert_eq!((one.nodes, one.ranks, one.rank), (said.0, said.1, 3));
        assert_eq!(one.name, "world");
    }
    let (calls, totals) = (calls(&file), totals(&file));
    assert_eq!(calls.len(), 2 * 4, "{:?}", calls.keys());
    for (class, calls) in &calls {
        let ranks = if number < 4 { 0 } else { 16 };
        let (count, size, algorithm) = match class.operation.as_str() {
            "AllReduce" => (1000, 4000, "RING"),
            "AllGather" => (4000, 4000 * ranks, "TREE"),
            "Send" | "Recv" => (500, 1000, ""),
            other => panic!("{other}"),
        };
        assert_eq!((class.count, class.size, class.algorithm.as_str()), (count, size, algorithm));
        let message = class.size == 1000;
        assert_eq!((class.peer, class.root), (message.then_some(4), None));
        assert_eq!(u64::from(class.channels), if number < 4 { 0 } else { u64::from(CHANNELS) });
        let mut sequences: Vec<u64> = calls.iter().map(|call| call.sequence).collect();
        sequences.sort_unstable();
        assert_eq!(sequences, (0..CALLS).collect::<Vec<_>>(), "{class:?}");
        let timed = if number < 4 { None } else { Some(KERNEL_TIME) };
        for call in calls {
            assert_eq!(call.duration, timed, "{class:?}");
            // The first channel's start is 2 s after the GPU's clock was 0, and 1 ms a call.
            let started = call.started.map(|started| started + file.process.gpu_origin);
            assert!(started.is_none_or(|at| at >= GPU_CLOCK), "{started:?}");
            assert_eq!(started.is_some(), timed.is_some());
        }
        let sum = &totals[class];
        assert_eq!((sum.calls, sum.bytes), (CALLS, CALLS * size));
        let of_time = timed.map_or((0, 0), |time| (CALLS, CALLS * time));
        assert_eq!((sum.timed, sum.duration), of_time);
    }
    assert_eq!(totals.len(), calls.len());
    let last = *beats(&file).last().unwrap();
    assert_eq!((last.dropped_calls, last.dropped_steps), (0, 0));
    assert_eq!(end(&file), "finished");
    assert_eq!(left.stderr.matches("PROFILER/busbw").count(), 0, "{}", left.stderr);
}

#[test]
fn v2() {
    version(2);
}

#[test]
fn v3() {
    version(3);
}

#[test]
fn v4() {
    version(4);
}

#[test]
fn v5() {
    version(5);
}

#[test]
fn v6() {
    version(6);
}

#[test]
fn v7() {
    version(7);
}

#[test]
fn a_process_that_is_killed_at_once_has_said_who_it_was() {
    let left = play("killed_early", &[("RANK", "3")]);
    let file = left.file();
    let one = &communicators(&file)[..];
    assert_eq!(
        one.iter().map(|one| (one.id.as_str(), one.rank)).collect::<Vec<_>>(),
        [("000000000000abc0", 3)]
    );
    assert!(beats(&file).is_empty() && calls(&file).is_empty());
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(file.process.boot.as_deref(), Some(own.trim()));
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    assert_eq!(namespace, format!("pid:[{}]", file.process.pid_namespace.unwrap()));
}

#[test]
fn what_has_no_room_is_counted() {
    let file = play("no_room", &[]).file();
    assert_eq!(beats(&file).last().unwrap().dropped_calls, 100);
    assert!(calls(&file).is_empty());
}

#[test]
fn a_call_that_never_ends_is_open_and_its_communicator_alone() {
    let file = play("hang", &[]).file();
    let open = open(&file);
    assert!(open.len() >= 2 && open.len() <= 16 * 4, "{}", open.len());
    for one in &open {
        assert_eq!((one.class.operation.as_str(), one.class.communicator), ("AllReduce", 0));
        assert!(one.at - one.enqueued >= 2_000_000_000);
        let channels = if one.sequence == 5 { (2, 1) } else { (0, 0) };
        assert_eq!((one.channels_started, one.channels_ended), channels, "{}", one.sequence);
    }
    assert_eq!(open[0].sequence, 5);
    let calls = calls(&file);
    let counts: Vec<(u32, usize)> =
        calls.iter().map(|(class, calls)| (class.communicator, calls.len())).collect();
    assert_eq!(counts, [(0, 5), (1, 10)]);
    assert_eq!(end(&file), "the process ended with 2 communicators that it had not ended");
}

#[test]
fn a_call_that_lacks_channels_ends_when_later_ones_did() {
    let file = play("fewer_channels", &[]).file();
    let all = calls(&file);
    let of = |operation: &str| {
        let mut each: Vec<(u64, Option<u64>)> = all
            .iter()
            .filter(|(class, _)| class.operation == operation)
            .flat_map(|(_, calls)| calls.iter().map(|call| (call.sequence, call.duration)))
            .collect();
        each.sort_unstable();
        each
    };
    // To itself, to another rank, and one whose last channel has nothing to move; and a reduction by a switch, of which NCCL
    // does not say the channels.
    assert_eq!(of("Send"), [(0, None), (0, Some(KERNEL_TIME)), (1, Some(KERNEL_TIME))]);
    assert_eq!(of("AllReduce"), [(0, Some(KERNEL_TIME)), (1, Some(KERNEL_TIME))]);
    assert!(open(&file).is_empty());
}

#[test]
fn steps_are_summed_by_peer_and_direction() {
    let file = play("steps", &[("BUSBW_WATCH", "full")]).file();
    let steps: Vec<Steps> =
        only(&file, |line| if let Line::Steps(one) = line { Some(one.clone()) } else { None });
    let mut sums = BTreeMap::<(u32, bool), (u64, u64)>::new();
    for one in &steps {
        let sum = sums.entry((one.peer, one.send)).or_default();
        *sum = (sum.0 + one.steps, sum.1 + one.bytes);
        assert!(one.from < one.to && one.gpu + one.peer_wait + one.wire + one.flush > 0);
        assert!(one.send || one.peer_wait == 0);
        assert!(!one.send || one.flush == 0);
    }
    assert_eq!(sums, BTreeMap::from([((2, false), (80, 80 * 100)), ((4, true), (80, 80 * 4096))]));
    assert_eq!(beats(&file).last().unwrap().dropped_steps, 0);
}

#[test]
fn a_child_of_fork_leaves_the_file_alone() {
    let file = play("fork", &[]).file();
    let sum: usize = calls(&file).values().map(Vec::len).sum();
    assert_eq!((sum, end(&file).as_str()), (2, "finished"));
    assert_eq!(only(&file, |line| matches!(line, Line::End(_)).then_some(())).len(), 1);
}

#[test]
fn a_file_that_may_not_grow_ends_the_recording_and_nothing_else() {
    let left = play("full_disk", &[]);
    assert_eq!(left.stderr.matches("cannot write").count(), 1, "{}", left.stderr);
    assert!(
        left.stderr.contains("File too large") && left.stderr.contains("goes on"),
        "{}",
        left.stderr
    );
    assert_eq!(end(&left.file()), "cannot write: File too large");
}

#[test]
fn without_a_folder_nothing_is_recorded() {
    let left = play("refused", &[("BUSBW_WATCH_DIR", "/proc/nowhere")]);
    assert!(left.stderr.contains("cannot make the folder /proc/nowhere"), "{}", left.stderr);
    assert!(left.names().is_empty());
    let left = play("refused", &[("BUSBW_WATCH", "off")]);
    assert!(left.names().is_empty() && !left.stderr.contains("PROFILER"), "{}", left.stderr);
}

#[test]
fn two_ranks_of_one_communicator_are_two() {
    let file = play("two_ranks", &[]).file();
    let both = communicators(&file);
    assert_eq!([both[0].rank, both[1].rank], [0, 1]);
    assert!(both[0].id == both[1].id && both[0].number != both[1].number);
    for calls in calls(&file).values() {
        assert_eq!(calls.iter().map(|call| call.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[test]
fn the_mask_is_nccls_once_it_is_set() {
    let file = play("mask", &[]).file();
    let durations: Vec<Option<u64>> =
        calls(&file).values().flatten().map(|call| call.duration).collect();
    assert_eq!(durations, [None, None]);
}

#[test]
fn of_calls_that_come_often_some_are_timed_and_none_is_lost() {
    let file = play("often", &[("BUSBW_WATCH", "sampled")]).file();
    let all: Vec<Call> = calls(&file).into_values().flatten().collect();
    let mut numbers: Vec<u64> = all.iter().map(|call| call.sequence).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>());
    assert_eq!(beats(&file).last().unwrap().dropped_calls, 0);
    assert!(open(&file).is_empty());
    // The first two, 16 in 1,024, and 16 with a quarter of a second or a tick (20 a second) after a pause. Where this thread was
    // away for a millisecond, calls do not follow one another closely, and up to two are timed.
    let mut asked: Vec<u64> = all.iter().map(|call| call.enqueued).collect();
    asked.sort_unstable();
    let apart = asked.windows(2).filter(|two| two[1] - two[0] >= 1_000_000).count();
    let ticks = (asked.last().unwrap() - asked[0]) as usize / 50_000_000 + 2;
    let runs = all.len() / 1024;
    let timed: Vec<&Call> = all.iter().filter(|call| call.duration.is_some()).collect();
    assert!(timed.iter().all(|call| call.duration == Some(KERNEL_TIME)));
    let is_in_run = |call: &&&Call| call.sequence >= 1024 && call.sequence % 1024 < 16;
    let in_runs = timed.iter().filter(is_in_run).count();
    assert!(
        in_runs >= 16 * runs.saturating_sub(1)
            && timed.len() <= 2 + 16 * (runs + ticks) + 2 * apart,
        "{in_runs} in {runs} runs, {} of {}, {apart} apart, {ticks} ticks",
        timed.len(),
        all.len()
    );
}

#[test]
fn on_standby_calls_are_recorded_once_they_are_asked_for() {
    let file = play("standby", &[("BUSBW_WATCH", "standby")]).file();
    assert_eq!(file.process.mask, 0);
    // A communicator that made calls before has no times, nor has one whose kernels were not timed for a while.
    let mut found: Vec<(u32, u64, Option<u64>)> = Vec::new();
    for (class, calls) in calls(&file) {
        found.extend(calls.iter().map(|call| (class.communicator, call.sequence, call.duration)));
    }
    found.sort_unstable();
    let timed = Some(KERNEL_TIME);
    assert_eq!(found, [(0, 7, None), (1, 0, timed), (1, 9, None), (2, 0, timed), (2, 1, None)]);
}

#[test]
fn an_older_file_is_put_aside_with_its_totals() {
    let left = play("rotation", &[]);
    let names = left.names();
    let [new, old] = &names[..] else { panic!("{names:?}") };
    assert!(old.ends_with(".old.jsonl") || new.ends_with(".old.jsonl"));
    let (mut bytes, mut all) = (0, Vec::new());
    for name in &names {
        let path = left.folder.path().join(name);
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < 32 << 20, "{name}: {size}");
        bytes += size;
        let file = read(&path);
        assert_eq!(communicators(&file).len(), 1, "{name}");
        all.push((name.contains(".old."), totals(&file)));
    }
    assert!(bytes > 30 << 20);
    all.sort_by_key(|one| !one.0);
    let sum = |totals: &BTreeMap<Class, Totals>| totals.values().map(|one| one.calls).sum::<u64>();
    assert!(sum(&all[0].1) > 50_000);
    assert_eq!(sum(&all[1].1), scenarios::MANY);
    let of_bytes: u64 = all[1].1.values().map(|one| one.bytes).sum();
    assert_eq!(of_bytes, 4 * scenarios::MANY * (scenarios::MANY + 1) / 2);
}

/// The cdylib itself, which the linker could have emptied.
fn library() -> std::path::PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().nth(2).unwrap().join("deps/libnccl_profiler_busbw.so")
}

#[test]
fn the_library_is_left_loaded_and_the_last_line_comes_at_exit() {
    let library = library();
    let file = play("loaded", &[("BUSBW_TEST_LIBRARY", library.to_str().unwrap())]).file();
    assert_eq!((end(&file).as_str(), communicators(&file).len()), ("finished", 1));
    // One at finalize, one a second, one at exit.
    assert!(beats(&file).len() >= 3, "{:?}", beats(&file));
}

#[test]
fn symbols_are_exported() {
    let file = library();
    // SAFETY: our own library.
    let library = unsafe { libloading::Library::new(&file) }.unwrap();
    for symbol in nccl_plugin_abi::profiler::SYMBOLS {
        // SAFETY: only looked up.
        let found = unsafe { library.get::<*const *const std::ffi::c_char>(symbol.as_bytes()) };
        // SAFETY: every table begins with its name.
        let name = unsafe { std::ffi::CStr::from_ptr(**found.unwrap()) };
        assert_eq!(name, c"busbw", "{symbol}");
    }
}
