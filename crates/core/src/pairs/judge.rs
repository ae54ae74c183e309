//! From figures to a verdict: subjects are named one by one in the order of what they explain; then
//! each must remain significant without the others.
//! Not the plan of a retest, and not the sentences. docs/pairs.md describes the method and its
//! error rates.

use std::collections::BTreeSet;

use super::{
    figures::{Cell, Figures},
    fit::{Field, Fit},
    subject::{Candidate, Subject, candidates},
    tail,
};
use crate::pairs::assessment::{Basis, Level, PairsAssessment, Rule, SlowSubject, Unjudged, Why};
use busbw_stats::median;

/// Share of a subject's cells that must be slow by at least half of the subject's own slowness.
const MIN_SLOW_SHARE: f64 = 0.75;

/// What a subject must explain more for each class in which it is slow, in squared deviations.
const CLASS_PENALTY: f64 = 9.0;

/// Subjects whose score is within this of the best, in squared deviations, are as likely: 1 to 20.
const TIE_MARGIN: f64 = 6.0;

/// From this many subjects on that slow more than half of all cells, none of them is at fault.
const MAX_WIDE_SUBJECTS: usize = 3;

/// The most subjects that are named; more are no outliers, but the state of the machine.
const MAX_NAMED: usize = 16;

/// Judges figures by a rule: a first look.
pub fn judge(figures: &Figures, rule: &Rule) -> PairsAssessment {
    Judge::new(figures, rule, candidates(figures)).verdict(Basis::FirstLook)
}

