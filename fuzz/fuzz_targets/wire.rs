//! What peers of the plugin send: a script of frames, noise, receives and lost paths, for a receiving end.
//! Not the sending end, and not which connections are accepted.
#![no_main]

use std::ops::Range;

use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use nccl_plugin_busbw::multipath::fuzzing::{Receives, decode};

/// Bytes of a step of a script: what it is, and of what.
const STEP: usize = 8;
/// Bytes of a chunk.
const CHUNK: u32 = 1 << 14;
/// Before and behind the memory of a receive.
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xee;
/// What 16 paths may be reading beside what is kept, in bytes; all of it before its receive.
const KEPT: (usize, usize) = (4096 + 16, (32 + 16) << 20);
/// Messages that are numbered from the oldest receive that is open.
const NEAR: u64 = 24;

fuzz_target!(|data: &[u8]| {
    decode(data);
    let mut script = Script::new();
    for step in data.chunks_exact(STEP) {
        if !script.step(step) {
            break;
        }
    }
    share::count(script.finished());
});

/// A receive: its request unless it is done, and its memory between two guards.
struct Place {
    request: Option<usize>,
    memory: Vec<u8>,
}

struct Script {
    receives: Receives,
    places: Vec<Place>,
    /// The oldest receive that is open: so many are done.
    oldest: usize,
    /// Whether every frame so far was right.
    right: bool,
}

/// Bytes of a message, unless a frame says something else.
fn length(message: u64) -> usize {
    [0, 100, 8192, 1, 16384, 8193, 40_000, 16_385, 70_000, 300][(message % 10) as usize]
}

fn byte(message: u64, at: usize) -> u8 {
    // Never what is untouched.
    ((message * 31 + at as u64 + (at as u64 >> 8)) % 200) as u8
}

fn header(message: u64, total: u64, chunk: u32, index: u32) -> Vec<u8> {
    let mut header = vec![0x62, 0x7b, 1, 0];
    header.extend(index.to_le_bytes());
    header.extend(message.to_le_bytes());
    header.extend(total.to_le_bytes());
    header.extend(chunk.to_le_bytes());
    header.extend([0; 4]);
    header
}

impl Script {
    fn new() -> Script {
        let receives = Receives::new(4).expect("a connection");
        Script { receives, places: Vec::new(), oldest: 0, right: true }
    }

    /// One step; false when the connection has ended with an error.
    fn step(&mut self, step: &[u8]) -> bool {
        let path = usize::from(step[1]);
        let message = self.oldest as u64 + u64::from(step[2]) % NEAR;
        let number =
            |at: Range<usize>| step[at].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        match step[0] % 16 {
            0..=5 => self.chunk(path, message, number(3..5), step[5]),
            6..=8 => {
                return self.receive(if step[3] == 0 { number(4..6) as usize } else { usize::MAX });
            }
            9..=11 => {
                for _ in 0..=step[1] % 16 {
                    if !self.test() {
                        return false;
                    }
                }
            }
            12 => self.receives.check(),
            13 => self.receives.end(path, step[2] % 4 != 0),
            14 => self.receives.say(path, &[&[0x62, 0x7b, 2 + step[2] % 2][..], &[0; 29]].concat()),
            // What is not right, in the middle of a chunk or between two.
            _ => {
                self.right = false;
                let (far, total) = (number(2..4) << (step[4] % 64), number(5..7) << (step[7] % 48));
                match step[1] % 8 {
                    0 => self.receives.say(path, step),
                    1 => self.receives.say(path, &[&[0x62, 0x7b][..], step].concat()),
                    2 => self.receives.say(path, &header(far, total, CHUNK, step[4].into())),
                    3 => self.receives.say(path, &header(message, total, 1 << (step[4] % 24), 0)),
                    4 => self.receives.say(path, &header(message, total, CHUNK, step[4].into())),
                    // Many that are empty.
                    _ => {
                        for next in 0..number(2..4) % 6000 {
                            let empty = header(message + next, 0, CHUNK, 0);
                            self.receives.say(path, &empty);
                        }
                    }
                }
            }
        }
        self.check();
        true
    }

