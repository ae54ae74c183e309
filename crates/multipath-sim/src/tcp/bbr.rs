//! BBR, version 1, as Linux has it (tcp_bbr.c; Cardwell et al., ACM Queue 2016): it models the bottleneck's rate
//! and the round
//! trip, and paces after that.
//! Not loss detection. The detection of policers (lt_bw) is left out.

use std::{collections::VecDeque, time::Duration};

use busbw_multipath::Time;

use super::control::{Ack, INITIAL_WINDOW, Phase, Window};
use crate::Random;

const HIGH_GAIN: f64 = 2885.0 / 1000.0;
const DRAIN_GAIN: f64 = 1000.0 / 2885.0;
const WINDOW_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips in which the greatest rate counts.
const ROUNDS: u64 = 10;
const MIN_WINDOW: u32 = 4;
const MIN_TRIP_AGE: Duration = Duration::from_secs(10);
const PROBE_TIME: Duration = Duration::from_millis(200);
/// The pipe is full when the rate has not grown by so much in so many rounds.
const FULL: (f64, u32) = (1.25, 3);
const MARGIN: f64 = 0.99;
/// Acknowledgements that come together: the longest time of them that counts, and rounds of each of two windows.
const AGGREGATION_TIME: f64 = 0.1;
const AGGREGATION_ROUNDS: u32 = 5;
/// Bytes that travel together (segmentation offload) are at most these.
const OFFLOAD: f64 = 65_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeRate,
    ProbeTrip,
}

#[derive(Debug, Clone)]
pub(super) struct Bbr {
    segment: f64,
    mode: Mode,
    random: Random,
    /// Greatest rates, segments a second, each with the round in which it was; falling.
    rates: VecDeque<(u64, f64)>,
    rounds: u64,
    next_round: u64,
    round_starts: bool,
    min_trip: Option<(Duration, Time)>,
    probe_done: Option<Time>,
    probe_round_done: bool,
    cycle: usize,
    cycle_since: Time,
    full_rate: f64,
    full_rounds: u32,
    is_full: bool,
    prior_window: u32,
    prior_phase: Phase,
    conserves: bool,
    has_trip: bool,
    after_idle: bool,
    aggregation: Aggregation,
}

#[derive(Debug, Clone, Copy)]
struct Aggregation {
    epoch: Time,
    acked: f64,
    extra: [f64; 2],
    window: usize,
    rounds: u32,
}

impl Bbr {
    pub(super) fn new(window: &mut Window, segment: u32, seed: u64, now: Time) -> Bbr {
        let segment = f64::from(segment);
        window.pace = Some(HIGH_GAIN * f64::from(INITIAL_WINDOW) * segment / 1e-3);
        Bbr {
            segment,
            mode: Mode::Startup,
            random: Random::new(seed),
            rates: VecDeque::new(),
            rounds: 0,
            next_round: 0,
            round_starts: false,
            min_trip: None,
            probe_done: None,
            probe_round_done: false,
            cycle: 0,
            cycle_since: now,
            full_rate: 0.0,
            full_rounds: 0,
            is_full: false,
            prior_window: 0,
            prior_phase: Phase::Open,
            conserves: false,
            has_trip: false,
            after_idle: false,
            aggregation: Aggregation {
                epoch: now,
                acked: 0.0,
                extra: [0.0; 2],
                window: 0,
                rounds: 0,
            },
        }
    }

    fn max_rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Segments that are in flight at this multiple of the bottleneck's rate.
    fn in_flight(&self, gain: f64) -> u32 {
        let Some((trip, _)) = self.min_trip else { return INITIAL_WINDOW };
        (gain * self.max_rate() * trip.as_secs_f64()).ceil() as u32
    }

    /// The same with room for what travels together.
    fn budget(&self, segments: u32, window: &Window) -> u32 {
        let goal = (window.pace.unwrap_or(0.0) / 1024.0).min(OFFLOAD) / self.segment;
        let segments = segments + 3 * (goal as u32).max(2);
        let even = segments + segments % 2;
        if self.mode == Mode::ProbeRate && self.cycle == 0 { even + 2 } else { even }
    }

