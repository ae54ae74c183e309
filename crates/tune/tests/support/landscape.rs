//! Landscapes drawn by seed: 12 variables whose best environment is known, and a machine that measures with noise.
//! Not shaped for the search: it sees names, values and times, and nothing of what is here.
//!
//! How one is drawn (`u(a, b)` is uniform, effects add up in the logarithm of the time):
//!
//! | part | how |
//! |---|---|
//! | variables | 12 in random order: 8 with ordered lists of 4 to 7 values, 4 with 2 to 4 values without order |
//! | default | an ordered variable's is anywhere in its list, as is any other's |
//! | strong, medium, weak, none | of the variables that are in no other part, a third has u(0.08, 0.25), a third u(0.02, 0.06), the rest 0 to 0.01 between its best and its worst value. Ordered: a valley |
//! | | ((level − best) / farthest)^u(1, 2) around a best level, drawn anywhere but at the list's ends (lists of 4: the two in the middle). Unordered: each value's effect is uniform |
//! | interaction | two ordered variables. Their valley is at (a, b), at least two levels from each one's default, no end of a list: −u(0.18, 0.35) × exp(−(da² + db²) / 2). Either alone changed from its default costs: |
//! | | +u(0.03, 0.08) on each of the two, wherever the other is not within one level of its own place in the valley. One at a time every step is uphill |
//! | plateau | an ordered variable that does nothing at all on half of its list, the default within; beyond it, two levels at least from the default, one interior value gains u(0.06, 0.15) |
//! | cliff | an ordered variable that gains u(0.06, 0.15) towards its best level, which is interior, and whose next level costs ln 2 |
//! | crash, hang | two different pairs of variables, each with two values of the one and two of the other (where it has that many): with both the launch crashes, or hangs. They never hold the default |
//! | noise | each timed batch × exp(0.05 z), z normal; each launch × exp(0.02 z), common to all its batches and sizes |
//! | launch noise | where asked for: each launch × exp(0.05 z), which no number of batches or sizes averages out |
//! | outliers | 3 % of launches are slower by a further 20 to 150 % |
//! | drift | where asked for: a random walk of 0.4 % a launch and a step of 6 % at a random launch |
//! | sizes | three, of 0.05, 1 and 20 ms; all effects alike at each |
//!
//! The optimum is exact: parts that share no variable are minimised apart, and the regions that fail are enumerated.

use busbw_stats::Random;
use busbw_tune::{
    Assignment, Call, CallTimes, Failure, Objective, Outcome, Point, Scope, Space, Trial, Variable,
};

pub const SIZES: [u64; 3] = [1 << 16, 1 << 20, 1 << 25];
const BASE_S: [f64; 3] = [5e-5, 1e-3, 2e-2];
const NOISE: f64 = 0.05;
const LAUNCH_NOISE: f64 = 0.02;
const OUTLIERS: f64 = 0.03;
/// Timed batches of a size in a launch, however many the search would like.
const BATCHES: usize = 5;

/// What is different from the common landscape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As in the table.
    Common,
    /// The same with drift.
    Drifting,
    /// The same with noise of 5 % that a launch has as a whole.
    LaunchNoise,
    /// No variable does anything but crash or hang.
    Flat,
    /// No variable does anything, with drift.
    FlatDrifting,
}

struct Pair {
    a: (usize, usize),
    b: (usize, usize),
    depth: f64,
    alone: (f64, f64),
}

/// Values of two variables with which nothing runs.
struct Region {
    first: (usize, Vec<usize>),
    second: (usize, Vec<usize>),
    failure: Failure,
}

pub struct Landscape {
    pub space: Space,
    /// Variable, then level: ln of the factor.
    effects: Vec<Vec<f64>>,
    pair: Option<Pair>,
    regions: Vec<Region>,
    kind: Kind,
    random: Random,
    walk: f64,
    step_at: usize,
    launches: usize,
}

/// The call of that size.
pub fn call(size: u64) -> Call {
    Call { operation: "all_reduce".to_owned(), size }
}

/// What is measured.
pub fn calls() -> Vec<Call> {
    SIZES.map(call).to_vec()
}

fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * random.uniform()
}

/// A level that is no end of a list of `levels`.
fn interior(random: &mut Random, levels: usize) -> usize {
    1 + random.below(levels - 2)
}

