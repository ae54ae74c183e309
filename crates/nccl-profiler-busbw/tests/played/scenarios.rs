//! What NCCL's threads do in each scenario. Not what must be in the file then (`played`).

use std::{
    ffi::c_int,
    sync::{
        Barrier,
        atomic::{AtomicI32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use nccl_plugin_abi::profiler::{DescriptionV5, ProfilerV5, kind, state};

use super::calls::{
    ALL_GATHER, ALL_REDUCE, CHANNELS, GPU_CLOCK, SEND, kernel, named, times, whole,
};
use super::versions::{COMMUNICATOR, Call, Handle, Nccl, V2, V3, V4, V5, V6, V7};

/// The variable that names the scenario in its process.
pub const SCENARIO: &str = "BUSBW_TEST_SCENARIO";
/// Calls of each communicator and operation.
pub const CALLS: u64 = 500;
/// How long calls come often.
pub const OFTEN: Duration = Duration::from_millis(700);
/// Calls of the rotation, each of a class of its own.
pub const MANY: u64 = 150_000;

pub fn play(name: &str) {
    match name {
        "v2" => version(&V2, 2),
        "v3" => version(&V3, 3),
        "v4" => version(&V4, 4),
        "v5" => version(&V5, 5),
        "v6" => version(&V6, 6),
        "v7" => version(&V7, 7),
        "no_room" => no_room(),
        "hang" => hang(),
        "fewer_channels" => fewer_channels(),
        "steps" => steps(),
        "fork" => fork(),
        "full_disk" => full_disk(),
        "refused" => refused(),
        "two_ranks" => two_ranks(),
        "mask" => mask(),
        "rotation" => rotation(),
        "often" => often(),
        "standby" => standby(),
        "loaded" => loaded(),
        "killed_early" => killed_early(),
        other => panic!("{other}"),
    }
}

/// NCCL's mask, a static of its library.
fn new_mask() -> &'static AtomicI32 {
    Box::leak(Box::new(AtomicI32::new(0)))
}

/// Two communicators, whose calls one thread each makes; of each kernel another tells, before and after NCCL's stopEvent.
fn version(nccl: &'static dyn Nccl, number: u32) {
    let mask = new_mask();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for communicator in 0..2_u64 {
            let barrier = &barrier;
            scope.spawn(move || {
                // Numbers of communicators are the file's order.
                if communicator == 1 {
                    barrier.wait();
                }
                let context = nccl.init(mask, 0xabc0 + communicator, 16, 3);
                COMMUNICATOR.set(0xabc0 + communicator);
                if communicator == 0 {
                    barrier.wait();
                }
                assert!(!context.is_null());
                let (to_proxy, calls) = mpsc::channel::<(Handle, u64)>();
                let proxy = thread::spawn(move || {
                    for (call, at) in calls {
                        if number > 2 {
                            kernel(nccl, context, call, at, CHANNELS);
                        }
                    }
                });
                for sequence in 0..CALLS {
                    let group = nccl.group(context);
                    assert!(!group.is_null(), "up to 2.27 NCCL gives no calls without it");
                    let each = [
                        nccl.collective(context, &Call { sequence, ..ALL_REDUCE }),
                        nccl.collective(context, &Call { sequence, ..ALL_GATHER }),
                        nccl.message(context, &SEND),
                        nccl.message(context, &named(SEND, c"Recv")),
                    ];
                    for (call, event) in each.into_iter().enumerate() {
                        assert!(!event.is_null());
                        to_proxy.send((event, sequence * 4 + call as u64)).unwrap();
                    }
                    if sequence % 3 == 0 {
                        thread::yield_now();
                    }
                    each.into_iter().for_each(|event| nccl.stop(event));
                    nccl.stop(group);
                }
                drop(to_proxy);
                proxy.join().unwrap();
                if number == 3 {
                    // Without times and a number of channels a call has ended a second after its last channel.
                    thread::sleep(Duration::from_millis(1300));
                }
                nccl.finalize(context);
            });
        }
    });
}

