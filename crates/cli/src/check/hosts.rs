//! What the hosts say of themselves, as a check takes it: findings, differences, and what others use.
//! Not the comparison, and not reading hosts (`survey`).

use busbw_analysis::check::{Differing, HostFindings, Survey};
use busbw_core::finding::Severity;
use busbw_host::{
    doctor::{self, Difference, Fingerprint},
    in_use, survey,
};

/// The surveys of all processes as one. Of several processes of a host the first one's findings count.
pub(super) fn survey(processes: &[survey::Survey]) -> Survey {
    let mut all = Survey::default();
    for process in processes {
        let host = &process.fingerprint.host;
        let Some(whole) = &process.host else { continue };
        if all.hosts.iter().any(|known| known.host == *host) {
            continue;
        }
        all.hosts.push(HostFindings { host: host.clone(), findings: whole.findings.clone() });
        all.in_use.extend(in_use::sentence(host, &process.in_use));
    }
    let fingerprints: Vec<Fingerprint> =
        processes.iter().map(|process| process.fingerprint.clone()).collect();
    all.differing = doctor::compare(&fingerprints).iter().map(differing).collect();
    all
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
    use busbw_core::finding::Finding;

    use super::*;

    fn process(host: &str, rank: usize, nccl: &str) -> survey::Survey {
        let facts = [("NCCL".to_owned(), nccl.to_owned())].into();
        let findings = vec![Finding::new("memory", Severity::Error, "64 KiB may be locked")];
        let whole = rank.is_multiple_of(2).then(|| survey::HostSurvey {
            findings,
            interfaces: Vec::new(),
            ports: Vec::new(),
            variables: [].into(),
            system: busbw_hardware::topology::System::default(),
        });
        survey::Survey {
            fingerprint: Fingerprint { host: host.to_owned(), rank, facts },
            in_use: vec!["1 process on GPU 0".to_owned()],
            host: whole,
        }
    }

    #[test]
    fn processes_of_a_host_are_one_host() {
        let processes = [process("a", 0, "2.28"), process("a", 1, "2.28"), process("b", 2, "2.27")];
        let survey = survey(&processes);
        assert_eq!(survey.hosts.len(), 2);
        assert_eq!(survey.hosts[1].findings.len(), 1);
        assert_eq!(survey.in_use, ["a: 1 process on GPU 0", "b: 1 process on GPU 0"]);
        assert_eq!(survey.differing[0].severity, Severity::Error);
        assert_eq!(survey.differing[0].groups.len(), 2);
    }
}
