//! The library as NCCL finds it: symbols, init by the environment, and what each version's call does. One test, since a
//! process has one environment. Not what a file says, which is tested beside the code.
#![allow(clippy::unwrap_used)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    env,
    ffi::{c_char, c_int, c_ulong, c_void},
    path::{Path, PathBuf},
    ptr,
    sync::atomic::{AtomicI64, Ordering},
};

use busbw_tuner_file::Digest;
use nccl_plugin_abi::{
    Status,
    tuner::{Constants, NvlDomains, SYMBOLS},
};
use nccl_tuner_busbw::exported::{
    ncclTunerPlugin_v2, ncclTunerPlugin_v3, ncclTunerPlugin_v4, ncclTunerPlugin_v5,
    ncclTunerPlugin_v6, ncclTunerPlugin_v7,
};

const ALL_REDUCE: c_int = 4;
const TEXT: &str = "allreduce,0,99,ring,simple,4,-1,-1\nallreduce,100,199,ring,ll128,4,-1,-1\n";

/// The system's allocator, which counts what this thread asks for.
struct Counted;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's own.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Sets or removes a variable.
fn set(name: &str, value: Option<&str>) {
    // SAFETY: this process has one thread that reads or writes the environment.
    unsafe {
        match value {
            Some(value) => env::set_var(name, value),
            None => env::remove_var(name),
        }
    }
}

/// A file that cargo built, beside this test's folder.
fn built(name: &str) -> PathBuf {
    let here = env::current_exe().unwrap();
    here.ancestors().nth(2).unwrap().join(name)
}

fn init_v4(ranks: usize, nodes: usize) -> (Status, *mut c_void) {
    let mut context = ptr::null_mut();
    // SAFETY: as NCCL calls it.
    let status = unsafe { ncclTunerPlugin_v4.0.init.unwrap()(ranks, nodes, None, &mut context) };
    (status, context)
}

/// Costs as NCCL gives them: LL128 cannot be run, all else costs 5.
fn costs() -> [[f32; 3]; 7] {
    [[5.0, -1.0, 5.0]; 7]
}

/// What v4 makes of a call: the costs, and the channels, which NCCL sets to 0.
fn asked_v4(context: *mut c_void, function: c_int, bytes: usize) -> ([[f32; 3]; 7], c_int) {
    let (mut costs, mut channels) = (costs(), 0);
    // SAFETY: as NCCL calls it.
    let status = unsafe {
        let table = costs.as_mut_ptr().cast();
        let ask = ncclTunerPlugin_v4.0.ask.unwrap();
        ask(context, function, bytes, 1, table, 7, 3, 0, &raw mut channels)
    };
    assert_eq!(status, Status::SUCCESS);
    (costs, channels)
}

fn forced(algorithm: usize, protocol: usize) -> [[f32; 3]; 7] {
    let mut costs = costs();
    costs[algorithm][protocol] = 0.0;
    costs
}

fn end(context: *mut c_void) {
    // SAFETY: as NCCL calls it.
    assert_eq!(unsafe { ncclTunerPlugin_v4.0.end.unwrap()(context) }, Status::SUCCESS);
}

#[test]
fn as_nccl_finds_it() {
    symbols_are_exported();
    inert_without_the_variable();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuner.csv");
    std::fs::write(&file, TEXT).unwrap();
    let value = format!("{}#sha256={}", file.display(), Digest::of(TEXT.as_bytes()));
    set("BUSBW_TUNER", Some(&value));
    every_version_takes_the_entry();
    the_other_tuner_is_asked_elsewhere();
    what_is_wrong_makes_init_fail(&file, &value);
}

/// The cdylib itself, which the linker could have emptied.
fn symbols_are_exported() {
    let file = built("deps/libnccl_tuner_busbw.so");
    // SAFETY: our own library.
    let library = unsafe { libloading::Library::new(&file) }.unwrap();
    for symbol in SYMBOLS {
        // SAFETY: only looked up.
        let found = unsafe { library.get::<*const *const c_char>(symbol.as_bytes()) };
        // SAFETY: every table begins with its name.
        let name = unsafe { std::ffi::CStr::from_ptr(**found.unwrap()) };
        assert_eq!(name, c"busbw", "{symbol}");
    }
}

fn inert_without_the_variable() {
    set("BUSBW_TUNER", None);
    let (status, context) = init_v4(8, 2);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(asked_v4(context, ALL_REDUCE, 8), (costs(), 0));
    end(context);
    // NCCL ends a communicator whose init failed with the null that it has.
    end(ptr::null_mut());
    assert_eq!(asked_v4(ptr::null_mut(), ALL_REDUCE, 8), (costs(), 0));
}

