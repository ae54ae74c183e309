//! Measures which algorithm is the fastest at which size, on the ranks and buffers of a
//! communicator.
//! Not storing the result: the caller does that.

use std::{hint::black_box, time::Instant};

use busbw_core::{
    Collective, DataType, ReduceOp,
    algorithm::{Algorithm, Choice, Table, Timing},
    alltoallv::Traffic,
    collective::BufferShape,
};
use busbw_stats::median;

use super::{Call, Communicator, Exchange, Region};
use crate::shm::{Buffer, Wait};

/// Bytes of the count argument that are measured: from one cache line to beyond every cache.
const SIZES: [u64; 11] =
    [32, 128, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20];

/// Rounds in which each algorithm is timed, in turns; the median counts.
const TIMED_ROUNDS: usize = 5;

/// Duration of a round of one algorithm, in microseconds.
const ROUND_US: f64 = 100.0;
/// The most operations of a round.
const MAX_REPEATS: f64 = 200.0;

/// An algorithm that is this many times slower than the best is not tried at larger sizes, see
/// [`worth_trying`].
const GIVE_UP_FACTOR: f64 = 4.0;

impl Communicator {
    /// The largest size, in bytes of the count argument, that [`Communicator::tune`] would measure
    /// of a collective with buffers of `room` bytes.
    pub fn tunes_to(collective: Collective, ranks: usize, room: usize) -> u64 {
        let fits = |size: &u64| buffer_bytes(collective, ranks, *size as usize) <= room;
        SIZES.into_iter().filter(fits).max().unwrap_or(0)
    }

    /// Times every algorithm of `collective` at sizes that fit into buffers of `room` bytes.
    /// Between two operations every rank rewrites its send data and reads its received data,
    /// untimed: a loop over untouched data would measure caches. Overwrites the send and receive
    /// buffers.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    pub fn tune(&mut self, collective: Collective, room: usize) -> Result<Table, Wait> {
        let ranks = self.size();
        let mut ways: Vec<Choice> = Choice::of(collective).collect();
        let mut timings: Vec<Timing> = Vec::new();
        let largest = Communicator::tunes_to(collective, ranks, room);
        if largest == 0 {
            return Ok(Table::unmeasured(collective, ranks));
        }
        // With more ranks than cores the smallest operations take not a microsecond but hundreds:
        // time a few of them first.
        let probed = self.time_ways(collective, SIZES[0], &ways, f64::INFINITY)?;
        let mut expected_us = best(&probed);
        for size in SIZES {
            if size > largest {
                break;
            }
            let timed = self.time_ways(collective, size, &ways, expected_us)?;
            expected_us = best(&timed);
            ways.retain(|way| worth_trying(*way, &timed));
            timings.extend(timed);
        }
        Ok(Table::measured(collective, ranks, &timings))
    }

    /// Times each of `ways` that can run at `size`; all ranks get the same times, those of the
    /// slowest rank.
    fn time_ways(
        &mut self,
        collective: Collective,
        size: u64,
        ways: &[Choice],
        expected_us: f64,
    ) -> Result<Vec<Timing>, Wait> {
        let (rank, ranks) = (self.rank(), self.size());
        let traffic = Traffic::Generated { spread: 0.0 };
        let element = DataType::Float.bytes();
        let count = size as usize / element;
        let exchange = Exchange::of(collective, &traffic, count, DataType::Float, rank, ranks);
        let whole = |buffer| Region { buffer, offset: 0, stride: 0 };
        let call = Call {
            collective,
            datatype: DataType::Float,
            op: ReduceOp::Sum,
            root: 0,
            count,
            send: whole(Buffer::Send),
            recv: whole(Buffer::Recv),
            exchange: &exchange,
        };
        let touched = buffer_bytes(collective, ranks, size as usize);
        let ways: Vec<Choice> = ways.iter().copied().filter(|w| self.can_run(*w, &call)).collect();
        let repeats = (ROUND_US / expected_us).clamp(1.0, MAX_REPEATS) as usize;
        let mut rounds = vec![Vec::with_capacity(TIMED_ROUNDS); ways.len()];
        for round in 0..=TIMED_ROUNDS {
            for (way, times) in ways.iter().zip(&mut rounds) {
                let mut seconds = 0.0;
                for repeat in 0..repeats {
                    self.own(Buffer::Send, 0, touched).fill(repeat as u8);
                    self.barrier()?;
                    let begun = Instant::now();
                    self.run_by(*way, &call)?;
                    seconds += begun.elapsed().as_secs_f64();
                    read(self.own(Buffer::Recv, 0, touched));
                }
                // The first round fills caches and page tables.
                if round > 0 {
                    times.push(seconds * 1e6 / repeats as f64);
                }
            }
        }
        let mine: Vec<f64> = rounds.iter().map(|us| median(us).unwrap_or(f64::INFINITY)).collect();
        let slowest = self.slowest(&mine)?;
        let timing = |(choice, us)| Timing { size, choice, us };
        Ok(ways.into_iter().zip(slowest).map(timing).collect())
    }

    /// The largest of all ranks' values, element by element.
    fn slowest(&mut self, mine: &[f64]) -> Result<Vec<f64>, Wait> {
        let bytes: Vec<u8> = mine.iter().flat_map(|us| us.to_le_bytes()).collect();
        let mut slowest = mine.to_vec();
        self.exchange(&bytes, |theirs| {
            for (slowest, us) in slowest.iter_mut().zip(theirs.as_chunks::<8>().0) {
                *slowest = slowest.max(f64::from_le_bytes(*us));
            }
        })?;
        Ok(slowest)
    }
}