/// Judges the figures of a retest by these alone. A subject can be named if at least half of a
/// suspicion's cells are its own and it was suspected in as many; the other suspicions are cleared.
pub fn confirm(first: &PairsAssessment, figures: &Figures, rule: &Rule) -> PairsAssessment {
    let hosts = figures.hosts();
    let slowed = |slow: &SlowSubject| -> BTreeSet<usize> {
        let class = slow.class.as_ref();
        let class = class.and_then(|class| figures.classes().iter().position(|of| of == class));
        let of = |cell: &Cell| {
            class.is_none_or(|class| class == cell.class)
                && slow.subject.slows(cell.from, cell.to, hosts)
        };
        let cells = figures.cells().iter().enumerate();
        cells.filter(|(_, cell)| of(cell)).map(|(at, _)| at).collect()
    };
    let suspicions: Vec<(Subject, BTreeSet<usize>)> =
        first.slow.iter().map(|slow| (slow.subject, slowed(slow))).collect();
    let mut candidates = candidates(figures);
    candidates
        .retain(|candidate| suspicions.iter().any(|(_, cells)| half(candidate.places(), cells)));
    let mut verdict = Judge::new(figures, rule, candidates).verdict(Basis::Retest);
    let smallest = rule.smallest.ln_1p();
    let enough: Vec<&BTreeSet<usize>> = (first.slow.iter().zip(&suspicions))
        .filter(|(slow, _)| slow.effect(first.unit) >= smallest)
        .map(|(_, (_, cells))| cells)
        .collect();
    verdict.slow.retain(|slow| {
        let cells = slowed(slow);
        enough.iter().any(|suspicion| half(cells.iter().copied(), suspicion))
    });
    let found: Vec<_> = verdict.slow.iter().map(slowed).collect();
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

/// One class: its cells, those that no named subject slows, and the sum of their residuals.
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

/// A named subject, and others that fit as well.
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

    fn verdict(&self, basis: Basis) -> PairsAssessment {
        let mut named = self.named();
        let (fit, chances) = loop {
            let fit = self.fit(&named);
            let chances: Vec<f64> =
                (0..named.len()).map(|n| self.chance(&named, n, &fit)).collect();
            let weakest = (0..named.len()).max_by(|a, b| chances[*a].total_cmp(&chances[*b]));
            match weakest.filter(|weakest| chances[*weakest] > self.rule.false_alarms) {
                Some(weakest) => drop(named.remove(weakest)),
                None => break (fit, chances),
            }
        };
        let mut slow: Vec<SlowSubject> =
            (0..named.len()).map(|n| self.slow_subject(&named, n, &fit, chances[n])).collect();
        let slowed = fit.named.iter().filter(|by| **by > 0).count();
        let disturbed = slow.len() >= MAX_WIDE_SUBJECTS && 2 * slowed > fit.named.len();
        if disturbed {
            slow.clear();
        }
        slow.sort_by(|a, b| {
            let order = b.confidence.total_cmp(&a.confidence);
            order.then(b.slower_percent.total_cmp(&a.slower_percent))
        });
        PairsAssessment {
            basis,
            unit: self.figures.unit(),
            hosts: self.figures.hosts().to_vec(),
            levels: self.levels(&fit),
            slow,
            unjudged: self.unjudged(&fit, disturbed),
            cleared: Vec::new(),
        }
    }

    fn fit(&self, named: &[Named]) -> Fit {
        let subjects: Vec<_> = named.iter().map(|n| &self.candidates[n.candidate]).collect();
        self.field.fit(&subjects)
    }

    /// Names one subject after the other, each the one that explains most of the residuals.
    fn named(&self) -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        while named.len() < MAX_NAMED {
            let fit = self.fit(&named);
            let left = self.left(&fit);
            let mut scores: Vec<(f64, usize)> = (self.candidates.iter().enumerate())
                .filter(|(number, _)| !named.iter().any(|n| n.candidate == *number))
                .filter_map(|(number, candidate)| {
                    Some((self.explains(candidate, &fit, &left)?, number))
                })
                .collect();
            scores.sort_by(|a, b| b.0.total_cmp(&a.0));
            let Some(&(best, candidate)) = scores.first() else { break };
            let cells: BTreeSet<usize> = self.candidates[candidate].places().collect();
            // A subject without any of its cells is no alternative, but another fault.
            let rivals = (scores.iter().skip(1))
                .take_while(|(score, _)| *score > best - TIE_MARGIN)
                .map(|(_, rival)| *rival)
                .filter(|rival| half(self.candidates[*rival].places(), &cells));
            named.push(Named { candidate, rivals: rivals.collect() });
        }
        named
    }

    /// How much of the residuals a candidate explains, in squared deviations, less what its degrees
    /// of freedom allow; `None` if it cannot be named.
    fn explains(&self, candidate: &Candidate, fit: &Fit, left: &[Left]) -> Option<f64> {
        let (mut sum, mut slow, mut all) = (0.0, 0, 0);
        let is_free = |at: &usize| fit.named[*at] == 0;
        let hidden = !self.field.adds && candidate.places().any(|at| is_free(&at));
        for (class, places) in &candidate.cells {
            let noise = self.first_noise[*class]?;
            let Left { cells, healthy, rest: total } = left[*class];
            let others = cells - places.len();
            // Some cell of the class must remain that no subject slows.
            if others == 0 || healthy <= places.iter().filter(|at| is_free(at)).count() {
                return None;
            }
            let level = total - places.iter().map(|at| fit.rest[*at]).sum::<f64>();
            let level = level / others as f64;
            // Of two subjects that slow a bandwidth, the slower one hides the other.
            let seen: Vec<f64> = (places.iter().filter(|at| !hidden || is_free(at)))
                .map(|at| fit.rest[*at] - level)
                .collect();
            if seen.is_empty() {
                continue;
            }
            let (mine, theirs) = (seen.len() as f64, others as f64);
            let effect = seen.iter().sum::<f64>() / mine;
            if effect < self.rule.smallest.ln_1p() {
                return None;
            }
            sum += mine * theirs / (mine + theirs) * (effect / noise).powi(2) - CLASS_PENALTY;
            slow += seen.iter().filter(|rest| **rest > effect / 2.0).count();
            all += seen.len();
        }
        let tried = self.candidates.len() as f64;
        (slow as f64 >= MIN_SLOW_SHARE * all as f64)
            .then_some(sum - 2.0 * tried.ln())
            .filter(|sum| *sum > 0.0)
    }

    /// The residuals of each class.
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

    /// The probability that chance names any subject that looks as slow as the `n`-th; 1 if that
    /// one is not slow enough to be named.
    fn chance(&self, named: &[Named], n: usize, fit: &Fit) -> f64 {
        let candidate = &self.candidates[named[n].candidate];
        let (mut sum, mut freedom, left) = (0.0, 0.0, self.left(fit));
        for (class, places) in &candidate.cells {
            let (Some((noise, degrees)), effect) = (fit.noise[*class], fit.beyond[n][*class])
            else {
                return 1.0;
            };
            let own = places.iter().filter(|at| fit.named[**at] == 1).count();
            let mine = if own > 0 { own } else { places.len() } as f64;
            let theirs = left[*class].healthy as f64;
            if effect < self.rule.smallest.ln_1p() || theirs == 0.0 {
                return 1.0;
            }
            let more = effect - self.rule.tolerated.ln_1p();
            sum += more / (noise * (1.0 / mine + 1.0 / theirs).sqrt());
            freedom += degrees;
        }
        let (slow, all) = self.slow_cells(candidate, n, fit);
        if (slow as f64) < MIN_SLOW_SHARE * all as f64 {
            return 1.0;
        }
        let together = sum / (candidate.cells.len() as f64).sqrt();
        (tail::above(together, freedom) * self.candidates.len() as f64).min(1.0)
    }

    /// Cells of the `n`-th that are slow by half of its slowness, and all of its cells.
    fn slow_cells(&self, candidate: &Candidate, n: usize, fit: &Fit) -> (usize, usize) {
        let slow = |at: &usize| {
            let class = self.field.class[*at];
            self.field.slowness[*at] - fit.levels[class] > fit.effects[n][class] / 2.0
        };
        (candidate.places().filter(slow).count(), candidate.places().count())
    }

    fn slow_subject(&self, named: &[Named], n: usize, fit: &Fit, chance: f64) -> SlowSubject {
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
        // The class with most of its cells is reported.
        let main = candidate.cells.iter().max_by_key(|(_, places)| places.len());
        let class = main.map_or(0, |(class, _)| *class);
        let effect = fit.effects[n][class];
        let more = self.figures.unit().more_is_better();
        let percent = if more { 1.0 - (-effect).exp() } else { effect.exp() - 1.0 };
        SlowSubject {
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

    fn unjudged(&self, fit: &Fit, disturbed: bool) -> Vec<Unjudged> {
        let of_class = |(class, name): (usize, &String)| {
            let cells = self.field.class.iter().filter(|of| **of == class).count();
            let why = match cells {
                0 => return None,
                _ if disturbed => Why::Disturbed,
                1 => Why::NoPeers,
                _ if fit.noise[class].is_none() => Why::FewSamples,
                _ => return None,
            };
            Some(Unjudged { class: name.clone(), why })
        };
        self.figures.classes().iter().enumerate().filter_map(of_class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Unit;
    use crate::pairs::assessment::Mover;

    /// Bandwidths of ranks by host, of `samples` each, 20 % lower where the subject slows them.
    fn first_look(hosts: &[usize], slow: Option<Subject>, samples: usize) -> PairsAssessment {
        let n = hosts.len();
        let mut cells = Vec::new();
        for (from, to) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let slowed = slow.is_some_and(|slow| slow.slows(from, to, hosts));
            // Figures differ by up to 1 %.
            let wobble = |sample: usize| (from * 5 + to * 3 + sample * 7) % 11;
            let one =
                |sample| (100.0 + 0.1 * wobble(sample) as f64) * if slowed { 0.8 } else { 1.0 };
            cells.push((from, to, (0..samples).map(one).collect::<Vec<f64>>()));
        }
        let cells = cells.iter().map(|(from, to, samples)| (*from, *to, &samples[..]));
        let unit = Unit::GigabytesPerSecond;
        judge(
            &Figures::by_hosts(unit, hosts.to_vec(), cells).unwrap(),
            &Rule::strict(unit, Mover::Devices),
        )
    }

    fn alternatives(hosts: &[usize], slow: Subject) -> (Subject, Vec<Subject>) {
        let verdict = first_look(hosts, Some(slow), 7);
        assert_eq!(verdict.slow.len(), 1, "{verdict:?}");
        let slow = &verdict.slow[0];
        assert!((slow.slower_percent - 20.0).abs() < 1.0, "{slow:?}");
        (slow.subject, slow.alternatives.clone())
    }

    #[test]
    fn two_ranks_tell_only_a_direction() {
        let (cell, others) = alternatives(&[0, 1], Subject::Sender { rank: 0 });
        assert_eq!(cell, Subject::Cell { from: 0, to: 1 });
        assert_eq!(others, [Subject::Sender { rank: 0 }, Subject::Receiver { rank: 1 }]);
        let verdict = first_look(&[0, 1], Some(Subject::Rank { rank: 0 }), 7);
        assert!(verdict.slow.is_empty() && verdict.unjudged.is_empty());
    }

    #[test]
    fn three_ranks_tell_all_kinds() {
        for slow in [
            Subject::Cell { from: 2, to: 1 },
            Subject::Link { between: [0, 1] },
            Subject::Sender { rank: 1 },
            Subject::Receiver { rank: 0 },
            Subject::Rank { rank: 2 },
        ] {
            assert_eq!(alternatives(&[0, 1, 2], slow), (slow, vec![]));
        }
    }

    #[test]
    fn two_hosts_tell_only_a_direction() {
        let hosts = [0, 0, 0, 0, 1, 1, 1, 1];
        let (path, others) = alternatives(&hosts, Subject::HostSends { host: 1 });
        assert_eq!(path, Subject::Path { from: 1, to: 0 });
        let ends = [Subject::HostSends { host: 1 }, Subject::HostReceives { host: 0 }];
        assert_eq!(others, ends);
        let rank = Subject::Rank { rank: 5 };
        assert_eq!(alternatives(&hosts, rank), (rank, vec![]));
    }

    #[test]
    fn an_evenly_slow_fabric_is_a_level_and_nobody_is_slow() {
        let verdict = first_look(&[0, 0, 1, 1], Some(Subject::Host { host: 0 }), 7);
        let level = |class| verdict.levels.iter().find(|level| level.class == class).unwrap().value;
        assert!((level("between hosts") - 80.4).abs() < 0.5, "{verdict:?}");
        assert!(!verdict.slow.iter().any(|f| f.class.as_deref() == Some("between hosts")));
    }

    #[test]
    fn what_cannot_be_judged_is_said() {
        let verdict = first_look(&[0, 1], None, 1);
        assert_eq!(verdict.unjudged[0].why, Why::FewSamples);
        let strict = Rule::strict(Unit::Microseconds, Mover::Devices);
        let one = [(0, 1, &[1.0][..])];
        let one = Figures::by_hosts(Unit::Microseconds, vec![0, 0], one).unwrap();
        assert_eq!(judge(&one, &strict).unjudged[0].why, Why::NoPeers);
        let none = Figures::by_hosts(Unit::Microseconds, Vec::new(), []).unwrap();
        assert!(judge(&none, &strict).levels.is_empty());
    }
}
