//! What the hosts say of themselves, as a check takes it: findings, differences, and what others use.
//! Not the comparison, and not reading a host (`busbw_host`).

use busbw_analysis::check::{Differing, HostFindings, Survey};
use busbw_core::finding::{Finding, Severity};
use busbw_ffi::{nvml, search::Environment};
use busbw_host::{
    doctor::{self, Difference, Fingerprint, Node},
    in_use, machine,
};

/// One process's view of its host.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Its fingerprint, with its host and rank.
    pub(super) fingerprint: Fingerprint,
    /// The findings of its host's doctor.
    pub(super) findings: Vec<Finding>,
    /// What others use there.
    pub(super) in_use: Vec<String>,
}

/// Reads this host.
pub(super) fn here() -> View {
    let driver = nvml::driver().map_err(|why| why.to_string());
    let node = Node::read(machine::Root::system(), Environment::of_process(), driver);
    View {
        fingerprint: Fingerprint::take(&node, &machine::host_name(), 0, None),
        findings: doctor::check(&node),
        in_use: in_use::in_use(&node),
    }
}

/// All views as one survey. Of several processes of a host the first one's findings count.
pub(super) fn survey(views: &[View]) -> Survey {
    let mut survey = Survey::default();
    for view in views {
        let host = &view.fingerprint.host;
        if survey.hosts.iter().any(|known| known.host == *host) {
            continue;
        }
        survey.hosts.push(HostFindings { host: host.clone(), findings: view.findings.clone() });
        survey.in_use.extend(in_use::sentence(host, &view.in_use));
    }
    let fingerprints: Vec<Fingerprint> =
        views.iter().map(|view| view.fingerprint.clone()).collect();
    survey.differing = doctor::compare(&fingerprints).iter().map(differing).collect();
    survey
}

/// A difference, with the severity and the advice of the doctor's finding about it.
fn differing(difference: &Difference) -> Differing {
    let finding = difference.findings().into_iter().next();
    Differing {
        fact: difference.fact.clone(),
        severity: finding.as_ref().map_or(Severity::Note, |finding| finding.severity),
        groups: difference.groups.clone(),
        remedy: finding.as_ref().and_then(|finding| finding.remedy.clone()),
        confirm: finding.and_then(|finding| finding.confirm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(host: &str, rank: usize, nccl: &str) -> View {
        let facts = [("NCCL".to_owned(), nccl.to_owned())].into();
        View {
            fingerprint: Fingerprint { host: host.to_owned(), rank, facts },
            findings: Vec::new(),
            in_use: vec!["1 process on GPU 0".to_owned()],
        }
    }

    #[test]
    fn processes_of_a_host_are_one_host() {
        let views = [view("a", 0, "2.28"), view("a", 1, "2.28"), view("b", 2, "2.27")];
        let survey = survey(&views);
        assert_eq!(survey.hosts.len(), 2);
        assert_eq!(survey.in_use, ["a: 1 process on GPU 0", "b: 1 process on GPU 0"]);
        assert_eq!(survey.differing[0].severity, Severity::Error);
        assert_eq!(survey.differing[0].groups.len(), 2);
    }
}
