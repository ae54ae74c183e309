//! The size of a rank's buffers, the part that an iteration uses, and the memory that they are in.
//! Not their content (`pattern`).

use super::{BufferMemory, Case, Memory, Plan, Style, Verb};
use crate::Benchmark;

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// How an RDMA write is seen to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The receiver's processor polls the last byte.
    Polled,
    /// A receive completes, since no processor can poll a GPU's memory.
    Notified,
}

impl Plan {
    /// Byte offset of iteration `iteration`'s part: successive iterations use successive parts of
    /// the buffer, so that a sweep does not measure caches (nccl-tests src/common.cu:543-546, whose
    /// device path loses the shift to operator precedence). OSU's programs always use the same
    /// part.
    pub fn shift(&self, case: &Case, iteration: u64) -> usize {
        let bytes = case.counts.bytes(case.sweep.datatype.bytes());
        if bytes == 0 || self.style == Style::Osu {
            return 0;
        }
        let steps = (self.max_bytes / bytes as u64).max(1);
        bytes * (iteration % steps) as usize
    }

    /// Bytes of one buffer of a rank: the largest size and room for `-u`; with messages, room for
    /// an answer behind them.
    pub fn buffer_bytes(&self) -> usize {
        match self.benchmark {
            Benchmark::Collective(_) | Benchmark::Replay => self.data_bytes() + 8 * self.unalign,
            Benchmark::Messages(_) | Benchmark::Pairs => self.answer_offset() + CACHE_LINE_BYTES,
        }
    }

    /// Whether each rank has a third buffer, the check buffer: the collective that is verified
    /// writes there, so that an earlier result cannot pass for it. Messages are verified where they
    /// arrive.
    pub fn has_check_buffer(&self) -> bool {
        self.check > 0 && !self.benchmark.is_between_pairs()
    }

    /// Bytes of a buffer that hold data.
    pub fn data_bytes(&self) -> usize {
        self.max_bytes as usize * self.messages_a_buffer()
    }

    /// The number of messages of the last size that a buffer holds: one, or one for each rank or
    /// window slot.
    pub fn messages_a_buffer(&self) -> usize {
        match self.benchmark {
            Benchmark::Collective(collective) => {
                let osu = self.style == Style::Osu && collective.chunked();
                if osu { self.ranks() } else { 1 }
            }
            Benchmark::Messages(_) if self.messaging.separate => {
                let widest = self.messaging.windows().max();
                widest.unwrap_or(1) as usize
            }
            Benchmark::Messages(_) | Benchmark::Pairs | Benchmark::Replay => 1,
        }
    }

    /// The offset of a one-byte answer in the buffers of messages: in a cache line of its own.
    pub fn answer_offset(&self) -> usize {
        self.data_bytes().next_multiple_of(CACHE_LINE_BYTES)
    }

    /// How the end that waits for an RDMA write sees it arrive where latency is measured; `None` without such writes.
    pub fn arrival_of_writes(&self) -> Option<Arrival> {
        let options = self.backend.verbs_options()?;
        let is_latency = match self.benchmark {
            Benchmark::Messages(test) => test.is_latency(),
            Benchmark::Pairs => true,
            Benchmark::Collective(_) | Benchmark::Replay => false,
        };
        let is_on_gpu = self.buffers.is_some_and(|each| each.contains(&Memory::Gpu));
        (options.verb == Verb::Write && is_latency).then_some(match is_on_gpu {
            true => Arrival::Notified,
            false => Arrival::Polled,
        })
    }

    /// The memory of world rank `rank`'s buffers.
    pub fn memory_of(&self, rank: usize) -> Memory {
        if self.backend.spec().buffers == BufferMemory::Gpu {
            return Memory::Gpu;
        }
        let [begins, answers] = self.buffers.unwrap_or_default();
        let pairs = self.benchmark.messages().map_or_else(Vec::new, |test| self.pairs(test));
        if pairs.iter().any(|(_, second)| *second == rank) { answers } else { begins }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collective, messages::Messages};

    /// Successive iterations use successive parts of the buffer, within it, and start again at its
    /// end.
    #[test]
    fn every_iteration_shifts() {
        let plan = Plan { max_bytes: 1000, ..Plan::example() };
        let case = plan.case(Collective::AllReduce, plan.sweeps()[0], 300, 2);
        let shifts: Vec<usize> = (0..5).map(|iteration| plan.shift(&case, iteration)).collect();
        assert_eq!(shifts, [0, 300, 600, 0, 300]);
        let nothing = plan.case(Collective::AllReduce, plan.sweeps()[0], 0, 2);
        assert_eq!(plan.shift(&nothing, 7), 0);
    }

    #[test]
    fn each_end_of_a_pair_has_its_memory() {
        let buffers = Some([Memory::Gpu, Memory::Host]);
        let benchmark = Benchmark::Messages(Messages::MultiLatency);
        let plan = Plan { benchmark, buffers, devices: 4, ..Plan::example() };
        let each: Vec<Memory> = (0..4).map(|rank| plan.memory_of(rank)).collect();
        assert_eq!(each, [Memory::Gpu, Memory::Gpu, Memory::Host, Memory::Host]);
        assert_eq!(Plan::example().memory_of(1), Memory::Host);
    }
}
