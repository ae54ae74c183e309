//! The networks between the hosts of a check, each by itself: those of `busbw transports`, and what a launch over one shows.
//! Not when they are measured and what follows (`busbw_analysis::check`).

use busbw_analysis::{
    check::{Failure, NamedTransport, TransportFigures},
    explain::Hardware,
    sweep::{Conclusion, Transport},
};
use busbw_core::record::Folded;

use super::records;
use crate::{
    sweep::{Environment, Launch, Prepared},
    transports::{self, Here, JobHost, Profile, TransportKind},
};

/// The transports between hosts, and the hosts that they are between.
pub(super) struct Networks {
    here: Here,
    profiles: Vec<Profile>,
}

impl Networks {
    /// Those of a job on `hosts`; none on one host.
    pub(super) fn of(hosts: Vec<JobHost>, prepared: &Prepared) -> Option<Networks> {
        if hosts.len() < 2 {
            return None;
        }
        let here = Here::of(hosts, prepared);
        // Why several communicators or variants cannot be told apart `busbw transports` says.
        let refused = transports::indistinct(prepared.plan());
        let mut profiles: Vec<Profile> =
            transports::profiles(&here).into_iter().filter(Profile::is_network).collect();
        if let Some(why) = refused {
            profiles.iter_mut().for_each(|profile| profile.waived = Some(why.to_owned()));
        }
        Some(Networks { here, profiles })
    }

    /// Their names.
    pub(super) fn named(&self) -> Vec<NamedTransport> {
        self.profiles.iter().map(named).collect()
    }

    /// The environment that selects one.
    pub(super) fn environment(&self, name: &str) -> Option<Environment> {
        let profile = self.profiles.iter().find(|profile| profile.name() == name)?;
        Some(profile.environment.clone())
    }

    /// What a launch over one of them shows.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn figures(
        &self,
        name: &str,
        launch: &Launch,
        hardware: &Hardware,
    ) -> Result<TransportFigures, Failure> {
        let collective = records::figures(launch, hardware)?;
        let profile = self.profiles.iter().find(|profile| profile.name() == name);
        let (Some(profile), Some(record)) = (profile, &launch.record) else {
            return Err(Failure::Tool(format!("{name} left no record")));
        };
        let limit = transports::lowest(&self.here, &profile.kind).ok();
        Ok(TransportFigures { collective, limit, unproven: unproven(profile, record) })
    }
}

fn named(profile: &Profile) -> NamedTransport {
    let family = || profile.name().split(':').next().unwrap_or_default().to_owned();
    let kind = match &profile.kind {
        TransportKind::Socket(_) => Some(family()),
        // Several ports at once are no network of their own.
        TransportKind::Rdma { ports, gpudirect: None } if ports.len() == 1 => Some(family()),
        _ => None,
    };
    NamedTransport { name: profile.name().to_owned(), kind, waived: profile.waived.clone() }
}

/// What ran instead of the transport, or why it is not proven which one did.
fn unproven(profile: &Profile, record: &Folded) -> Option<String> {
    let Transport { verdict, found, why, .. } = transports::judge(profile, &[record], 1);
    let why = || why.clone().unwrap_or_default();
    match verdict {
        Conclusion::Proven => None,
        Conclusion::Mixed => Some(format!("{found} ran, too: {}", why())),
        Conclusion::Replaced => Some(format!("{found} ran: {}", why())),
        Conclusion::Conflicting | Conclusion::Unproven => Some(why()),
    }
}
