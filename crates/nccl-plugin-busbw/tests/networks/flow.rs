//! Messages from one end to the other, every byte compared.
//! Not what is done to them (`cases`).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::table::{Outcome, Pointer, Table};

/// Numbers that look like chance.
pub struct Chance(pub u64);

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// 0 to `most` bytes, as often small as large.
    pub fn size(&mut self, most: usize) -> usize {
        let scale = self.below(u64::from(most.ilog2()) + 2);
        (self.below((1 << scale).max(1)) as usize).min(most)
    }
}

fn byte(message: usize, at: usize) -> u8 {
    (message.wrapping_mul(151) ^ at ^ (at >> 8) ^ (at >> 16)) as u8
}

pub fn message(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| byte(number, at)).collect()
}

/// One end, with at most 8 requests open, of which only the oldest is asked for, as NCCL does.
pub struct Flow {
    table: Table,
    pub connection: Pointer,
    sends: bool,
    /// Bytes of message `number`, in turn.
    sizes: Vec<usize>,
    begun: usize,
    pub done: usize,
    open: VecDeque<(Pointer, Vec<u8>)>,
}

// SAFETY: a connection belongs to one thread at a time.
unsafe impl Send for Flow {}

/// Beyond a message's place, where nothing may be written.
pub const GUARD: usize = 64;

impl Flow {
    /// Messages of so many bytes without end.
    pub fn new(table: Table, connection: Pointer, sends: bool, bytes: usize) -> Flow {
        Flow::of(table, connection, sends, vec![bytes])
    }

    pub fn of(table: Table, connection: Pointer, sends: bool, sizes: Vec<usize>) -> Flow {
        Flow { table, connection, sends, sizes, begun: 0, done: 0, open: VecDeque::new() }
    }

    fn size(&self, number: usize) -> usize {
        self.sizes[number % self.sizes.len()]
    }

    /// Begins what may begin, and asks for the oldest request.
    pub fn step(&mut self) -> Outcome<()> {
        while self.open.len() < 8 {
            let (number, bytes) = (self.begun, self.size(self.begun));
            let mut data =
                if self.sends { message(number, bytes) } else { vec![0xee; bytes + GUARD] };
            // SAFETY: the memory stays in `open`.
            let begun = unsafe {
                if self.sends {
                    self.table.send(self.connection, data.as_ptr(), bytes)?
                } else {
                    self.table.receive(self.connection, data.as_mut_ptr(), bytes)?
                }
            };
            let Some(request) = begun else { break };
            self.open.push_back((request, data));
            self.begun += 1;
        }
        if let Some((request, _)) = self.open.front()
            && let Some(bytes) = self.table.test(*request)?
        {
            let (_, data) = self.open.pop_front().unwrap();
            assert_eq!(bytes, self.size(self.done), "message {}", self.done);
            if !self.sends {
                let wrong = (0..bytes).find(|&at| data[at] != byte(self.done, at));
                assert_eq!(wrong, None, "message {} of {bytes} bytes", self.done);
                assert!(
                    data[bytes..].iter().all(|&byte| byte == 0xee),
                    "bytes beyond message {}",
                    self.done
                );
            }
            self.done += 1;
        }
        Ok(())
    }

    /// As far as so many messages.
    pub fn until(&mut self, done: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.done < done {
            self.step().unwrap();
            assert!(Instant::now() < until, "message {} of {done} does not come", self.done);
        }
    }
}

pub fn flows(table: Table, sizes: &[usize]) -> (Flow, Flow) {
    let (sends, receives) = table.pair().unwrap();
    (Flow::of(table, sends, true, sizes.to_vec()), Flow::of(table, receives, false, sizes.to_vec()))
}

pub fn closed(table: Table, sends: &Flow, receives: &Flow) {
    table.close_send(sends.connection).unwrap();
    table.close_receive(receives.connection).unwrap();
}
