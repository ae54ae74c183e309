//! A verdict in words, with the names of ranks and hosts.
//! Not the verdict, which holds numbers of ranks alone, so that a report can hide the names.

use std::fmt;

use super::subject::Subject;
use crate::{
    finding::{Confidence, Finding, Severity},
    pairs::assessment::{Level, PairsAssessment, SlowSubject, Why},
};

/// A slow subject in words.
struct Sentence<'a> {
    slow: &'a SlowSubject,
    names: Names<'a>,
}

#[derive(Debug, Clone, Copy)]
struct Names<'a> {
    labels: &'a [String],
    hosts: &'a [usize],
}

impl PairsAssessment {
    /// The slow subjects as findings. `labels` are the names of the ranks, such as `node-3 gpu 5`; a
    /// host's name is the common beginning of its ranks' labels.
    pub fn findings(&self, labels: &[String]) -> Vec<Finding> {
        let names = Names { labels, hosts: &self.hosts };
        let finding = |slow: &SlowSubject| {
            let cause = Sentence { slow, names }.to_string();
            let chance = 100.0 * (1.0 - slow.confidence);
            Finding::new("slow-pairs", Severity::Slow, cause)
                .confidence(Confidence::Likely)
                .evidence(format!("found by chance in {chance:.2} of 100 healthy machines"))
                .remedy("check its links (busbw topo), its processes and its clocks; swap the hardware and see what stays slow")
                .confirm("run busbw pairs again: a fault stays with the same hardware in every launch")
        };
        self.slow.iter().map(finding).collect()
    }

    /// The assessment in words: the slow subjects or that there are none, the normal level, and what
    /// is undecided.
    pub fn sentences(&self, labels: &[String]) -> Vec<String> {
        let names = Names { labels, hosts: &self.hosts };
        let mut said: Vec<String> =
            self.findings(labels).into_iter().map(|finding| finding.cause).collect();
        if said.is_empty() && self.unjudged.len() < self.levels.len() {
            said.push("nobody is slower than the others".to_owned());
        }
        let cleared: Vec<_> = self.cleared.iter().map(|subject| names.of(*subject)).collect();
        if !cleared.is_empty() {
            said.push(format!(
                "suspected, but not slow when measured again: {}",
                cleared.join(", ")
            ));
        }
        said.extend(self.unjudged.iter().map(|open| {
            let why = match open.why {
                Why::NoPeers => "a single pair has no peer",
                Why::Disturbed => {
                    "most were slow in different ways, as on a machine that others use; measure again"
                }
                Why::FewSamples => "one sample each of few pairs does not tell noise from a fault",
            };
            format!("nothing can be said of pairs {}: {why}", open.class)
        }));
        let levels: Vec<_> = self.levels.iter().map(|level| self.level(level)).collect();
        if !levels.is_empty() {
            said.push(format!("normal here: {}", levels.join(", ")));
        }
        said
    }

    fn level(&self, level: &Level) -> String {
        format!("{} {} {}", figure(level.value), self.unit.name(), level.class)
    }
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlowSubject { subject, slow_cells, cells, .. } = *self.slow;
        let names = self.names;
        let class =
            self.slow.class.as_ref().map_or(String::new(), |class| format!(", {class} only"));
        let evidence = |of: &str| format!("({slow_cells} of {cells} {of}{class})");
        let slower = self.slow.amount();
        match subject {
            Subject::Cell { from, to } => {
                let (from, to) = (names.rank(from), names.rank(to));
                write!(f, "{from} to {to} is {slower} slower than other pairs are")?;
            }
            Subject::Link { between: [a, b] } => {
                let (a, b) = (names.rank(a), names.rank(b));
                write!(f, "{a} and {b} are {slower} slower, both ways, than other pairs are")?;
            }
            Subject::Path { from, to } => {
                let (from, to) = (names.host(from), names.host(to));
                let evidence = evidence("directed pairs");
                write!(f, "{from} to {to} is {slower} slower than other hosts are {evidence}")?;
            }
            Subject::Paths { between: [a, b] } => {
                let (a, b) = (names.host(a), names.host(b));
                let evidence = evidence("directed pairs");
                write!(
                    f,
                    "{a} and {b} are {slower} slower, both ways, than other hosts are {evidence}"
                )?;
            }
            Subject::Sender { rank } => {
                let (rank, evidence) = (names.rank(rank), evidence("receivers"));
                let evidence = evidence.replacen('(', "(to ", 1);
                write!(f, "{rank} sends {slower} slower than its peers do {evidence}")?;
            }
            Subject::Receiver { rank } => {
                let (rank, evidence) = (names.rank(rank), evidence("senders"));
                let evidence = evidence.replacen('(', "(from ", 1);
                write!(f, "{rank} receives {slower} slower than its peers do {evidence}")?;
            }
            Subject::Rank { rank } => {
                let (rank, evidence) = (names.rank(rank), evidence("directed pairs"));
                write!(
                    f,
                    "{rank} sends and receives {slower} slower than its peers do {evidence}"
                )?;
            }
            Subject::HostSends { host } => {
                let (host, evidence) = (names.host(host), evidence("directed pairs"));
                write!(f, "{host} sends to other hosts {slower} slower than they do {evidence}")?;
            }
            Subject::HostReceives { host } => {
                let (host, evidence) = (names.host(host), evidence("directed pairs"));
                write!(
                    f,
                    "{host} receives from other hosts {slower} slower than they do {evidence}"
                )?;
            }
            Subject::Host { host } => {
                let (host, evidence) = (names.host(host), evidence("directed pairs"));
                write!(
                    f,
                    "all ranks of {host} are {slower} slower than those of others {evidence}"
                )?;
            }
        }
        let others: Vec<_> = self.slow.alternatives.iter().map(|s| names.of(*s)).collect();
        if !others.is_empty() {
            write!(f, "; these figures do not tell it from: {}", others.join(", "))?;
        }
        Ok(())
    }
}