fn every_version_takes_the_entry() {
    let (_, context) = init_v4(8, 2);
    assert_eq!(asked_v4(context, ALL_REDUCE, 99), (forced(1, 2), 4));
    // LL128 cannot be run here: nothing is touched, channels neither.
    assert_eq!(asked_v4(context, ALL_REDUCE, 100), (costs(), 0));
    assert_eq!(asked_v4(context, ALL_REDUCE, 200), (costs(), 0));
    for function in [-1, 2, 5, 14, c_int::MAX] {
        assert_eq!(asked_v4(context, function, 8), (costs(), 0), "{function}");
    }
    let (before, mut asked) = (ALLOCATIONS.get(), 0);
    for bytes in 0..300 {
        asked += asked_v4(context, ALL_REDUCE, bytes).1;
    }
    assert_eq!((ALLOCATIONS.get(), asked), (before, 4 * 100), "a call allocates");
    end(context);

    let (mut costs, mut channels, mut context) = (costs(), 0, ptr::null_mut());
    // SAFETY: as NCCL calls it.
    unsafe {
        let table = ncclTunerPlugin_v3.0;
        assert_eq!(table.init.unwrap()(8, 2, None, &mut context), Status::SUCCESS);
        let place = costs.as_mut_ptr().cast();
        table.ask.unwrap()(context, ALL_REDUCE, 8, 1, place, 7, 3, &mut channels);
        assert_eq!((costs, channels), (forced(1, 2), 4));
        table.end.unwrap()(context);

        let (mut algorithm, mut protocol, mut channels) = (-1, -1, 0);
        let table = ncclTunerPlugin_v2.0;
        assert_eq!(table.init.unwrap()(8, 2, None, &mut context), Status::SUCCESS);
        let ask = table.ask.unwrap();
        ask(context, ALL_REDUCE, 8, 0, 0, 1, &mut algorithm, &mut protocol, &mut channels);
        assert_eq!((algorithm, protocol, channels), (1, 2, 4));
        table.end.unwrap()(context);
    }
    let mut domains = NvlDomains::default();
    let (mut four, mut five) = (constants::<4>(), constants::<5>());
    // SAFETY: as NCCL calls it.
    unsafe {
        let mut context = ptr::null_mut();
        let (v5, v6, v7) = (ncclTunerPlugin_v5.0, ncclTunerPlugin_v6.0, ncclTunerPlugin_v7.0);
        assert_eq!(
            v5.init.unwrap()(&mut context, 1, 8, 2, None, &mut domains, &mut four),
            Status::SUCCESS
        );
        assert_eq!(asked_v4(context, ALL_REDUCE, 8), (forced(1, 2), 4));
        v5.end.unwrap()(context);
        v6.init.unwrap()(&mut context, 1, 8, 2, None, &mut domains, &mut four);
        assert_eq!(asked_v4(context, ALL_REDUCE, 8), (forced(1, 2), 4));
        let mut chunk = 7;
        v6.chunk_size.unwrap()(context, ALL_REDUCE, 8, 1, 2, 4, &mut chunk);
        assert_eq!(chunk, 7);
        v6.end.unwrap()(context);
        v7.init.unwrap()(&mut context, 1, 8, 2, None, &mut domains, &mut five);
        assert_eq!(asked_v4(context, ALL_REDUCE, 8), (forced(1, 2), 4));
        v7.end.unwrap()(context);
    }
    assert_eq!((four, five), (constants(), constants()));
}

fn constants<const COMPUTE: usize>() -> Constants<COMPUTE> {
    let each = [[1.0; 3]; COMPUTE];
    Constants {
        base_latencies: [[1.0; 3]; 7],
        link_latencies: [[[1.0; 3]; 7]; 3],
        most_ll: each,
        most_ring_ll128: each,
        most_tree_ll128: each,
        most_tree: each,
        most_nvls_tree: each,
    }
}