/// As NCCL has it: loaded from its file, and closed after the last communicator.
fn loaded() {
    let file = std::env::var_os("BUSBW_TEST_LIBRARY").unwrap();
    let mut mask = 0;
    let mut context = std::ptr::null_mut();
    let mut handle = std::ptr::null_mut();
    // SAFETY: our own library, called as NCCL calls it.
    unsafe {
        let library = libloading::Library::new(file).unwrap();
        let table = **library.get::<*const ProfilerV5>(b"ncclProfiler_v6").unwrap();
        table.init.unwrap()(&raw mut context, 7, &raw mut mask, std::ptr::null(), 1, 2, 0, None);
        assert!(!context.is_null() && mask != 0);
        let mut description: DescriptionV5 = std::mem::zeroed();
        description.kind = kind::GROUP;
        table.start.unwrap()(context, &raw mut handle, &description);
        assert!(!handle.is_null());
        table.stop.unwrap()(handle);
        table.finalize.unwrap()(context);
        library.close().unwrap();
    }
    // Its thread goes on.
    thread::sleep(Duration::from_millis(1200));
}

/// A process that is killed within its first second, after its first call.
fn killed_early() {
    let context = V5.init(new_mask(), 0xabc0, 16, 3);
    let group = V5.group(context);
    let call = V5.collective(context, &Call { sequence: 0, ..ALL_REDUCE });
    V5.stop(call);
    V5.stop(group);
    thread::sleep(Duration::from_millis(400));
    // SAFETY: a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn no_room() {
    let context = V6.init(new_mask(), 1, 2, 0);
    let begun = (0..16_384 + 100)
        .filter(|sequence| {
            !V6.collective(context, &Call { sequence: *sequence, ..ALL_REDUCE }).is_null()
        })
        .count();
    assert_eq!(begun, 16_384);
    V6.finalize(context);
}

fn hang() {
    let mask = new_mask();
    let (stuck, free) = (V6.init(mask, 1, 2, 0), V6.init(mask, 2, 2, 0));
    for sequence in 0..5 {
        whole(&V6, stuck, &Call { sequence, ..ALL_REDUCE }, sequence);
    }
    // Two of four channels began, one ended; the calls behind it have not begun.
    for sequence in 5..8 {
        let event = V6.collective(stuck, &Call { sequence, ..ALL_REDUCE });
        V6.stop(event);
        if sequence == 5 {
            let first = V6.channel(stuck, event, GPU_CLOCK);
            assert!(!V6.channel(stuck, event, GPU_CLOCK).is_null());
            V6.end_channel(first, GPU_CLOCK + 5);
        }
    }
    for sequence in 0..10 {
        whole(&V6, free, &Call { sequence, ..ALL_REDUCE }, sequence);
        thread::sleep(Duration::from_millis(420));
    }
}

fn fewer_channels() {
    let context = V6.init(new_mask(), 1, 2, 0);
    let send = V6.message(context, &Call { other: 1, ..SEND });
    let to_itself = V6.message(context, &Call { other: 0, ..SEND });
    V6.stop(send);
    V6.stop(to_itself);
    kernel(&V6, context, send, 0, CHANNELS);
    // NCCL says 4 of this one, and gives 4; here it says 5.
    let short = V6.message(context, &Call { other: 1, channels: CHANNELS + 1, ..SEND });
    V6.stop(short);
    kernel(&V6, context, short, 1, CHANNELS);
    let switch = Call { algorithm: c"COLLNET_DIRECT", channels: 1, ..ALL_REDUCE };
    whole_of(context, &switch, 2);
    whole(&V6, context, &Call { sequence: 1, ..ALL_REDUCE }, 3);
    thread::sleep(Duration::from_millis(2500));
    V6.finalize(context);
}

/// A call whose kernel has more channels than NCCL says.
fn whole_of(context: Handle, call: &Call, number: u64) {
    let event = V6.collective(context, call);
    V6.stop(event);
    // The first channel ends before the others begin.
    let (start, end) = times(number, 0);
    let first = V6.channel(context, event, start);
    V6.end_channel(first, end);
    thread::sleep(Duration::from_millis(200));
    for channel in 1..CHANNELS {
        let (start, end) = times(number, channel);
        let event = V6.channel(context, event, start);
        V6.end_channel(event, end);
    }
}

