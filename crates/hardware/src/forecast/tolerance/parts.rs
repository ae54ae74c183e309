//! What the failure of a part costs the dimensions of a job: the loads of trunks, what they bear, what is left.
//! Not which parts fail (`exact`, `drawn`).

use super::super::answer::{self, Alone, Asked, Hashed, Spread};
use super::super::groups::Group;
use super::super::loads::Loads;
use super::super::wave::{Place, Way};
use super::super::{Job, Question, Unanswerable};
use super::{Target, Whole};
use crate::fabric::{Alike, Balance, Built, Failure, Parts, Shape, alike};
use crate::prediction::Expected;

/// A kind of part, and all that its failure affects.
pub(super) struct Affected<'a> {
    pub question: &'a Question,
    pub shape: &'a Shape,
    pub inside: f64,
    pub bytes: u64,
    pub parts: Parts,
    /// The parts in groups that are alike.
    pub groups: Vec<Alike>,
    /// The whole fabric, by trunks.
    pub built: Built,
    pub dimensions: Vec<Dimension>,
}

/// The groups of a dimension at one size.
pub(super) struct Dimension {
    pub whole: Whole,
    pub members: Vec<Group>,
    pub way: Way,
    pub hashed: bool,
    /// Whether the busiest trunk decides.
    pub counted: bool,
    /// Bytes of every link.
    pub loads: Loads,
    /// Microseconds a byte of the size column within which the target is met; none: it is missed without failures.
    pub bears: Option<f64>,
    /// The same of the whole fabric's busiest link.
    pub least: f64,
    alone: Alone,
    ideal: Expected,
    beyond_us: f64,
}

impl Dimension {
    /// GB/s of busbw where the fabric takes so many microseconds a byte; 0 where that is for ever.
    pub fn busbw(&self, us_per_byte: f64) -> f64 {
        if !us_per_byte.is_finite() {
            return 0.0;
        }
        let spread = Spread { us_per_byte: [us_per_byte; 3], held_by: String::new() };
        answer::on_fabric(&self.alone.question(), self.ideal.clone(), &spread, self.beyond_us).busbw
    }

