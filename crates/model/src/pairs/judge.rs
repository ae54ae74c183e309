//! From figures to a verdict: subjects are named one by one as they explain most, then each has to
//! stand without the others' help.
//! Not the plan of a retest, and not the sentences. docs/pairs.md tells the method and its rates.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{
    figures::Figures,
    fit::{Field, Fit},
    subject::{Candidate, Subject, candidates},
    tail,
    verdict::{Basis, Finding, Level, Rule, Unjudged, Verdict, Why},
};
use crate::stats::median;

/// Part of a subject's cells that have to be slow by at least half of what it is slow by.
const MOST: f64 = 0.75;

/// What a subject has to explain more for each class in which it is slow, in squared deviations.
const EACH_CLASS: f64 = 9.0;

/// Others that explain as much but for this, in squared deviations, are as likely: 1 to 20.
const AS_GOOD: f64 = 6.0;

/// The most subjects that are named; more are no outliers, but how the machine is.
const MOST_NAMED: usize = 16;

/// Judges figures by a rule: a first look.
pub fn judge(figures: &Figures, rule: &Rule) -> Verdict {
    Judge::new(figures, rule, candidates(figures)).verdict(Basis::FirstLook)
}

/// Judges figures of a retest by these alone. Named can be who has at least half of a suspicion's cells;
/// suspicions that come to nothing are cleared.
pub fn confirm(first: &Verdict, figures: &Figures, rule: &Rule) -> Verdict {
    let hosts = figures.hosts();
    let slowed = |subject: &Subject| -> BTreeSet<usize> {
        let cells = figures.cells().iter().enumerate();
        cells.filter(|(_, cell)| subject.slows(cell.from, cell.to, hosts)).map(|(at, _)| at).collect()
    };
    let suspicions: Vec<(Subject, BTreeSet<usize>)> =
        first.findings.iter().map(|finding| (finding.subject, slowed(&finding.subject))).collect();
    let mut candidates = candidates(figures);
    candidates.retain(|candidate| suspicions.iter().any(|(_, cells)| half(candidate.places(), cells)));
    let mut verdict = Judge::new(figures, rule, candidates).verdict(Basis::Retest);
    let found: Vec<_> = verdict.findings.iter().map(|finding| slowed(&finding.subject)).collect();
    let stands = |cells: &BTreeSet<usize>| found.iter().any(|f| half(f.iter().copied(), cells));
    let cleared = suspicions.iter().filter(|(_, cells)| !stands(cells));
    verdict.cleared = cleared.map(|(subject, _)| *subject).collect();
    verdict
}

/// Whether at least half of a suspicion's cells are among these.
fn half(cells: impl Iterator<Item = usize>, suspicion: &BTreeSet<usize>) -> bool {
    let shared = cells.filter(|at| suspicion.contains(at)).count();
    shared > 0 && 2 * shared >= suspicion.len()
}

/// Of a class: its cells, those that nobody named slows, and the sum of what is left of all.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    cells: usize,
    healthy: usize,
    rest: f64,
}

struct Judge<'a> {
    figures: &'a Figures,
    field: Field,
    rule: &'a Rule,
    candidates: Vec<Candidate>,
    first_noise: Vec<Option<f64>>,
}

/// A subject that was named, and others as good.
struct Named {
    candidate: usize,
    rivals: Vec<usize>,
}