fn the_other_tuner_is_asked_elsewhere() {
    let other = built("examples/libother_tuner.so");
    set("BUSBW_TUNER_BEFORE", other.to_str());
    // SAFETY: the library of this crate's example.
    let library = unsafe { libloading::Library::new(&other) }.unwrap();
    let open = || {
        // SAFETY: it is an AtomicI64.
        let symbol = unsafe { library.get::<*const AtomicI64>(b"other_tuner_open") }.unwrap();
        // SAFETY: a static of a library that is loaded.
        unsafe { (**symbol).load(Ordering::Relaxed) }
    };
    let (status, context) = init_v4(8, 2);
    assert_eq!((status, open()), (Status::SUCCESS, 1));
    assert_eq!(asked_v4(context, ALL_REDUCE, 99), (forced(1, 2), 4));
    assert_eq!(asked_v4(context, ALL_REDUCE, 100), (costs(), 0));
    // The file has no entry: the other one's answer, though it says that it failed.
    assert_eq!(asked_v4(context, ALL_REDUCE, 200), (forced(0, 0), 7));
    assert_eq!(asked_v4(context, 2, 8), (forced(0, 0), 7));
    end(context);
    assert_eq!(open(), 0);
    // SAFETY: as NCCL calls it.
    unsafe {
        let mut context = ptr::null_mut();
        let table = ncclTunerPlugin_v2.0;
        table.init.unwrap()(8, 2, None, &mut context);
        let (mut algorithm, mut protocol, mut channels) = (-1, -1, 0);
        let ask = table.ask.unwrap();
        ask(context, ALL_REDUCE, 200, 0, 0, 1, &mut algorithm, &mut protocol, &mut channels);
        assert_eq!((algorithm, protocol, channels), (0, 0, 7));
        table.end.unwrap()(context);

        let (table, mut domains, mut constants) =
            (ncclTunerPlugin_v6.0, NvlDomains::default(), constants());
        table.init.unwrap()(&mut context, 1, 8, 2, None, &mut domains, &mut constants);
        assert_eq!(constants.most_tree[3][2], 15.0);
        let mut chunk = 7;
        table.chunk_size.unwrap()(context, ALL_REDUCE, 8, 1, 2, 4, &mut chunk);
        assert_eq!(chunk, 12345);
        table.end.unwrap()(context);

        // It has no v5 and no v7, and its init fails for 13 ranks.
        let mut said = ptr::null_mut();
        let table = ncclTunerPlugin_v5.0;
        let status = table.init.unwrap()(&mut said, 1, 8, 2, None, &mut domains, &mut constants);
        assert_eq!((status, said), (Status::INVALID_USAGE, ptr::null_mut()));
    }
    assert_eq!((init_v4(13, 2).0, open()), (Status::INVALID_USAGE, 0));
    // Neither itself, under any name, nor what is not there.
    for library in [built("deps/libnccl_tuner_busbw.so").to_str().unwrap(), "/nowhere.so"] {
        set("BUSBW_TUNER_BEFORE", Some(library));
        assert_eq!(init_v4(8, 2).0, Status::INVALID_USAGE, "{library}");
    }
    // Alone it is all that is asked.
    let value = env::var("BUSBW_TUNER").unwrap();
    set("BUSBW_TUNER", None);
    set("BUSBW_TUNER_BEFORE", other.to_str());
    let (_, context) = init_v4(8, 2);
    assert_eq!(asked_v4(context, ALL_REDUCE, 8), (forced(0, 0), 7));
    end(context);
    set("BUSBW_TUNER", Some(&value));
    set("BUSBW_TUNER_BEFORE", None);
}

/// Lines that were logged with their level.
static LOGGED: std::sync::Mutex<Vec<(c_int, String)>> = std::sync::Mutex::new(Vec::new());

/// NCCL's log function is variadic; Rust can call such a function, not be one. The plugin passes one string.
unsafe extern "C" fn logger(
    level: c_int,
    _: c_ulong,
    _: *const c_char,
    _: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: strings that end with a zero.
    let (format, text) =
        unsafe { (std::ffi::CStr::from_ptr(format), std::ffi::CStr::from_ptr(text)) };
    assert_eq!(format, c"%s");
    LOGGED.lock().unwrap().push((level, text.to_string_lossy().into_owned()));
}

fn what_is_wrong_makes_init_fail(file: &Path, value: &str) {
    type Fixed =
        unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    // SAFETY: on x86-64 and aarch64 Linux variadic arguments of this kind travel as named ones do.
    let logger: nccl_plugin_abi::Logger = unsafe { std::mem::transmute(logger as Fixed) };
    let logged = |value: &str| {
        set("BUSBW_TUNER", Some(value));
        let mut context = ptr::dangling_mut::<u64>().cast::<c_void>();
        // SAFETY: as NCCL calls it.
        let status =
            unsafe { ncclTunerPlugin_v4.0.init.unwrap()(8, 2, Some(logger), &mut context) };
        let lines = std::mem::take(&mut *LOGGED.lock().unwrap());
        let [(level, line)] = lines.try_into().unwrap();
        if status == Status::SUCCESS {
            end(context);
        } else {
            assert!(context.is_null());
        }
        (status.0, level, line)
    };
    let (status, level, line) = logged(value);
    assert_eq!((status, level), (0, 3));
    assert!(line.contains("TUNER/busbw: 2 of 2 entries of") && line.contains("8 ranks on 2 nodes"));
    std::fs::write(file, "allreduce,0,99,tree,simple,4,-1,-1\n").unwrap();
    let (status, level, line) = logged(value);
    assert_eq!((status, level), (5, 2));
    assert!(line.contains("has the SHA-256") && line.contains("on every host"), "{line}");
    std::fs::remove_file(file).unwrap();
    let (status, level, line) = logged(value);
    assert_eq!((status, level), (5, 2));
    assert!(line.contains("cannot read") && line.contains("No such file"), "{line}");
    std::fs::write(file, TEXT).unwrap();
    set("BUSBW_TUNER_BEFORE", Some("/nowhere.so"));
    let (status, level, line) = logged(value);
    assert_eq!((status, level), (5, 2));
    assert!(line.contains("cannot load /nowhere.so") && line.contains("No such file"), "{line}");
    set("BUSBW_TUNER_BEFORE", None);
    let (status, _, line) = logged("tuner.csv");
    assert!(status == 5 && line.contains("there is no #sha256="), "{line}");
}