/// The shortest time, in microseconds.
fn best<'t>(timed: impl IntoIterator<Item = &'t Timing>) -> f64 {
    timed.into_iter().map(|t| t.us).fold(f64::INFINITY, f64::min)
}

/// Whether an algorithm that was timed at one size may be the fastest at a larger one. Slots end
/// where a message no longer fits, so their speed is no argument against the others. Stores past
/// the caches are slow where caches still help, so an algorithm is judged by its faster variant.
fn worth_trying(way: Choice, timed: &[Timing]) -> bool {
    let of = |algorithm| best(timed.iter().filter(|t| t.choice.algorithm == algorithm));
    let rivals = timed
        .iter()
        .filter(|t| way.algorithm == Algorithm::Slot || t.choice.algorithm != Algorithm::Slot);
    let here = of(way.algorithm);
    here.is_finite() && here <= GIVE_UP_FACTOR * best(rivals)
}

/// Bytes of the longer of one rank's two buffers for `size` bytes of the count argument.
fn buffer_bytes(collective: Collective, ranks: usize, size: usize) -> usize {
    match collective.spec().buffers {
        BufferShape::Whole => size,
        _ => size * ranks,
    }
}

/// Reads every word.
fn read(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    black_box(words.fold(0u64, u64::wrapping_add));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(us: &[(Algorithm, bool, f64)]) -> Vec<Timing> {
        let timing = |&(algorithm, streamed, us)| Timing {
            size: 32,
            choice: Choice { algorithm, streamed },
            us,
        };
        us.iter().map(timing).collect()
    }

    fn tried(timed: &[Timing]) -> Vec<String> {
        let choices = timed.iter().map(|t| t.choice);
        choices.filter(|c| worth_trying(*c, timed)).map(|c| c.to_string()).collect()
    }

    #[test]
    fn fast_slots_end_no_way_of_large_messages() {
        use Algorithm::{Pull, Slot};
        let us = timed(&[(Slot, false, 1.0), (Pull, false, 9.0), (Pull, true, 50.0)]);
        assert_eq!(tried(&us), ["slot", "pull", "pull streamed"]);
    }

    #[test]
    fn what_is_slow_in_every_way_is_not_tried_again() {
        use Algorithm::{Pull, Share, Slot};
        let us = [(Slot, false, 9.0), (Pull, false, 10.0), (Pull, true, 11.0), (Share, true, 2.0)];
        assert_eq!(tried(&timed(&us)), ["share streamed"]);
    }
}
