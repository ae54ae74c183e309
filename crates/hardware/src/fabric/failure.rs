//! Parts of a fabric that are lost or slow: links, switches, planes, and the texts that name them.
//! Not what follows for routes (`links`) and times (`forecast`).

use std::fmt;
use std::str::FromStr;

use busbw_stats::random::Random;

use super::layout::Layout;
use super::{Fabric, Shape};

/// A part that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Cables that go up from `host` or from a tier of this name; unsaid, from the leaves, or the hosts where these have none.
    Link(Option<String>),
    /// Switches of a tier; unsaid, of the last one.
    Switch(Option<String>),
    /// Whole planes.
    Plane,
}

/// Parts that are lost or slow.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Which kind of part.
    pub part: Part,
    /// How many of them.
    pub count: usize,
    /// Share of its rate that each keeps: 0 where it is lost.
    pub keeps: f64,
    /// Spread over the fabric by this seed; `None`: the first ones, next to each other.
    pub seed: Option<u64>,
}

/// Why a failure is none of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failure `{text}`: {why}")]
pub struct BadFailure {
    /// The failure as it was written.
    pub text: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

/// Forms that a failure may have.
pub const FORMS: &str = "`link`, `link:TIER`, `switch`, `switch:TIER` or `plane`, then `*COUNT`, `@SHARE` that is left, `~SEED`";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Link(None) => write!(f, "link")?,
            Part::Link(Some(tier)) => write!(f, "link:{tier}")?,
            Part::Switch(None) => write!(f, "switch")?,
            Part::Switch(Some(tier)) => write!(f, "switch:{tier}")?,
            Part::Plane => write!(f, "plane")?,
        }
        if self.count != 1 {
            write!(f, "*{}", self.count)?;
        }
        if self.keeps != 0.0 {
            write!(f, "@{}", self.keeps)?;
        }
        match self.seed {
            Some(seed) => write!(f, "~{seed}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Failure {
    type Err = BadFailure;

    /// Reads `link:leaf*2@0.5~7`: two links that go up from leaves keep half of their rate, spread by seed 7.
    fn from_str(text: &str) -> Result<Failure, BadFailure> {
        let bad = |why: String| BadFailure { text: text.to_owned(), why };
        let (rest, seed) = split(text.trim(), '~');
        let (rest, keeps) = split(rest, '@');
        let (rest, count) = split(rest, '*');
        let (kind, tier) = split(rest, ':');
        let tier = tier.map(str::to_owned);
        let part = match (kind, tier) {
            ("link", tier) => Part::Link(tier),
            ("switch", tier) => Part::Switch(tier),
            ("plane", None) => Part::Plane,
            _ => return Err(bad(format!("say {FORMS}"))),
        };
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| bad(format!("`{text}` is no number")));
        let count = count.map_or(Ok(1), number)?;
        if !(1..=1_000_000).contains(&count) {
            return Err(bad(format!("{count} parts: 1 to 1000000")));
        }
        let keeps = match keeps {
            None => 0.0,
            Some(share) => match share.parse::<f64>() {
                Ok(share) if (0.0..1.0).contains(&share) => share,
                _ => return Err(bad(format!("`{share}` is no share from 0 to below 1"))),
            },
        };
        let seed = seed.map(number).transpose()?;
        Ok(Failure { part, count: count as usize, keeps, seed })
    }
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// All parts of a kind, of which some fail.
#[derive(Debug, Clone)]
pub struct Parts {
    layout: Layout,
    all: All,
    keeps: f64,
}

#[derive(Debug, Clone)]
enum All {
    Links(std::ops::Range<usize>),
    Switches { tier: usize },
    Planes,
}

impl Parts {
    /// How many there are.
    pub fn count(&self) -> usize {
        match &self.all {
            All::Links(links) => links.len(),
            All::Switches { tier } => self.layout.switches(*tier),
            All::Planes => self.layout.planes,
        }
    }

    /// The links that one of them takes, each with the share of its rate that it keeps.
    pub fn links_of(&self, part: usize) -> Vec<(usize, f64)> {
        let links = match &self.all {
            All::Links(links) => return vec![(links.start + part, self.keeps)],
            All::Switches { tier } => self.layout.links_of(*tier, part),
            All::Planes => self.layout.host_links_of_plane(part),
        };
        links.into_iter().map(|link| (link, self.keeps)).collect()
    }
}

impl Failure {
    /// The links that it takes, each with the share of its rate that it keeps.
    ///
    /// # Errors
    /// A tier that there is not, or more parts than there are.
    pub fn links(&self, fabric: &Fabric, shape: &Shape) -> Result<Vec<(usize, f64)>, BadFailure> {
        let parts = self.parts(fabric, shape)?;
        let chosen = self.choose(parts.count()).map_err(|why| self.bad(why))?;
        Ok(chosen.into_iter().flat_map(|part| parts.links_of(part)).collect())
    }

    /// All parts of its kind.
    ///
    /// # Errors
    /// A tier that there is not.
    pub fn parts(&self, fabric: &Fabric, shape: &Shape) -> Result<Parts, BadFailure> {
        let bad = |why: String| self.bad(why);
        let layout = Layout::of(shape);
        let tier_of = |name: &str| fabric.tiers.iter().position(|tier| tier.name == name);
        let known = || fabric.tiers.iter().map(|tier| tier.name.as_str()).collect::<Vec<_>>();
        let mut keeps = self.keeps;
        let all = match &self.part {
            Part::Link(name) => {
                let below = match name.as_deref() {
                    Some("host") => 0,
                    None => usize::from(fabric.tiers.len() > 1),
                    Some(name) => match tier_of(name) {
                        Some(tier) if tier + 1 < fabric.tiers.len() => tier + 1,
                        Some(_) => return Err(bad(format!("no link goes up from tier `{name}`"))),
                        None => {
                            let known = known().join(", ");
                            return Err(bad(format!("there is no tier `{name}`: host, {known}")));
                        }
                    },
                };
                // A link of several NICs side by side loses one of them.
                if below == 0 {
                    keeps = 1.0 - (1.0 - self.keeps) / shape.lanes.nics as f64;
                }
                All::Links(layout.links_above(below))
            }
            Part::Switch(name) => {
                let tier = match name.as_deref() {
                    None => fabric.tiers.len() - 1,
                    Some(name) => tier_of(name).ok_or_else(|| {
                        bad(format!("there is no tier `{name}`: {}", known().join(", ")))
                    })?,
                };
                All::Switches { tier }
            }
            Part::Plane => All::Planes,
        };
        Ok(Parts { layout, all, keeps })
    }

    fn bad(&self, why: String) -> BadFailure {
        BadFailure { text: self.to_string(), why }
    }

    /// Which of `all` parts.
    fn choose(&self, all: usize) -> Result<Vec<usize>, String> {
        if self.count > all {
            return Err(format!("{} of {all} such parts cannot fail", self.count));
        }
        Ok(match self.seed {
            None => (0..self.count).collect(),
            Some(seed) => drawn(&mut Random::new(seed), self.count, all),
        })
    }
}

/// Draws `count` of `all` without replacement (Floyd's sampling: Bentley, Floyd, CACM 30(9), 1987).
pub(crate) fn drawn(random: &mut Random, count: usize, all: usize) -> Vec<usize> {
    let mut chosen = std::collections::BTreeSet::new();
    for end in all - count..all {
        let at = random.below(end + 1);
        if !chosen.insert(at) {
            chosen.insert(end);
        }
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::ready::ready;
    use super::*;

    #[test]
    fn texts_both_ways_and_refused() {
        for text in ["link", "link:leaf*2@0.5~7", "switch:spine", "plane*3", "link:host~1"] {
            let failure: Failure = text.parse().expect("a failure");
            assert_eq!(failure.to_string(), text);
        }
        for (text, why) in [
            ("cable", "say `link`"),
            ("plane:leaf", "say `link`"),
            ("link*x", "no number"),
            ("link*0", "1 to"),
            ("link@1", "no share"),
            ("link@NaN", "no share"),
        ] {
            let refused = text.parse::<Failure>().expect_err("refused").to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn parts_that_a_fabric_has() {
        let fabric = ready("clos-2tier").expect("an example");
        let shape = Shape::of(&fabric).expect("built");
        let count = |text: &str| {
            let failure: Failure = text.parse().expect("a failure");
            failure.links(&fabric, &shape).map(|links| links.len()).map_err(|bad| bad.why)
        };
        assert_eq!(count("link"), Ok(1));
        assert_eq!(count("switch"), Ok(64), "a spine has a link to each of 64 leaves");
        assert_eq!(count("switch:leaf"), Ok(64), "32 NICs and 32 uplinks");
        assert_eq!(count("plane"), Ok(2048));
        assert_eq!(count("link:host*5~3"), Ok(5));
        for text in ["link:spine", "link:core", "switch:core", "plane*2", "switch*33"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
