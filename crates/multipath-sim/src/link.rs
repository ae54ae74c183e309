//! One direction of a link: rate, propagation delay, a queue with a bound, and what goes wrong on it.
//! Not where packets go next (`network`).

use std::{collections::VecDeque, time::Duration};

use busbw_multipath::Time;

use crate::Random;

/// How a link is, and what goes wrong on it. All of it may [change](Change).
#[derive(Debug, Clone)]
pub struct Link {
    /// Bits a second; 0: as fast as can be.
    rate: u64,
    /// From its one end to its other.
    delay: Duration,
    /// Bytes that may be sent at once after a pause (token bucket).
    burst: u64,
    /// Bytes that may wait; what does not fit is dropped.
    limit: u64,
    /// Longer packets are dropped silently; 0: none are.
    mtu: u32,
    loss: f64,
    duplication: f64,
    /// How often, and by how much, a packet is late, so that others overtake it.
    reordering: (f64, Duration),
    is_blackhole: bool,
    resets: bool,
    is_up: bool,
    /// When the bucket of tokens was empty, or would have been: it fills from then on.
    empty: Time,
    /// What waits or is being sent: when it is sent, and its bytes.
    waiting: VecDeque<(Time, u32)>,
    backlog: u64,
    counters: Counters,
}

/// What a link has carried.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Packets that it carried.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found no place in the queue.
    pub overflowed: u64,
    /// Packets that were dropped otherwise: at random, by a blackhole, or since they were too long.
    pub lost: u64,
}

/// A change of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Bits a second. Where the queue is bounded in time (tbf), its bound in bytes changes with it.
    Rate(u64),
    /// The propagation delay.
    Delay(Duration),
    /// The probability of losing a packet.
    Loss(f64),
    /// The probability of a packet arriving twice.
    Duplication(f64),
    /// The probability of a packet being late, and by how much.
    Reordering(f64, Duration),
    /// Whether everything is dropped silently.
    Blackhole(bool),
    /// Whether packets are answered with a reset.
    Resets(bool),
    /// Whether it is up. Where it is not, ECMP takes the others.
    Up(bool),
    /// Longer packets, without the Ethernet header, are dropped silently; 0: none are.
    Mtu(u32),
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is gone.
    Dropped,
    /// It is gone, and whoever sent it is told so.
    Reset,
    /// It arrives then, and perhaps once more.
    Arrives(Time, Option<Time>),
}

/// Bytes of an Ethernet header, which a token bucket counts.
pub const ETHERNET: u32 = 14;

impl Link {
    /// A link of so many bits a second, with a queue of so many bytes.
    #[must_use]
    pub fn new(rate: u64, delay: Duration, limit: u64) -> Link {
        Link {
            rate,
            delay,
            burst: 0,
            limit,
            mtu: 0,
            loss: 0.0,
            duplication: 0.0,
            reordering: (0.0, Duration::ZERO),
            is_blackhole: false,
            resets: false,
            is_up: true,
            empty: Time::default(),
            waiting: VecDeque::new(),
            backlog: 0,
            counters: Counters::default(),
        }
    }

    /// As `tc qdisc add … tbf rate RATE burst BURST latency LATENCY` makes one: the queue holds what is sent within
    /// `latency`, and the burst (tc-tbf(8), iproute2 q_tbf.c).
    #[must_use]
    pub fn tbf(rate: u64, burst: u32, latency: Duration, delay: Duration) -> Link {
        let limit = in_time(rate, latency) + u64::from(burst);
        Link { burst: burst.into(), ..Link::new(rate, delay, limit) }
    }

    /// Does that to it.
    pub fn change(&mut self, change: Change) {
        match change {
            Change::Rate(rate) => {
                if self.burst > 0 && self.rate > 0 {
                    let latency = (self.limit - self.burst) as f64 / self.rate as f64;
                    self.limit = self.burst + (latency * rate as f64) as u64;
                }
                self.rate = rate;
            }
            Change::Delay(delay) => self.delay = delay,
            Change::Loss(probability) => self.loss = probability,
            Change::Duplication(probability) => self.duplication = probability,
            Change::Reordering(probability, by) => self.reordering = (probability, by),
            Change::Blackhole(is_blackhole) => self.is_blackhole = is_blackhole,
            Change::Resets(resets) => self.resets = resets,
            Change::Up(is_up) => self.is_up = is_up,
            Change::Mtu(mtu) => self.mtu = mtu,
        }
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// What it has carried.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes that wait.
    pub fn backlog(&mut self, now: Time) -> u64 {
        while let Some(&(sent, bytes)) = self.waiting.front()
            && sent <= now
        {
            self.waiting.pop_front();
            self.backlog -= u64::from(bytes);
        }
        self.backlog
    }

    /// Whether what travels together is longer than the bucket of tokens, which then takes its packets one by
    /// one (tbf_segment).
    pub(crate) fn cuts(&self, bytes: u32) -> bool {
        self.burst > 0 && u64::from(bytes) > self.burst
    }

    /// A packet comes, of so many bytes with all headers; it may stand for several that travel together (segmentation
    /// offload), of which the longest has `longest` bytes without the Ethernet header.
    pub fn take(&mut self, bytes: u32, longest: u32, now: Time, random: &mut Random) -> Fate {
        if self.resets && self.is_up {
            self.counters.lost += 1;
            return Fate::Reset;
        }
        let is_long = self.mtu > 0 && longest > self.mtu;
        if !self.is_up || self.is_blackhole || is_long || random.chance(self.loss) {
            self.counters.lost += 1;
            return Fate::Dropped;
        }
        let Some(sent) = self.queue(bytes, now) else {
            self.counters.overflowed += 1;
            return Fate::Dropped;
        };
        self.counters.packets += 1;
        self.counters.bytes += u64::from(bytes);
        let mut arrives = sent + self.delay;
        if random.chance(self.reordering.0) {
            arrives = arrives + self.reordering.1;
        }
        let again = random.chance(self.duplication).then_some(arrives);
        Fate::Arrives(arrives, again)
    }

    /// When a packet is sent that comes now, if there is room for it.
    fn queue(&mut self, bytes: u32, now: Time) -> Option<Time> {
        if self.rate == 0 {
            return Some(now);
        }
        if self.backlog(now) + u64::from(bytes) > self.limit && self.backlog > 0 {
            return None;
        }
        let needed = self.time_of(bytes.into());
        let last = self.waiting.back().map_or(now, |(sent, _)| now.max(*sent));
        let sent = if self.burst == 0 {
            last + needed
        } else {
            let sent = last.max(self.empty + needed);
            // Tokens for a packet that is longer than the burst are collected for it.
            let most = self.time_of(self.burst.max(bytes.into()));
            self.empty = sent - (sent.since(self.empty).min(most) - needed);
            sent
        };
        if sent > now {
            self.waiting.push_back((sent, bytes));
            self.backlog += u64::from(bytes);
        }
        Some(sent)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * 8_000_000_000 / u128::from(self.rate)) as u64)
    }
}

