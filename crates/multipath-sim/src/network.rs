//! Links between hosts, and which of them a packet takes: routes of stages, each of one link or of several among which
//! ports decide (ECMP).
//! Not how a link is (`link`).

use busbw_multipath::Time;

use crate::{
    Random,
    link::{Change, Counters, Fate, Link},
};

/// A link of a network, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// A part of a route: one link, or several of which each flow takes one.
#[derive(Debug, Clone)]
pub struct Stage(pub Vec<LinkId>);

/// The way from one host to another.
#[derive(Debug, Clone, Default)]
pub struct Route(pub Vec<Stage>);

/// What decides which link of several a flow takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// A hash of its addresses and ports.
    Hash(u64),
    /// The link of this number; another one, after the hash of the number, while that is down.
    Link(usize),
}

/// All links.
#[derive(Debug)]
pub struct Network {
    links: Vec<Link>,
    random: Random,
}

impl Route {
    /// Over one link.
    #[must_use]
    pub fn over(link: LinkId) -> Route {
        Route(vec![Stage(vec![link])])
    }

    /// Over one of these.
    #[must_use]
    pub fn over_any(links: &[LinkId]) -> Route {
        Route(vec![Stage(links.to_vec())])
    }

    /// And then over this one.
    #[must_use]
    pub fn then(mut self, link: LinkId) -> Route {
        self.0.push(Stage(vec![link]));
        self
    }
}

impl Network {
    /// Without links. Packets are lost after this seed.
    #[must_use]
    pub fn new(random: Random) -> Network {
        Network { links: Vec::new(), random }
    }

    /// Adds a link.
    pub fn add(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() - 1)
    }

    /// Does that to a link.
    pub fn change(&mut self, link: LinkId, change: Change) {
        self.links[link.0].change(change);
    }

    /// What a link has carried.
    #[must_use]
    pub fn counters(&self, link: LinkId) -> Counters {
        self.links[link.0].counters()
    }

    /// The link that a flow takes at a stage; nothing if all are down.
    #[must_use]
    pub fn link(&self, stage: &Stage, number: usize, label: Label) -> Option<LinkId> {
        let is_up = |link: &&LinkId| self.links[link.0].is_up();
        let hash = match label {
            Label::Hash(hash) => hash,
            Label::Link(link) => {
                let chosen = stage.0.get(link % stage.0.len().max(1)).filter(is_up);
                if chosen.is_some() {
                    return chosen.copied();
                }
                link as u64
            }
        };
        let up = stage.0.iter().filter(is_up);
        let count = up.clone().count() as u64;
        // Switches on a way do not all decide alike.
        let mut mixed = Random::new(hash ^ (number as u64) << 56);
        (count > 0).then(|| mixed.below(count)).and_then(|at| up.clone().nth(at as usize).copied())
    }

    /// Whether a link cuts what travels together into its packets.
    pub(crate) fn cuts(&self, link: LinkId, bytes: u32) -> bool {
        self.links[link.0].cuts(bytes)
    }

    /// What becomes of a packet on a link, as [`Link::take`] has it.
    pub(crate) fn take(&mut self, link: LinkId, bytes: u32, longest: u32, now: Time) -> Fate {
        self.links[link.0].take(bytes, longest, now, &mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flow_keeps_its_link_until_that_is_down() {
        let mut network = Network::new(Random::new(1));
        let links: Vec<LinkId> =
            (0..4).map(|_| network.add(Link::new(0, Duration::ZERO, 0))).collect();
        let stage = Stage(links.clone());
        let all = |network: &Network| {
            (0..1000)
                .map(|hash| network.link(&stage, 0, Label::Hash(hash)).unwrap().0)
                .collect::<Vec<_>>()
        };
        let before = all(&network);
        for link in 0..4 {
            assert!((200..300).contains(&before.iter().filter(|one| **one == link).count()));
        }
        assert_eq!(network.link(&stage, 0, Label::Link(2)), Some(links[2]));
        network.change(links[2], Change::Up(false));
        assert!(!all(&network).contains(&2));
        assert_ne!(network.link(&stage, 0, Label::Link(2)), Some(links[2]));
        network.change(links[2], Change::Up(true));
        assert_eq!(all(&network), before);
        links.iter().for_each(|link| network.change(*link, Change::Up(false)));
        assert_eq!(network.link(&stage, 0, Label::Hash(7)), None);
    }
}
