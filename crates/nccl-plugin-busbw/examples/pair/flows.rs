//! Messages that are on their way over a connection, as either end sees them.
//! Not how fast they are.

use std::collections::VecDeque;

use crate::{
    calls::{or_end, patiently},
    plan::Plan,
    table::{Pointer, Table},
};

/// The last message of a size has this bit in its number.
pub const LAST: u64 = 1 << 63;
/// Messages differ from their neighbours.
pub const PATTERNS: usize = 16;
pub fn patterns(bytes: usize) -> Vec<Vec<u8>> {
    let word = |at: usize, which: usize| {
        (at as u64 ^ (which as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let byte = |at: usize, which| (word(at / 8, which) >> (8 * (at % 8))) as u8;
    (0..PATTERNS).map(|which| (0..bytes).map(|at| byte(at, which)).collect()).collect()
}

/// Posted receives of a connection, each with room for any message.
pub struct Receives {
    table: Table,
    pub connection: Pointer,
    posted: VecDeque<Pointer>,
    rooms: Vec<Vec<u8>>,
    done: usize,
    begun: usize,
    pub number: u64,
}

impl Receives {
    pub fn new(table: Table, connection: Pointer, plan: &Plan) -> Receives {
        let mut rooms = vec![vec![0; plan.most()]; plan.open];
        for room in &mut rooms {
            or_end("regMr", table.register(connection, room));
        }
        let mut end = Receives {
            table,
            connection,
            posted: VecDeque::new(),
            rooms,
            done: 0,
            begun: 0,
            number: 0,
        };
        for _ in 0..plan.open {
            end.post();
        }
        end
    }

    /// One more.
    pub fn post(&mut self) {
        let which = self.begun % self.rooms.len();
        let room = &mut self.rooms[which];
        // SAFETY: its turn comes again when it is done.
        let request = patiently("irecv", || unsafe {
            self.table.receive(self.connection, room.as_mut_ptr(), room.len())
        });
        self.posted.push_back(request);
        self.begun += 1;
    }

    /// The oldest, if it is there: its bytes and its number.
    pub fn next(&mut self) -> Option<(&[u8], u64)> {
        let bytes = or_end("test", self.table.test(*self.posted.front()?))?;
        self.posted.pop_front();
        let room = &self.rooms[self.done % self.rooms.len()][..bytes];
        self.done += 1;
        let number = u64::from_le_bytes(*room.first_chunk().unwrap());
        if number & !LAST != self.number {
            eprintln!("pair: message {} came where {} was due", number & !LAST, self.number);
            std::process::exit(7);
        }
        self.number += 1;
        Some((room, number))
    }
}

/// Small messages, one at a time.
pub struct Says {
    table: Table,
    connection: Pointer,
    words: Vec<u8>,
}

impl Says {
    pub fn new(table: Table, connection: Pointer) -> Says {
        let mut words = vec![0; size_of::<u64>()];
        or_end("regMr", table.register(connection, &mut words));
        Says { table, connection, words }
    }

    /// Sends a number, and waits until it is gone.
    pub fn say(&mut self, number: u64) {
        self.words.copy_from_slice(&number.to_le_bytes());
        // SAFETY: they stay until it is done.
        let request = patiently("isend", || unsafe {
            self.table.send(self.connection, self.words.as_ptr(), self.words.len())
        });
        patiently("test", || self.table.test(request));
    }
}

/// Messages on their way over a connection.
pub struct Sends {
    table: Table,
    pub connection: Pointer,
    pub open: VecDeque<Pointer>,
    most: usize,
    /// What they are, and a place for each that is open.
    patterns: Vec<Vec<u8>>,
    pub number: u64,
    pub ended: bool,
}

impl Sends {
    pub fn new(table: Table, connection: Pointer, plan: &Plan) -> Sends {
        assert!(plan.open <= PATTERNS, "at most {PATTERNS} messages are open");
        let mut patterns = patterns(plan.most());
        for pattern in &mut patterns {
            or_end("regMr", table.register(connection, pattern));
        }
        Sends {
            table,
            connection,
            open: VecDeque::new(),
            most: plan.open,
            patterns,
            number: 0,
            ended: false,
        }
    }

    /// Whether something happened: one began, or one was done.
    pub fn step(&mut self, size: usize, last: bool) -> bool {
        let mut happened = false;
        while self.open.len() < self.most && !self.ended {
            let data = &mut self.patterns[self.number as usize % PATTERNS][..size];
            let number = self.number | if last { LAST } else { 0 };
            data[..8].copy_from_slice(&number.to_le_bytes());
            // SAFETY: its turn comes again when it is done: there are more of them than may be open.
            let sent = unsafe { self.table.send(self.connection, data.as_ptr(), size) };
            let Some(request) = or_end("isend", sent) else { break };
            self.open.push_back(request);
            self.number += 1;
            self.ended = last;
            happened = true;
        }
        if let Some(&oldest) = self.open.front()
            && or_end("test", self.table.test(oldest)).is_some()
        {
            self.open.pop_front();
            happened = true;
        }
        happened
    }
}