/// Bytes that are sent at a rate in a time.
fn in_time(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * time.as_nanos() / 8_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Time = Time(1_000_000_000);

    fn arrives(link: &mut Link, bytes: u32, at: Time) -> Option<u64> {
        match link.take(bytes, 0, at, &mut Random::new(0)) {
            Fate::Arrives(then, _) => Some(then.since(BEGIN).as_nanos() as u64),
            _ => None,
        }
    }

    #[test]
    fn packets_leave_at_the_rate_and_wait_in_a_bounded_queue() {
        // 1000 bytes take 1 us.
        let mut link = Link::new(8_000_000_000, Duration::from_micros(10), 2500);
        assert_eq!(arrives(&mut link, 1000, BEGIN), Some(11_000));
        assert_eq!(arrives(&mut link, 1000, BEGIN), Some(12_000));
        assert_eq!(arrives(&mut link, 1000, BEGIN), None);
        assert_eq!(arrives(&mut link, 500, BEGIN), Some(12_500));
        assert_eq!(arrives(&mut link, 1000, BEGIN + Duration::from_micros(1)), Some(13_500));
        assert_eq!(link.backlog(BEGIN + Duration::from_micros(2)), 1500);
        let Counters { packets, bytes, overflowed, lost } = link.counters();
        assert_eq!((packets, bytes, overflowed, lost), (4, 3500, 1, 0));
    }

    #[test]
    fn a_token_bucket_lets_a_burst_through_after_a_pause() {
        let mut link = Link::tbf(8_000_000_000, 3000, Duration::from_micros(5), Duration::ZERO);
        let mut at_once =
            |at| (0..20).filter_map(|_| arrives(&mut link, 1000, at)).collect::<Vec<_>>();
        // 3000 bytes of tokens, and 8000 that wait.
        assert_eq!(at_once(BEGIN), [0, 0, 0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000]);
        let later = BEGIN + Duration::from_micros(9);
        assert_eq!(at_once(later)[..3], [9000, 10_000, 11_000]);
        link.change(Change::Rate(4_000_000_000));
        assert_eq!(link.limit, 3000 + 2500);
    }

    #[test]
    fn what_goes_wrong_on_a_link_does_so_as_often_as_it_should() {
        let mut random = Random::new(1);
        let mut count = |change: Change| {
            let mut link = Link::new(0, Duration::ZERO, 0);
            link.change(change);
            let fates = (0..10_000).map(|_| link.take(1000, 1000, BEGIN, &mut random));
            let fates = fates.collect::<Vec<_>>();
            let late = BEGIN + Duration::from_millis(1);
            let are = |is: &dyn Fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
            [
                are(&|fate| *fate == Fate::Dropped),
                are(&|fate| matches!(fate, Fate::Arrives(_, Some(_)))),
                are(&|fate| *fate == Fate::Arrives(late, None)),
                are(&|fate| *fate == Fate::Reset),
            ]
        };
        let near = |count: usize| (850..1150).contains(&count);
        assert!(matches!(count(Change::Loss(0.1)), [lost, 0, 0, 0] if near(lost)));
        assert!(matches!(count(Change::Duplication(0.1)), [0, twice, 0, 0] if near(twice)));
        let reordering = Change::Reordering(0.1, Duration::from_millis(1));
        assert!(matches!(count(reordering), [0, 0, late, 0] if near(late)));
        assert_eq!(count(Change::Blackhole(true)), [10_000, 0, 0, 0]);
        assert_eq!(count(Change::Mtu(999)), [10_000, 0, 0, 0]);
        assert_eq!(count(Change::Mtu(1000)), [0; 4]);
        assert_eq!(count(Change::Resets(true)), [0, 0, 0, 10_000]);
    }
}