impl Landscape {
    pub fn draw(seed: u64, kind: Kind) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x7475_6E65);
        let mut ordered = vec![true; 8];
        ordered.extend([false; 4]);
        random.shuffle(&mut ordered);
        let levels: Vec<usize> = ordered
            .iter()
            .map(|o| if *o { 4 + random.below(4) } else { 2 + random.below(3) })
            .collect();
        let mut default: Vec<usize> = levels.iter().map(|l| random.below(*l)).collect();
        // The variables of the special parts, from those with lists of five values or more where there are such.
        let mut special: Vec<usize> = (0..12).filter(|v| ordered[*v]).collect();
        random.shuffle(&mut special);
        special.sort_by_key(|v| usize::from(levels[*v] < 5));
        let mut effects: Vec<Vec<f64>> = levels.iter().map(|l| vec![0.0; *l]).collect();
        let [pair_a, pair_b, plateau, cliff] = [special[0], special[1], special[2], special[3]];

        // Interaction.
        let mut place = |v: usize, random: &mut Random| {
            let at = interior(random, levels[v]);
            let far: Vec<usize> = (0..levels[v]).filter(|l| l.abs_diff(at) >= 2).collect();
            if !far.contains(&default[v]) {
                default[v] = far[random.below(far.len())];
            }
            at
        };
        let a = (pair_a, place(pair_a, &mut random));
        let b = (pair_b, place(pair_b, &mut random));
        let depth = between(&mut random, 0.18, 0.35);
        let alone = (between(&mut random, 0.03, 0.08), between(&mut random, 0.03, 0.08));
        let pair = Pair { a, b, depth, alone };

        // Plateau: nothing anywhere, but at one interior value that is far from the default.
        let at = place(plateau, &mut random);
        effects[plateau][at] = -between(&mut random, 0.06, 0.15);

        // Cliff: better and better towards `best`, then twice as slow.
        let best = interior(&mut random, levels[cliff]);
        let gain = between(&mut random, 0.06, 0.15);
        let is_up = random.below(2) == 0;
        for (level, effect) in effects[cliff].iter_mut().enumerate() {
            let before = if is_up { best.checked_sub(level) } else { level.checked_sub(best) };
            *effect = match before {
                Some(distance) => -gain / (1 + distance) as f64,
                None => std::f64::consts::LN_2,
            };
        }
        if effects[cliff][default[cliff]] > 0.0 {
            default[cliff] = if is_up { 0 } else { levels[cliff] - 1 };
        }

        // All others.
        let mut others: Vec<usize> =
            (0..12).filter(|v| ![pair_a, pair_b, plateau, cliff].contains(v)).collect();
        random.shuffle(&mut others);
        for (n, v) in others.into_iter().enumerate() {
            let size = match n % 3 {
                0 => between(&mut random, 0.08, 0.25),
                1 => between(&mut random, 0.02, 0.06),
                _ => between(&mut random, 0.0, 0.01),
            };
            if ordered[v] {
                let best = interior(&mut random, levels[v]);
                let farthest = best.max(levels[v] - 1 - best) as f64;
                let power = between(&mut random, 1.0, 2.0);
                for (level, effect) in effects[v].iter_mut().enumerate() {
                    *effect = size * (level.abs_diff(best) as f64 / farthest).powf(power);
                }
            } else {
                let drawn: Vec<f64> = (0..levels[v]).map(|_| random.uniform()).collect();
                let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
                let high = drawn.iter().copied().fold(0.0, f64::max);
                let scaled = drawn.iter().map(|x| size * (x - low) / (high - low));
                effects[v] = scaled.collect();
            }
        }

        // Regions that fail.
        let mut regions = Vec::new();
        for failure in [Failure::Crashed, Failure::Hung] {
            let mut two: Vec<usize> = (0..12).collect();
            random.shuffle(&mut two);
            let some = |v: usize, random: &mut Random| {
                let mut list: Vec<usize> = (0..levels[v]).collect();
                random.shuffle(&mut list);
                list.truncate(2.min(levels[v] - 1));
                (v, list)
            };
            let first = some(two[0], &mut random);
            let mut second = some(two[1], &mut random);
            if first.1.contains(&default[first.0]) && second.1.contains(&default[second.0]) {
                second.1 = (0..levels[second.0]).filter(|l| !second.1.contains(l)).collect();
                second.1.truncate(2);
            }
            regions.push(Region { first, second, failure });
        }

        let is_flat = matches!(kind, Kind::Flat | Kind::FlatDrifting);
        if is_flat {
            effects.iter_mut().for_each(|table| table.fill(0.0));
        }
        let variables = (0..12).map(|v| Variable {
            name: format!("V{v}"),
            values: (0..levels[v]).map(|level| Some(level.to_string())).collect(),
            default: default[v],
            ordered: ordered[v],
            scope: Scope::Process,
            needs: Vec::new(),
        });
        let step_at = random.below(250);
        Self {
            space: Space::new(variables.collect()).unwrap(),
            effects,
            pair: (!is_flat).then_some(pair),
            regions,
            kind,
            random,
            walk: 0.0,
            step_at,
            launches: 0,
        }
    }

    /// Noise from here on follows from `seed`.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed ^ 0x6E6F_6973_6521);
    }

    pub fn objective() -> Objective {
        Objective::AllCalls(calls())
    }

    /// How it fails, if it does.
    pub fn failure(&self, point: &Point) -> Option<Failure> {
        let is_in = |(v, list): &(usize, Vec<usize>)| list.contains(&point[*v]);
        self.regions.iter().find(|r| is_in(&r.first) && is_in(&r.second)).map(|r| r.failure)
    }

    /// ln of the time without noise, over that of nothing.
    pub fn log_time(&self, point: &Point) -> f64 {
        let sum: f64 = self.effects.iter().zip(point).map(|(table, level)| table[*level]).sum();
        sum + self.pair_effect(point)
    }

    fn pair_effect(&self, point: &Point) -> f64 {
        let Some(pair) = &self.pair else { return 0.0 };
        let variables = self.space.variables();
        let (da, db) = (point[pair.a.0].abs_diff(pair.a.1), point[pair.b.0].abs_diff(pair.b.1));
        let valley = -pair.depth * (-((da * da + db * db) as f64) / 2.0).exp();
        let is_moved = |v: usize| point[v] != variables[v].default;
        let cost = |v: usize, other: usize, cost: f64| {
            if is_moved(v) && other > 1 { cost } else { 0.0 }
        };
        valley + cost(pair.a.0, db, pair.alone.0) + cost(pair.b.0, da, pair.alone.1)
    }

    /// The best environment that runs, and ln of its time.
    pub fn optimum(&self) -> (f64, Point) {
        // Variables that any region or the pair joins are enumerated together, the rest apart.
        let mut joined: Vec<usize> = self.pair.iter().flat_map(|p| [p.a.0, p.b.0]).collect();
        joined.extend(self.regions.iter().flat_map(|r| [r.first.0, r.second.0]));
        joined.sort_unstable();
        joined.dedup();
        let mut point = self.space.default_point();
        for (level, effects) in point.iter_mut().zip(&self.effects) {
            let best = (0..effects.len()).min_by(|a, b| effects[*a].total_cmp(&effects[*b]));
            *level = best.unwrap();
        }
        let mut best = (f64::INFINITY, point.clone());
        joined.iter().for_each(|v| point[*v] = 0);
        loop {
            let log = self.log_time(&point);
            if log < best.0 && self.failure(&point).is_none() {
                best = (log, point.clone());
            }
            let Some(v) = joined.iter().find(|v| point[**v] + 1 < self.effects[**v].len()) else {
                return best;
            };
            joined.iter().take_while(|before| *before != v).for_each(|before| point[*before] = 0);
            point[*v] += 1;
        }
    }

    /// The point of what a report recommends.
    pub fn point_of(&self, environment: &[Assignment]) -> Point {
        let mut point = self.space.default_point();
        for one in environment {
            let v = self.space.variables().iter().position(|v| v.name == one.name).unwrap();
            let values = &self.space.variables()[v].values;
            point[v] = values.iter().position(|value| *value == one.value).unwrap();
        }
        point
    }

    /// How much slower than the optimum a point is, as a fraction.
    pub fn regret(&self, point: &Point) -> f64 {
        if self.failure(point).is_some() {
            return f64::INFINITY;
        }
        (self.log_time(point) - self.optimum().0).exp() - 1.0
    }

    /// One launch: the times by size, and the seconds that it took.
    pub fn launch(&mut self, trial: &Trial) -> (Outcome, f64) {
        self.measure(&trial.point)
    }

    pub fn measure(&mut self, point: &Point) -> (Outcome, f64) {
        self.launches += 1;
        if matches!(self.kind, Kind::Drifting | Kind::FlatDrifting) {
            self.walk += 0.004 * self.random.normal();
            if self.launches == self.step_at {
                self.walk += 0.06;
            }
        }
        if let Some(failure) = self.failure(point) {
            let took_s = if failure == Failure::Hung { 60.0 } else { 3.0 };
            return (Outcome::Failed { failure, text: "planted".to_owned() }, took_s);
        }
        let launch = if self.kind == Kind::LaunchNoise { NOISE } else { LAUNCH_NOISE };
        let mut log = self.log_time(point) + self.walk + launch * self.random.normal();
        if self.random.uniform() < OUTLIERS {
            log += between(&mut self.random, 1.2, 2.5).ln();
        }
        let mut one = |base: f64| base * (log + NOISE * self.random.normal()).exp();
        let times = SIZES.iter().zip(BASE_S);
        let times = times.map(|(size, base)| CallTimes {
            call: call(*size),
            seconds: (0..BATCHES).map(|_| one(base)).collect(),
        });
        (Outcome::Measured(times.collect()), 5.0)
    }
}
