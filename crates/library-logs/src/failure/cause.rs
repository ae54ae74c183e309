//! Which incident is the cause of the others.
//! Not how sure the sentence about it may be (`sentence`).

use std::cmp::Ordering;

use super::{
    incident::{FailureFacts, Incident},
    kind::Kind,
};

impl FailureFacts {
    /// The incident that caused the others: by causality, whatever the order of the lines; among equals the one
    /// of the rank that torchelastic saw fail first, then the earliest by time stamps, then by lines.
    pub fn cause(&self) -> Option<&Incident> {
        self.incidents.iter().filter(|one| self.may_cause(one)).min_by(|a, b| self.order(a, b))
    }

    fn may_cause(&self, one: &Incident) -> bool {
        // A program may print these and go on.
        let gone_on = self.ended_well.is_some_and(|end| end > one.line);
        let may_be_caught = matches!(
            one.kind,
            Kind::Exception
                | Kind::PeerLost
                | Kind::HostMemory
                | Kind::CudaFailure
                | Kind::CommandMissing
                | Kind::LibraryMissing
                | Kind::ConnectFailed
                | Kind::NetworkRetries
                | Kind::VerbsFailed
        );
        !(one.kind.is_harmless() || one.consequence || gone_on && may_be_caught)
    }

    fn order(&self, a: &Incident, b: &Incident) -> Ordering {
        let not_root = |one: &Incident| !self.is_root(one);
        a.kind
            .causality()
            .cmp(&b.kind.causality())
            .then_with(|| not_root(a).cmp(&not_root(b)))
            .then_with(|| by_time(a, b))
            .then_with(|| a.line.cmp(&b.line))
    }

    /// Whether a rank of the incident is one that torchelastic saw fail first.
    fn is_root(&self, one: &Incident) -> bool {
        self.exits
            .iter()
            .any(|exit| exit.root && exit.rank.is_some_and(|rank| one.ranks.contains(&rank)))
    }
}

/// By seconds: the clocks of hosts and the formats of programs agree no better.
fn by_time(a: &Incident, b: &Incident) -> Ordering {
    match (&a.time, &b.time) {
        (Some(a), Some(b)) => a.get(..14).cmp(&b.get(..14)),
        _ => Ordering::Equal,
    }
}