fn steps() {
    let mask = new_mask();
    let context = V6.init(mask, 1, 8, 3);
    let asked = kind::COLLECTIVE
        | kind::MESSAGE
        | kind::KERNEL_CHANNEL
        | kind::PROXY_OPERATION
        | kind::PROXY_STEP;
    assert_eq!(mask.load(Ordering::Relaxed) as u64, asked);
    // A proxy that works for another process: its context is that process's.
    assert!(V6.operation(context, 1, 4, true).is_null());
    assert!(
        V6.operation(
            Handle(std::ptr::without_provenance_mut(0x7f12_3456_7890)),
            std::process::id(),
            4,
            true
        )
        .is_null()
    );
    assert!(V6.step(context, Handle(std::ptr::null_mut())).is_null());
    assert!(V6.operation(context, std::process::id(), -1, true).is_null());
    thread::scope(|scope| {
        for (peer, send) in [(4, true), (2, false)] {
            scope.spawn(move || {
                for _ in 0..10 {
                    let operation = V6.operation(context, std::process::id(), peer, send);
                    let steps: Vec<Handle> = (0..8).map(|_| V6.step(context, operation)).collect();
                    let states: &[(c_int, usize)] = if send {
                        &[
                            (state::SEND_GPU_WAIT, 0),
                            (state::SEND_PEER_WAIT, 1),
                            (state::SEND_WAIT, 4096),
                        ]
                    } else {
                        &[
                            (state::RECEIVE_WAIT, 7),
                            (state::RECEIVE_FLUSH_WAIT, 100),
                            (state::RECEIVE_GPU_WAIT, 9),
                        ]
                    };
                    for (state, bytes) in states {
                        steps.iter().for_each(|step| V6.enter(*step, *state, *bytes));
                        thread::sleep(Duration::from_millis(1));
                    }
                    steps.iter().for_each(|step| V6.stop(*step));
                    // Twice: the second is of a step that is no more.
                    steps.iter().for_each(|step| V6.stop(*step));
                    V6.stop(operation);
                }
            });
        }
    });
    V6.finalize(context);
}