    /// A chunk, as it should be; and perhaps the path ends within it.
    fn chunk(&mut self, path: usize, message: u64, index: u64, cut: u8) {
        let total = length(message);
        let index = index as usize % total.div_ceil(CHUNK as usize).max(1);
        let from = index * CHUNK as usize;
        let bytes = (from..total.min(from + CHUNK as usize)).map(|at| byte(message, at));
        let mut frame = header(message, total as u64, CHUNK, index as u32);
        frame.extend(bytes);
        if cut >= 16 {
            return self.receives.say(path, &frame);
        }
        let part = frame.len() * usize::from(cut) / 16;
        self.receives.say(path, &frame[..part]);
        self.receives.check();
        self.receives.end(path, cut % 2 == 0);
    }

    /// A receive with room for its message, or for less.
    fn receive(&mut self, room: usize) -> bool {
        let room = room.min(length(self.places.len() as u64) + 7);
        let mut memory = vec![UNTOUCHED; room + 2 * GUARD];
        // SAFETY: the memory stays where it is until the connection has ended.
        match unsafe { self.receives.receive(memory[GUARD..].as_mut_ptr(), room) } {
            Ok(Some(request)) => self.places.push(Place { request: Some(request), memory }),
            Ok(None) => {}
            Err(_) => return false,
        }
        true
    }

    /// Asks for the oldest, as NCCL does.
    fn test(&mut self) -> bool {
        let Some(place) = self.places.get_mut(self.oldest) else { return true };
        let Some(request) = place.request else { return true };
        let Ok(outcome) = self.receives.test(request) else { return false };
        let Some(bytes) = outcome else { return true };
        place.request = None;
        let data = &place.memory[GUARD..place.memory.len() - GUARD];
        assert!(bytes <= data.len());
        assert!(data[bytes..].iter().all(|byte| *byte == UNTOUCHED), "written behind a message");
        if self.right {
            let message = self.oldest as u64;
            assert_eq!(bytes, length(message), "message {message}");
            let wrong = (0..bytes).find(|at| data[*at] != byte(message, *at));
            assert_eq!(wrong, None, "message {message}");
        }
        self.oldest += 1;
        true
    }

    /// What holds all the time.
    fn check(&self) {
        let (chunks, bytes, twice) = self.receives.kept();
        assert!(chunks <= KEPT.0 && bytes <= KEPT.1 && twice <= 16, "{chunks}, {bytes}, {twice}");
        for Place { memory, .. } in &self.places {
            let guards = memory[..GUARD].iter().chain(&memory[memory.len() - GUARD..]);
            assert!(guards.into_iter().all(|byte| *byte == UNTOUCHED), "written outside a receive");
        }
    }

    /// Ends the connection before its memory goes. Whether any message came.
    fn finished(self) -> bool {
        self.check();
        let Script { receives, places, oldest, .. } = self;
        drop(receives);
        drop(places);
        oldest > 0
    }
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let mut steps: Vec<[u8; STEP]> =
        data[..size].chunks_exact(STEP).filter_map(|step| step.try_into().ok()).collect();
    match draw.below(8) {
        0..=1 => steps = script(&mut draw),
        2..=6 => {
            for _ in 0..=draw.below(4) {
                edit(&mut draw, &mut steps, |draw, _| step(draw));
            }
        }
        _ => return fuzzer_mutate(data, size, max_size),
    }
    put(&steps.concat(), data, max_size)
});

/// Some messages, all of their chunks in any order, some of them twice; their receives, and tests.
fn script(draw: &mut Draw) -> Vec<[u8; STEP]> {
    let mut steps = Vec::new();
    for message in 0..=draw.below(8) as u8 {
        for index in 0..length(message.into()).div_ceil(CHUNK as usize).max(1) as u8 {
            for _ in 0..=draw.below(2) {
                let at = draw.below(steps.len() + 1);
                let path = draw.below(4) as u8;
                steps.insert(at, [0, path, message, 0, index, 0xff, 0, 0]);
            }
        }
        let at = draw.below(steps.len() + 1);
        steps.insert(at, [6, 0, 0, 1, 0, 0, 0, 0]);
    }
    for _ in 0..draw.below(4) {
        let at = draw.below(steps.len() + 1);
        steps.insert(at, step(draw));
    }
    steps.push([9, 15, 0, 0, 0, 0, 0, 0]);
    steps.push([9, 15, 0, 0, 0, 0, 0, 0]);
    steps
}

fn step(draw: &mut Draw) -> [u8; STEP] {
    let mut step = draw.bits().to_le_bytes();
    // Mostly whole, and what is right.
    if !draw.one_in(8) {
        step[0] %= 15;
        step[5] |= 16;
        step[3] = 0;
        step[3] |= u8::from(step[0] >= 6);
    }
    step
}