    /// The most microseconds a byte at which busbw is not below a target: busbw never grows with them, so that halving finds it.
    fn bears(&self, target: f64) -> Option<f64> {
        let met = |us: f64| self.busbw(us) >= target * (1.0 - ROUNDING);
        if !met(self.least) {
            return None;
        }
        let mut low = self.least.max(f64::MIN_POSITIVE);
        let mut high = low;
        while met(high) {
            low = high;
            high *= 2.0;
            if !high.is_finite() {
                return Some(low);
            }
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match met(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(low)
    }
}

/// Share by which figures that are the same may differ.
const ROUNDING: f64 = 1e-9;

impl<'a> Affected<'a> {
    pub fn of(
        question: &'a Question,
        shape: &'a Shape,
        job: &Job,
        inside: f64,
        failure: &Failure,
        target: Target,
    ) -> Result<Affected<'a>, Unanswerable> {
        let (fabric, bytes) = (&question.fabric, question.sizes.first().copied().unwrap_or(1));
        let one = Question { sizes: vec![bytes], failures: Vec::new(), ..question.clone() };
        let healthy = one.answer()?;
        let built = Built::new(fabric, shape, &[], Balance::Trunks, inside)?;
        let parts = failure.parts(fabric, shape)?;
        let mut asked = Asked { question: &one, shape, inside, notes: Vec::new() };
        let mut dimensions = Vec::new();
        let said = (0..job.dimensions.len()).filter(|at| job.dimensions[*at].size >= 2);
        for (at, said) in said.zip(healthy.dimensions) {
            let members = question.groups(shape, job, at);
            let Some(largest) = members.iter().max_by_key(|group| group.members.len()) else {
                continue;
            };
            let alone = Alone::of(&one, largest);
            let ideal = alone.question().expect(bytes)?;
            let way = answer::way(ideal.algorithm, question.collective);
            let beyond_us = asked.beyond_one_switch_us(largest, way);
            let hashed = asked.hashed(&members, way) == Hashed::Yes;
            let place =
                Place::new(&built, Balance::Trunks, shape, fabric.gpus_per_island(), &members);
            let loads = Loads::of(&place, question.collective, way, &members)
                .ok_or(Unanswerable::Uncounted)?;
            let busbw = said.sizes.first().map_or(0.0, |size| size.busbw);
            let counted = loads.level && !hashed;
            let mut dimension = Dimension {
                whole: Whole { name: said.name, busbw, target: 0.0 },
                members,
                way,
                hashed,
                counted,
                least: loads.us_per_byte(&built.capacity),
                loads,
                bears: None,
                alone,
                ideal,
                beyond_us,
            };
            if counted {
                // The forecast's simulation of many classes lets flows that end nearly together end at once.
                dimension.whole.busbw = dimension.busbw(dimension.least);
            }
            dimension.whole.target = match target {
                Target::Busbw(busbw) => busbw,
                Target::Share(share) => share * dimension.whole.busbw,
            };
            let target = dimension.whole.target;
            dimension.bears = dimension.bears(target);
            dimensions.push(dimension);
        }
        asked.notes.clear();
        let groups = alike(&parts, &built);
        Ok(Affected { question, shape, inside, bytes, parts, groups, built, dimensions })
    }

    /// Parts that carry bytes.
    pub fn used(&self) -> usize {
        let carries = |group: &&Alike| {
            group
                .takes
                .iter()
                .any(|(trunk, _)| self.dimensions.iter().any(|one| Self::load(one, *trunk) > 0.0))
        };
        self.groups.iter().filter(carries).map(|group| group.parts.len()).sum()
    }

    /// The dimension that is nearest to its target.
    pub fn tightest(&self) -> usize {
        let room = |one: &Dimension| {
            one.bears.map_or(0.0, |bears| bears / one.least.max(f64::MIN_POSITIVE))
        };
        let order = |a: &usize, b: &usize| {
            room(&self.dimensions[*a]).total_cmp(&room(&self.dimensions[*b]))
        };
        (0..self.dimensions.len()).min_by(order).unwrap_or(0)
    }

    /// Whether the whole fabric meets the target.
    pub fn met(&self) -> bool {
        self.dimensions.iter().all(|one| {
            one.bears.is_some() && one.whole.busbw >= one.whole.target * (1.0 - ROUNDING)
        })
    }

    fn load(dimension: &Dimension, trunk: usize) -> f64 {
        let bytes = &dimension.loads.bytes;
        bytes[2 * trunk].max(bytes[2 * trunk + 1])
    }

    /// Microseconds a byte of the busiest trunk that a group touches when so many of its parts have failed, and that trunk.
    pub fn us_per_byte(&self, dimension: &Dimension, group: &Alike, failed: usize) -> (f64, usize) {
        let of = |(trunk, loss): &(usize, f64)| {
            let load = Self::load(dimension, *trunk);
            let whole = self.built.capacity[2 * trunk];
            let left = whole - loss * failed as f64;
            match (load > 0.0, left > whole * ROUNDING) {
                (false, _) => (0.0, *trunk),
                (true, true) => (load / left, *trunk),
                (true, false) => (f64::INFINITY, *trunk),
            }
        };
        // The first of those that are equal.
        let all = group.takes.iter().map(of).rev();
        all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
    }

    /// How far a group is from missing the target when so many of its parts have failed: above 1 it misses it. With the
    /// dimension, and the trunk.
    pub fn strain(&self, group: &Alike, failed: usize) -> (f64, usize, usize) {
        let of = |(at, dimension): (usize, &Dimension)| {
            let (us, trunk) = self.us_per_byte(dimension, group, failed);
            let bears = dimension.bears.unwrap_or(0.0);
            (if us > 0.0 { us / bears } else { 0.0 }, at, trunk)
        };
        let all = self.dimensions.iter().enumerate().map(of);
        all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0, 0))
    }

    /// How many parts of a group may fail. More never cost less, so that halving finds it.
    pub fn bearable(&self, group: &Alike) -> usize {
        let misses = |failed: usize| self.strain(group, failed).0 > 1.0 + ROUNDING;
        let (mut met, mut missed) = (0, group.parts.len() + 1);
        while missed - met > 1 {
            let middle = (met + missed) / 2;
            match misses(middle) {
                true => missed = middle,
                false => met = middle,
            }
        }
        met
    }
}