impl SlowSubject {
    fn amount(&self) -> String {
        match self.longer_us {
            Some(us) => format!("{} us ({:.0} %)", figure(us), self.slower_percent),
            None => format!("{:.0} %", self.slower_percent),
        }
    }
}

impl Names<'_> {
    fn rank(&self, rank: usize) -> String {
        self.labels.get(rank).map_or_else(|| format!("rank {rank}"), Clone::clone)
    }

    fn host(&self, host: usize) -> String {
        let ranks = self.hosts.iter().enumerate().filter(|(_, of)| **of == host);
        let labels: Vec<&String> = ranks.filter_map(|(rank, _)| self.labels.get(rank)).collect();
        let words = |label: &'_ &String| label.split_whitespace().map(str::to_owned).collect();
        let mut words: Vec<String> = labels.first().map(words).unwrap_or_default();
        for label in labels.iter().skip(1) {
            let same = words.iter().zip(label.split_whitespace()).take_while(|(a, b)| a == b);
            words.truncate(same.count());
        }
        if labels.len() > 1 && words.len() > 1 {
            // The last word that they share tells what the ranks are: "node-3 gpu" 0 to 7.
            words.pop();
        }
        if words.is_empty() { format!("host {host}") } else { words.join(" ") }
    }

    fn of(&self, subject: Subject) -> String {
        match subject {
            Subject::Cell { from, to } => format!("{} to {}", self.rank(from), self.rank(to)),
            Subject::Link { between: [a, b] } => format!("{} and {}", self.rank(a), self.rank(b)),
            Subject::Path { from, to } => format!("{} to {}", self.host(from), self.host(to)),
            Subject::Paths { between: [a, b] } => format!("{} and {}", self.host(a), self.host(b)),
            Subject::Sender { rank } => format!("{} as sender", self.rank(rank)),
            Subject::Receiver { rank } => format!("{} as receiver", self.rank(rank)),
            Subject::Rank { rank } => self.rank(rank),
            Subject::HostSends { host } => format!("{} as sender", self.host(host)),
            Subject::HostReceives { host } => format!("{} as receiver", self.host(host)),
            Subject::Host { host } => self.host(host),
        }
    }
}

/// Three digits, or whole.
fn figure(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        // Of a network that is slow.
        0.000_01..0.01 => format!("{value:.5}"),
        0.01..0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::{Unit, assessment::Basis};

    fn said(subject: Subject, longer_us: Option<f64>, alternatives: Vec<Subject>) -> Vec<String> {
        let slow = SlowSubject {
            subject,
            alternatives,
            class: None,
            slower_percent: 20.9,
            longer_us,
            slow_cells: 14,
            cells: 15,
            confidence: 0.999,
        };
        let verdict = PairsAssessment {
            basis: Basis::Retest,
            unit: Unit::GigabytesPerSecond,
            hosts: vec![0, 0, 1, 1],
            levels: vec![Level {
                class: "between hosts".to_owned(),
                value: 48.53,
                spread_percent: Some(1.0),
                cells: 8,
                samples: 9,
            }],
            slow: vec![slow],
            unjudged: Vec::new(),
            cleared: vec![Subject::Link { between: [0, 9] }],
        };
        let json = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<PairsAssessment>(&json).unwrap(), verdict, "{json}");
        let label = |rank: usize| format!("node-{} gpu {}", rank / 2, rank % 2);
        verdict.sentences(&(0..4).map(label).collect::<Vec<_>>())
    }

    #[test]
    fn slow_subjects_read_like_sentences() {
        let first = |subject, us| said(subject, us, Vec::new()).swap_remove(0);
        assert_eq!(
            first(Subject::Sender { rank: 3 }, None),
            "node-1 gpu 1 sends 21 % slower than its peers do (to 14 of 15 receivers)"
        );
        assert_eq!(
            first(Subject::Rank { rank: 0 }, Some(5.06)),
            "node-0 gpu 0 sends and receives 5.06 us (21 %) slower than its peers do (14 of 15 directed pairs)"
        );
        assert_eq!(
            first(Subject::HostSends { host: 1 }, None),
            "node-1 sends to other hosts 21 % slower than they do (14 of 15 directed pairs)"
        );
        assert_eq!(
            first(Subject::Cell { from: 1, to: 7 }, None),
            "node-0 gpu 1 to rank 7 is 21 % slower than other pairs are"
        );
    }

    #[test]
    fn what_is_left_open_is_said() {
        let all = said(
            Subject::Path { from: 0, to: 1 },
            None,
            vec![Subject::HostSends { host: 0 }, Subject::HostReceives { host: 1 }],
        );
        assert_eq!(
            all,
            [
                "node-0 to node-1 is 21 % slower than other hosts are (14 of 15 directed pairs); these figures do not \
                 tell it from: node-0 as sender, node-1 as receiver",
                "suspected, but not slow when measured again: node-0 gpu 0 and rank 9",
                "normal here: 48.5 GB/s between hosts",
            ]
        );
    }
}