impl<'a> Judge<'a> {
    fn new(figures: &'a Figures, rule: &'a Rule, candidates: Vec<Candidate>) -> Judge<'a> {
        let field = Field::new(figures);
        let first_noise = field.first_noise();
        Judge { figures, field, rule, candidates, first_noise }
    }

    fn verdict(&self, basis: Basis) -> Verdict {
        let mut named = self.named();
        let (fit, chances) = loop {
            let fit = self.fit(&named);
            let chances: Vec<f64> = (0..named.len()).map(|n| self.chance(&named, n, &fit)).collect();
            let weakest = (0..named.len()).max_by(|a, b| chances[*a].total_cmp(&chances[*b]));
            match weakest.filter(|weakest| chances[*weakest] > self.rule.false_alarms) {
                Some(weakest) => drop(named.remove(weakest)),
                None => break (fit, chances),
            }
        };
        let mut findings: Vec<Finding> =
            (0..named.len()).map(|n| self.finding(&named, n, &fit, chances[n])).collect();
        findings.sort_by(|a, b| {
            let order = b.confidence.total_cmp(&a.confidence);
            order.then(b.slower_percent.total_cmp(&a.slower_percent))
        });
        Verdict {
            basis,
            unit: self.figures.unit(),
            hosts: self.figures.hosts().to_vec(),
            levels: self.levels(&fit),
            findings,
            unjudged: self.unjudged(&fit),
            cleared: Vec::new(),
        }
    }

    fn fit(&self, named: &[Named]) -> Fit {
        let subjects: Vec<_> = named.iter().map(|n| &self.candidates[n.candidate]).collect();
        self.field.fit(&subjects)
    }

    /// Names one subject after the other, each the one that explains most of what is left.
    fn named(&self) -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        while named.len() < MOST_NAMED {
            let fit = self.fit(&named);
            let left = self.left(&fit);
            let mut scores: Vec<(f64, usize)> = (self.candidates.iter().enumerate())
                .filter(|(number, _)| !named.iter().any(|n| n.candidate == *number))
                .filter_map(|(number, candidate)| Some((self.explains(candidate, &fit, &left)?, number)))
                .collect();
            scores.sort_by(|a, b| b.0.total_cmp(&a.0));
            let Some(&(best, candidate)) = scores.first() else { break };
            let cells: BTreeSet<usize> = self.candidates[candidate].places().collect();
            // Who has none of its cells is no alternative, but another fault.
            let rivals = (scores.iter().skip(1))
                .take_while(|(score, _)| *score > best - AS_GOOD)
                .map(|(_, rival)| *rival)
                .filter(|rival| half(self.candidates[*rival].places(), &cells));
            named.push(Named { candidate, rivals: rivals.collect() });
        }
        named
    }

    /// What a candidate explains of what is left, in squared deviations, less what it is allowed to
    /// by its freedom; none if it cannot be it.
    fn explains(&self, candidate: &Candidate, fit: &Fit, left: &[Left]) -> Option<f64> {
        let (mut sum, mut slow, mut all) = (0.0, 0, 0);
        for (class, places) in &candidate.cells {
            let noise = self.first_noise[*class]?;
            let Left { cells, healthy, rest: total } = left[*class];
            let own: f64 = places.iter().map(|at| fit.rest[*at]).sum();
            let others = cells - places.len();
            // Somebody of the class has to be left whom nobody slows.
            let free = places.iter().filter(|at| fit.named[**at] == 0).count();
            if others == 0 || healthy <= free {
                return None;
            }
            let (mine, theirs) = (places.len() as f64, others as f64);
            let effect = own / mine - (total - own) / theirs;
            if effect < self.rule.smallest.ln_1p() {
                return None;
            }
            sum += mine * theirs / (mine + theirs) * (effect / noise).powi(2) - EACH_CLASS;
            let level = (total - own) / theirs;
            slow += places.iter().filter(|at| fit.rest[**at] - level > effect / 2.0).count();
            all += places.len();
        }
        let tried = self.candidates.len() as f64;
        (slow as f64 >= MOST * all as f64).then_some(sum - 2.0 * tried.ln()).filter(|sum| *sum > 0.0)
    }

    /// What is left in each class.
    fn left(&self, fit: &Fit) -> Vec<Left> {
        let mut left = vec![Left::default(); self.field.classes];
        for (at, class) in self.field.class.iter().enumerate() {
            let left = &mut left[*class];
            left.cells += 1;
            left.rest += fit.rest[at];
            left.healthy += usize::from(fit.named[at] == 0);
        }
        left
    }

    /// The probability that chance names anybody who looks as slow as the `n`-th; 1 if that one is
    /// not slow enough to be called so.
    fn chance(&self, named: &[Named], n: usize, fit: &Fit) -> f64 {
        let candidate = &self.candidates[named[n].candidate];
        let (mut sum, mut freedom, left) = (0.0, 0.0, self.left(fit));
        for (class, places) in &candidate.cells {
            let (Some((noise, degrees)), effect) = (fit.noise[*class], fit.beyond[n][*class]) else {
                return 1.0;
            };
            let (mine, theirs) = (places.len() as f64, left[*class].healthy as f64);
            if effect < self.rule.smallest.ln_1p() || theirs == 0.0 {
                return 1.0;
            }
            let more = effect - self.rule.tolerated.ln_1p();
            sum += more / (noise * (1.0 / mine + 1.0 / theirs).sqrt());
            freedom += degrees;
        }
        let (slow, all) = self.slow_cells(candidate, n, fit);
        if (slow as f64) < MOST * all as f64 {
            return 1.0;
        }
        let together = sum / (candidate.cells.len() as f64).sqrt();
        (tail::above(together, freedom) * self.candidates.len() as f64).min(1.0)
    }

    /// Cells of the `n`-th that are slow by half of what it is, and all of its cells.
    fn slow_cells(&self, candidate: &Candidate, n: usize, fit: &Fit) -> (usize, usize) {
        let slow = |at: &usize| {
            let class = self.field.class[*at];
            self.field.slowness[*at] - fit.levels[class] > fit.effects[n][class] / 2.0
        };
        (candidate.places().filter(slow).count(), candidate.places().count())
    }

    fn finding(&self, named: &[Named], n: usize, fit: &Fit, chance: f64) -> Finding {
        let Named { candidate, rivals } = &named[n];
        let candidate = &self.candidates[*candidate];
        let mut alternatives = candidate.alike.clone();
        for rival in rivals.iter().map(|rival| &self.candidates[*rival]) {
            alternatives.extend([rival.subject].iter().chain(&rival.alike));
        }
        alternatives.sort();
        alternatives.dedup();
        alternatives.retain(|other| *other != candidate.subject);
        let (slow_cells, cells) = self.slow_cells(candidate, n, fit);
        // The class with most of its cells speaks for it.
        let main = candidate.cells.iter().min_by_key(|(_, places)| Reverse(places.len()));
        let class = main.map_or(0, |(class, _)| *class);
        let effect = fit.effects[n][class];
        let more = self.figures.unit().more_is_better();
        let percent = if more { 1.0 - (-effect).exp() } else { effect.exp() - 1.0 };
        Finding {
            subject: candidate.subject,
            alternatives,
            class: candidate.only.and_then(|class| self.figures.classes().get(class).cloned()),
            slower_percent: 100.0 * percent,
            longer_us: (!more).then(|| fit.levels[class].exp() * percent),
            slow_cells,
            cells,
            confidence: 1.0 - chance,
        }
    }

    fn levels(&self, fit: &Fit) -> Vec<Level> {
        let of_class = |(class, name): (usize, &String)| {
            let cells = self.figures.cells().iter().filter(|cell| cell.class == class);
            let samples: Vec<f64> = cells.map(|cell| cell.samples as f64).collect();
            let level = fit.levels[class];
            Some(Level {
                class: name.clone(),
                value: if self.figures.unit().more_is_better() { -level } else { level }.exp(),
                spread_percent: fit.noise[class].map(|(noise, _)| 100.0 * noise),
                cells: samples.len(),
                samples: median(&samples)? as usize,
            })
        };
        self.figures.classes().iter().enumerate().filter_map(of_class).collect()
    }

    fn unjudged(&self, fit: &Fit) -> Vec<Unjudged> {
        let of_class = |(class, name): (usize, &String)| {
            let cells = self.field.class.iter().filter(|of| **of == class).count();
            let why = match cells {
                0 => return None,
                1 => Why::NoPeers,
                _ if fit.noise[class].is_none() => Why::FewSamples,
                _ => return None,
            };
            Some(Unjudged { class: name.clone(), why })
        };
        self.figures.classes().iter().enumerate().filter_map(of_class).collect()
    }
}
