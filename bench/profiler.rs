//! What one call of the profiler takes, through the table that NCCL 2.29 and 2.30 call, for the events of a collective with
//! and without the network's steps: `cargo bench -p nccl-profiler-busbw --bench profiler`.
//! Not what a job loses by it (tests/gpu/profiler.sh).

use std::{
    ffi::{c_int, c_void},
    ptr,
    thread::sleep,
    time::{Duration, Instant},
};

use nccl_plugin_abi::{
    Status,
    profiler::{DescriptionV5, ProfilerV5, StateArgumentsV4, kind, state},
};
use nccl_profiler_busbw::exported::ncclProfiler_v6;

/// Collectives of a batch, which are under way at once.
const CALLS: usize = 64;
/// Batches between two pauses, in which the writer takes out what ended. Its slots are enough for them.
const BATCHES: usize = 200;
/// Pauses.
const ROUNDS: usize = 25;
/// Channels of a collective.
const CHANNELS: usize = 16;
/// Transfers of a channel's proxy operation.
const STEPS: usize = 8;

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// Phases of a batch: what it is, calls of the profiler in it, and times, ns.
struct Phase {
    name: &'static str,
    calls: usize,
    times: Vec<f64>,
}

fn main() -> Anyhow<()> {
    let folder = std::env::temp_dir().join(format!("busbw-bench-profiler-{}", std::process::id()));
    // SAFETY: this process has one thread.
    unsafe {
        std::env::set_var("BUSBW_WATCH_DIR", &folder);
        std::env::set_var("BUSBW_WATCH", "full");
    }
    let measured = measure();
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure() -> Anyhow<()> {
    let nccl = Nccl { table: ncclProfiler_v6.table, context: ptr::null_mut() };
    let mut mask = 0;
    let mut context = ptr::null_mut();
    let init = nccl.table.init.ok_or("no init")?;
    // SAFETY: as NCCL calls it.
    let status =
        unsafe { init(&raw mut context, 7, &raw mut mask, c"world".as_ptr(), 2, 16, 3, None) };
    if status != Status::SUCCESS || context.is_null() {
        return Err("nothing is recorded".into());
    }
    let nccl = Nccl { context, ..nccl };
    let mut phases = Vec::new();
    for with_steps in [false, true] {
        let mut all = 0.0;
        let mut calls = 0;
        for _ in 0..ROUNDS {
            for _ in 0..BATCHES {
                let (time, made) = batch(&nccl, with_steps, &mut phases);
                all += time;
                calls += made;
            }
            sleep(Duration::from_millis(120));
        }
        let set = if with_steps { "with the network's steps" } else { "calls and kernels" };
        println!("{set}: {:.1} ns a call of the profiler, mean of {calls}", all / calls as f64);
    }
    println!(
        "{:<30} {:>8} {:>8} {:>8} {:>8}",
        "ns a call, batches of 64", "median", "90 %", "99 %", "largest"
    );
    for Phase { name, calls, times } in &mut phases {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] / *calls as f64;
        println!("{name:<30} {:>8.1} {:>8.1} {:>8.1} {:>8.1}", at(0.5), at(0.9), at(0.99), at(1.0));
    }
    // SAFETY: as NCCL calls it.
    unsafe { nccl.table.finalize.ok_or("no finalize")?(context) };
    Ok(())
}

/// NCCL's side.
struct Nccl {
    table: ProfilerV5,
    context: *mut c_void,
}

impl Nccl {
    fn start(
        &self,
        kind: u64,
        parent: *mut c_void,
        fill: impl FnOnce(&mut DescriptionV5),
    ) -> *mut c_void {
        // SAFETY: numbers, and pointers that may be null.
        let mut description: DescriptionV5 = unsafe { std::mem::zeroed() };
        (description.kind, description.parent, description.rank) = (kind, parent, 3);
        fill(&mut description);
        let mut handle = ptr::null_mut();
        if let Some(start) = self.table.start {
            // SAFETY: as NCCL calls it.
            unsafe { start(self.context, &raw mut handle, &description) };
        }
        handle
    }