fn fork() {
    let mask = new_mask();
    let context = V6.init(mask, 1, 2, 0);
    whole(&V6, context, &ALL_REDUCE, 0);
    // SAFETY: the child only calls the profiler and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let nothing = V6.collective(context, &ALL_REDUCE).is_null()
            && V6.init(mask, 2, 2, 0).is_null()
            && mask.load(Ordering::Relaxed) == 0;
        V6.finalize(context);
        // With its handlers.
        // SAFETY: as any program ends.
        unsafe { libc::exit(if nothing { 0 } else { 9 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    whole(&V6, context, &Call { sequence: 1, ..ALL_REDUCE }, 1);
    V6.finalize(context);
}

fn full_disk() {
    let mask = new_mask();
    let context = V6.init(mask, 1, 2, 0);
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // SAFETY: a limit of this process. Without care of the writer's its signal (SIGXFSZ) would end the process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    whole(&V6, context, &ALL_REDUCE, 0);
    V6.finalize(context);
    let context = V6.init(mask, 2, 2, 0);
    for number in 0..2000 {
        whole(
            &V6,
            context,
            &Call { sequence: number, count: number as usize, ..ALL_REDUCE },
            number,
        );
    }
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(100));
        if mask.load(Ordering::Relaxed) == 0 {
            break;
        }
    }
    assert_eq!(mask.load(Ordering::Relaxed), 0);
    assert!(V6.collective(context, &ALL_REDUCE).is_null());
    V6.finalize(context);
}

fn refused() {
    let mask = new_mask();
    let context = V6.init(mask, 1, 2, 0);
    assert!(context.is_null() && V6.collective(context, &ALL_REDUCE).is_null());
    assert!(V6.group(context).is_null());
    V6.finalize(context);
    assert_eq!(mask.load(Ordering::Relaxed), 0);
}

fn two_ranks() {
    let mask = new_mask();
    let contexts = [V6.init(mask, 9, 2, 0), V6.init(mask, 9, 2, 1)];
    for sequence in 0..3 {
        for context in contexts {
            whole(&V6, context, &Call { sequence, ..ALL_REDUCE }, sequence);
        }
    }
    contexts.into_iter().for_each(|context| V6.finalize(context));
}

/// From 2.31 on RAS changes the mask of a running job.
fn mask() {
    let mask = new_mask();
    let context = V7.init(mask, 1, 2, 0);
    let calls = (kind::COLLECTIVE | kind::MESSAGE | kind::KERNEL_CHANNEL) as i32;
    assert_eq!(mask.swap(kind::COLLECTIVE as i32, Ordering::Relaxed), calls);
    // No kernels are told of: a call has ended for us when NCCL has handed it on.
    let event = V7.collective(context, &ALL_REDUCE);
    V7.stop(event);
    let second = V7.init(mask, 2, 2, 0);
    assert_eq!(mask.load(Ordering::Relaxed), kind::COLLECTIVE as i32);
    let event = V7.collective(second, &ALL_REDUCE);
    V7.stop(event);
    thread::sleep(Duration::from_millis(300));
    // Late.
    assert!(V7.channel(second, event, GPU_CLOCK).is_null());
    V7.finalize(context);
    V7.finalize(second);
}

/// Nothing is asked for until RAS asks, from 2.31 on.
fn standby() {
    let mask = new_mask();
    let context = V7.init(mask, 1, 2, 0);
    assert!(!context.is_null());
    assert_eq!(mask.load(Ordering::Relaxed), 0);
    let calls = (kind::COLLECTIVE | kind::MESSAGE | kind::KERNEL_CHANNEL) as i32;
    mask.store(calls, Ordering::Relaxed);
    let event = V7.collective(context, &Call { sequence: 7, ..ALL_REDUCE });
    V7.stop(event);
    // Of the seven before NCCL's host knows nothing: this is another kernel's time.
    assert!(V7.channel(context, event, GPU_CLOCK).is_null());
    let second = V7.init(mask, 2, 2, 0);
    whole(&V7, second, &ALL_REDUCE, 0);
    mask.store(0, Ordering::Relaxed);
    // Longer than a tick of the writer.
    thread::sleep(Duration::from_millis(300));
    mask.store(calls, Ordering::Relaxed);
    let event = V7.collective(second, &Call { sequence: 9, ..ALL_REDUCE });
    V7.stop(event);
    assert!(V7.channel(second, event, GPU_CLOCK).is_null());
    // A broadcast, of which NCCL tells as a program's call alone.
    let third = V7.init(mask, 3, 2, 0);
    whole(&V7, third, &ALL_REDUCE, 0);
    V7.called(third, c"Broadcast");
    let event = V7.collective(third, &Call { sequence: 1, ..ALL_REDUCE });
    V7.stop(event);
    assert!(V7.channel(third, event, GPU_CLOCK).is_null());
    V7.finalize(context);
    V7.finalize(second);
    V7.finalize(third);
    assert_eq!(mask.load(Ordering::Relaxed), calls);
}

/// Calls one after the other, as small ones come: NCCL tells of a kernel where its mask said so when the call was asked for.
fn often() {
    let mask = new_mask();
    let context = V6.init(mask, 1, 2, 0);
    let (began, mut number) = (Instant::now(), 0);
    while began.elapsed() < OFTEN {
        let timed = mask.load(Ordering::Relaxed) as u64 & kind::KERNEL_CHANNEL != 0;
        let event = V6.collective(context, &Call { sequence: number, ..ALL_REDUCE });
        V6.stop(event);
        if timed {
            kernel(&V6, context, event, number, CHANNELS);
        }
        number += 1;
        // Some 15,000 a second.
        thread::sleep(Duration::from_micros(10));
    }
    V6.finalize(context);
}

fn rotation() {
    let context = V6.init(new_mask(), 1, 2, 0);
    for number in 1..=MANY {
        let call = Call { sequence: number, count: number as usize, channels: 1, ..ALL_REDUCE };
        // The writer may be slower than this, which no job is: what has no room is counted, and made again here.
        let mut event = V6.collective(context, &call);
        while event.is_null() {
            thread::sleep(Duration::from_millis(20));
            event = V6.collective(context, &call);
        }
        V6.stop(event);
        event = V6.channel(context, event, GPU_CLOCK + number);
        V6.end_channel(event, GPU_CLOCK + number + 1);
    }
    // The writer writes each second: finalize, which waits for 200 ms at most, finds little left to write.
    thread::sleep(Duration::from_millis(1500));
    V6.finalize(context);
}