    pub(super) fn acknowledged(&mut self, ack: &Ack, window: &mut Window) {
        self.update_rate(ack);
        self.update_aggregation(ack, window);
        self.update_cycle(ack, window);
        self.update_full(ack);
        self.update_drain(ack, window);
        self.update_min_trip(ack, window);
        let (pacing, gain) = self.gains();
        self.set_pace(pacing, ack, window);
        self.set_window(gain, ack, window);
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeRate => (CYCLE[self.cycle], WINDOW_GAIN),
            Mode::ProbeTrip => (1.0, 1.0),
        }
    }

    fn update_rate(&mut self, ack: &Ack) {
        self.round_starts = false;
        if ack.prior_delivered.is_some_and(|prior| prior >= self.next_round) {
            self.next_round = ack.delivered;
            self.rounds += 1;
            self.round_starts = true;
            self.conserves = false;
        }
        let Some(rate) = ack.rate else { return };
        let per_second = rate.delivered as f64 / rate.interval.as_secs_f64();
        if !rate.app_limited || per_second >= self.max_rate() {
            while self.rates.back().is_some_and(|(_, older)| *older <= per_second) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.rounds, per_second));
        }
        // The last one stays until there is another.
        while self.rates.len() > 1 && self.rates[0].0 + ROUNDS < self.rounds {
            self.rates.pop_front();
        }
    }

    fn update_aggregation(&mut self, ack: &Ack, window: &Window) {
        if ack.acked == 0 || ack.rate.is_none() {
            return;
        }
        let rate = self.max_rate();
        let one = &mut self.aggregation;
        if self.round_starts {
            one.rounds += 1;
            if one.rounds >= AGGREGATION_ROUNDS {
                one.rounds = 0;
                one.window = 1 - one.window;
                one.extra[one.window] = 0.0;
            }
        }
        let mut expected = rate * ack.delivered_at.since(one.epoch).as_secs_f64();
        if one.acked <= expected {
            (one.acked, one.epoch, expected) = (0.0, ack.delivered_at, 0.0);
        }
        one.acked += f64::from(ack.acked);
        let extra = (one.acked - expected).clamp(0.0, window.cwnd.into());
        one.extra[one.window] = one.extra[one.window].max(extra);
    }

    fn update_cycle(&mut self, ack: &Ack, window: &Window) {
        if self.mode != Mode::ProbeRate {
            return;
        }
        let trip = self.min_trip.map_or(Duration::ZERO, |(trip, _)| trip);
        let is_long = ack.delivered_at.since(self.cycle_since) > trip;
        let gain = CYCLE[self.cycle];
        let has = ack.prior_in_flight;
        let full = |gain| self.budget(self.in_flight(gain), window);
        let next = if gain == 1.0 {
            is_long
        } else if gain > 1.0 {
            is_long && (ack.lost > 0 || has >= full(gain))
        } else {
            is_long || has <= full(1.0)
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_since = ack.delivered_at;
        }
    }

    fn update_full(&mut self, ack: &Ack) {
        if self.is_full || !self.round_starts || ack.rate.is_some_and(|rate| rate.app_limited) {
            return;
        }
        if self.max_rate() >= self.full_rate * FULL.0 {
            (self.full_rate, self.full_rounds) = (self.max_rate(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL.1;
    }

    fn update_drain(&mut self, ack: &Ack, window: &mut Window) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            window.ssthresh = self.budget(self.in_flight(1.0), window);
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.budget(self.in_flight(1.0), window) {
            self.probe_rate(ack.now);
        }
    }

    fn probe_rate(&mut self, now: Time) {
        self.mode = Mode::ProbeRate;
        self.cycle = CYCLE.len() - 1 - self.random.below(7) as usize;
        // And on to the next, as Linux does.
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_since = now;
    }

    fn update_min_trip(&mut self, ack: &Ack, window: &mut Window) {
        let expired = self.min_trip.is_some_and(|(_, at)| ack.now.since(at) > MIN_TRIP_AGE);
        if let Some(trip) = ack.round_trip
            && (expired || self.min_trip.is_none_or(|(min, _)| trip <= min))
        {
            self.min_trip = Some((trip, ack.now));
        }
        if expired && !self.after_idle && self.mode != Mode::ProbeTrip {
            self.mode = Mode::ProbeTrip;
            self.save_window(window);
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeTrip {
            match self.probe_done {
                None if ack.in_flight <= MIN_WINDOW => {
                    self.probe_done = Some(ack.now + PROBE_TIME);
                    self.probe_round_done = false;
                    self.next_round = ack.delivered;
                }
                Some(until) => {
                    self.probe_round_done |= self.round_starts;
                    if self.probe_round_done && ack.now > until {
                        self.min_trip = self.min_trip.map(|(trip, _)| (trip, ack.now));
                        window.cwnd = window.cwnd.max(self.prior_window);
                        if self.is_full {
                            self.probe_rate(ack.now)
                        } else {
                            self.mode = Mode::Startup
                        }
                    }
                }
                None => {}
            }
        }
        if ack.acked > 0 {
            self.after_idle = false;
        }
    }

    fn set_pace(&mut self, gain: f64, ack: &Ack, window: &mut Window) {
        if !self.has_trip
            && let Some(trip) = ack.round_trip
        {
            self.has_trip = true;
            let trip = trip.as_secs_f64().max(1e-6);
            window.pace = Some(HIGH_GAIN * f64::from(window.cwnd) * self.segment / trip);
        }
        let pace = self.max_rate() * gain * MARGIN * self.segment;
        if self.is_full || pace > window.pace.unwrap_or(0.0) {
            window.pace = Some(pace.max(1.0));
        }
    }

    fn set_window(&mut self, gain: f64, ack: &Ack, window: &mut Window) {
        if ack.acked > 0 && !self.recovers(ack, window) {
            let mut target = self.in_flight(gain);
            if self.is_full {
                let most = self.max_rate() * AGGREGATION_TIME;
                target += self.aggregation.extra[0].max(self.aggregation.extra[1]).min(most) as u32;
            }
            let target = self.budget(target, window);
            if self.is_full {
                window.cwnd = (window.cwnd + ack.acked).min(target);
            } else if window.cwnd < target || ack.delivered < INITIAL_WINDOW.into() {
                window.cwnd += ack.acked;
            }
            window.cwnd = window.cwnd.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeTrip {
            window.cwnd = window.cwnd.min(MIN_WINDOW);
        }
    }

    /// In the first round trip of a recovery, one segment leaves for each that arrives.
    fn recovers(&mut self, ack: &Ack, window: &mut Window) -> bool {
        if ack.lost > 0 {
            window.cwnd = window.cwnd.saturating_sub(ack.lost).max(1);
        }
        if ack.phase == Phase::Recovery && self.prior_phase != Phase::Recovery {
            self.conserves = true;
            self.next_round = ack.delivered;
            window.cwnd = ack.in_flight + ack.acked;
        } else if self.prior_phase >= Phase::Recovery && ack.phase < Phase::Recovery {
            window.cwnd = window.cwnd.max(self.prior_window);
            self.conserves = false;
        }
        self.prior_phase = ack.phase;
        if self.conserves {
            window.cwnd = window.cwnd.max(ack.in_flight + ack.acked);
        }
        self.conserves
    }

    /// The window before it is reduced. Returns where slow start ends, which stays as it is.
    pub(super) fn save_window(&mut self, window: &Window) -> u32 {
        let keeps = self.prior_phase < Phase::Recovery && self.mode != Mode::ProbeTrip;
        self.prior_window = if keeps { window.cwnd } else { self.prior_window.max(window.cwnd) };
        window.ssthresh
    }

    pub(super) fn timed_out(&mut self) {
        self.prior_phase = Phase::Loss;
        (self.full_rate, self.full_rounds) = (0.0, 0);
        self.round_starts = true;
    }

    pub(super) fn restarts(&mut self, now: Time, window: &mut Window) {
        self.after_idle = true;
        self.aggregation.epoch = now;
        self.aggregation.acked = 0.0;
        if self.mode == Mode::ProbeRate {
            window.pace = Some((self.max_rate() * MARGIN * self.segment).max(1.0));
        } else if self.mode == Mode::ProbeTrip && self.probe_done.is_some_and(|until| now > until) {
            self.min_trip = self.min_trip.map(|(trip, _)| (trip, now));
            window.cwnd = window.cwnd.max(self.prior_window);
            if self.is_full { self.probe_rate(now) } else { self.mode = Mode::Startup }
        }
    }
}