    fn stop(&self, handle: *mut c_void) {
        if let Some(stop) = self.table.stop {
            // SAFETY: as NCCL calls it.
            unsafe { stop(handle) };
        }
    }

    fn enter(&self, handle: *mut c_void, state: c_int, value: u64) {
        if let Some(record) = self.table.record_state {
            // SAFETY: as NCCL calls it.
            unsafe { record(handle, state, &StateArgumentsV4 { timer: value }) };
        }
    }
}

/// Collectives from the first event to the last: ns, and calls of the profiler.
fn batch(nccl: &Nccl, with_steps: bool, phases: &mut Vec<Phase>) -> (f64, usize) {
    let (mut all, mut made, pid) = (0.0, 0, std::process::id() as c_int);
    let mut phase = |name: &'static str, calls: usize, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        let time = begun.elapsed().as_nanos() as f64;
        all += time;
        made += calls;
        match phases.iter_mut().find(|phase| phase.name == name) {
            Some(phase) => phase.times.push(time),
            None => phases.push(Phase { name, calls, times: vec![time] }),
        }
    };
    let mut calls = [ptr::null_mut(); CALLS];
    let mut channels = [ptr::null_mut(); CALLS * CHANNELS];
    phase("startEvent of a collective", CALLS, &mut || {
        for (number, call) in calls.iter_mut().enumerate() {
            *call = nccl.start(kind::COLLECTIVE, ptr::null_mut(), |description| {
                // SAFETY: a plain structure within the union.
                let of = unsafe { &mut description.of.collective.v4 };
                of.sequence = number as u64;
                of.function = c"AllReduce".as_ptr();
                of.count = 1 << (number % 20);
                of.datatype = c"ncclFloat32".as_ptr();
                of.algorithm = c"RING".as_ptr();
                of.protocol = c"SIMPLE".as_ptr();
                of.channels = CHANNELS as u8;
            });
        }
    });
    phase("stopEvent of a collective", CALLS, &mut || {
        calls.iter().for_each(|call| nccl.stop(*call))
    });
    if with_steps {
        let mut steps = [ptr::null_mut(); STEPS];
        let operations = CALLS * CHANNELS;
        phase("an operation with 8 steps", operations * (2 + STEPS * 5), &mut || {
            for call in calls {
                for _ in 0..CHANNELS {
                    let operation = nccl.start(kind::PROXY_OPERATION, call, |description| {
                        // SAFETY: a plain structure within the union.
                        let of = unsafe { &mut description.of.proxy_operation };
                        (of.pid, of.peer, of.send) = (pid, 4, 1);
                    });
                    for step in &mut steps {
                        *step = nccl.start(kind::PROXY_STEP, operation, |_| ());
                    }
                    for state in [state::SEND_GPU_WAIT, state::SEND_PEER_WAIT, state::SEND_WAIT] {
                        steps.iter().for_each(|step| nccl.enter(*step, state, 4096));
                    }
                    steps.iter().for_each(|step| nccl.stop(*step));
                    nccl.stop(operation);
                }
            }
        });
    }
    phase("startEvent of a channel", CALLS * CHANNELS, &mut || {
        for (channel, call) in channels.iter_mut().zip(calls.iter().cycle()) {
            *channel = nccl.start(kind::KERNEL_CHANNEL, *call, |description| {
                description.of.kernel_channel.timer = 1_000_000_000;
            });
        }
    });
    phase("end of a channel (2 calls)", CALLS * CHANNELS * 2, &mut || {
        for channel in channels {
            nccl.enter(channel, state::KERNEL_CHANNEL_STOP, 1_000_001_000);
            nccl.stop(channel);
        }
    });
    (all, made)
}
