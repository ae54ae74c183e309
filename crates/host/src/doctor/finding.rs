//! A finding of doctor: a subject, its verdict, the cost, the remedy, and the command that confirms it.
//! Not the checks.

use serde::{Deserialize, Serialize};

/// The verdict on a subject, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is wrong.
    Fine,
    /// The machine has none, and needs none.
    Absent,
    /// Information; it may be intended.
    Note,
    /// It cannot be read here, which is not the same as "fine".
    Unknown,
    /// Performance is lost.
    Slow,
    /// Something fails.
    Broken,
}

impl Verdict {
    /// Whether doctor exits with 1.
    pub fn is_wrong(self) -> bool {
        self >= Verdict::Slow
    }

    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Absent => "absent",
            Verdict::Note => "note",
            Verdict::Unknown => "unknown",
            Verdict::Slow => "slow",
            Verdict::Broken => "broken",
        }
    }
}

/// The topic of a finding: one file of this folder each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// NVIDIA's driver.
    Driver,
    /// GPUs.
    Gpus,
    /// NVLink, its fabric, IMEX.
    Fabric,
    /// NCCL, MPI.
    Libraries,
    /// NCCL's plugins.
    Plugins,
    /// NICs and their ports.
    Network,
    /// PCIe links of GPUs and NICs.
    Pcie,
    /// Isolation between devices: ACS, IOMMU.
    Isolation,
    /// NICs that read and write GPU memory.
    Gpudirect,
    /// Locked and shared memory.
    Memory,
    /// Cores near GPUs.
    Cores,
    /// Ranks that differ from the others.
    Ranks,
}

impl Topic {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Driver => "driver",
            Topic::Gpus => "gpus",
            Topic::Fabric => "fabric",
            Topic::Libraries => "libraries",
            Topic::Plugins => "plugins",
            Topic::Network => "network",
            Topic::Pcie => "pcie",
            Topic::Isolation => "isolation",
            Topic::Gpudirect => "gpudirect",
            Topic::Memory => "memory",
            Topic::Cores => "cores",
            Topic::Ranks => "ranks",
        }
    }
}

/// One subject that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The topic.
    pub topic: Topic,
    /// Which device or library.
    pub subject: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What was found; where something is wrong, the cause.
    pub seen: String,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that confirms it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// The cost of a problem, its remedy, and how to confirm it.
pub struct Advice<'a> {
    /// What it costs.
    pub cost: &'a str,
    /// What to do.
    pub remedy: &'a str,
    /// The command that confirms it.
    pub confirm: &'a str,
}

/// Makes findings of one topic.
pub struct About(pub Topic);

impl About {
    fn plain(&self, verdict: Verdict, subject: &str, seen: impl Into<String>) -> Finding {
        let (topic, subject, seen) = (self.0, subject.to_owned(), seen.into());
        Finding { topic, subject, verdict, seen, cost: None, remedy: None, confirm: None }
    }

    fn advised(
        &self,
        verdict: Verdict,
        subject: &str,
        cause: impl Into<String>,
        advice: &Advice,
    ) -> Finding {
        Finding {
            cost: Some(advice.cost.to_owned()),
            remedy: Some(advice.remedy.to_owned()),
            confirm: Some(advice.confirm.to_owned()),
            ..self.plain(verdict, subject, cause)
        }
    }

    /// Nothing is wrong.
    pub fn fine(&self, subject: &str, seen: impl Into<String>) -> Finding {
        self.plain(Verdict::Fine, subject, seen)
    }

    /// The machine has none, and needs none.
    pub fn absent(&self, subject: &str, seen: impl Into<String>) -> Finding {
        self.plain(Verdict::Absent, subject, seen)
    }

    /// Information.
    pub fn note(&self, subject: &str, seen: impl Into<String>, confirm: &str) -> Finding {
        let confirm = Some(confirm.to_owned());
        Finding { confirm, ..self.plain(Verdict::Note, subject, seen) }
    }

    /// It cannot be read: why, and the command that shows it elsewhere.
    pub fn unknown(&self, subject: &str, why: impl Into<String>, confirm: &str) -> Finding {
        let confirm = Some(confirm.to_owned());
        Finding { confirm, ..self.plain(Verdict::Unknown, subject, why) }
    }

    /// Performance is lost.
    pub fn slow(&self, subject: &str, cause: impl Into<String>, advice: &Advice) -> Finding {
        self.advised(Verdict::Slow, subject, cause, advice)
    }

    /// Something fails.
    pub fn broken(&self, subject: &str, cause: impl Into<String>, advice: &Advice) -> Finding {
        self.advised(Verdict::Broken, subject, cause, advice)
    }
}

/// Joins names and shortens ranges: `GPU 0-7, mlx5_0-4, mlx5_6`.
pub fn ranged<S: AsRef<str>>(names: &[S]) -> String {
    let mut runs: Vec<(String, Option<(u64, u64)>)> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, number) = name.split_at(digits);
        // Leading zeros do not come back from a number.
        let number = number.parse::<u64>().ok().filter(|n| n.to_string() == number);
        match (runs.last_mut(), number) {
            (Some((same, Some((_, last)))), Some(n))
                if same == before && Some(n) == last.checked_add(1) =>
            {
                *last = n;
            }
            (_, Some(n)) => runs.push((before.to_owned(), Some((n, n)))),
            (_, None) => runs.push((name.to_owned(), None)),
        }
    }
    let shown = runs.into_iter().map(|(before, numbers)| match numbers {
        Some((first, last)) if first < last => format!("{before}{first}-{last}"),
        Some((only, _)) => format!("{before}{only}"),
        None => before,
    });
    shown.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranged;
    use proptest::prelude::*;

    #[test]
    fn rows_of_names() {
        assert_eq!(
            ranged(&["GPU 0", "GPU 1", "GPU 2", "mlx5_0", "mlx5_2", "mlx5_3"]),
            "GPU 0-2, mlx5_0, mlx5_2-3"
        );
        assert_eq!(ranged(&["node01", "node02", "ACS"]), "node01, node02, ACS");
        assert_eq!(ranged::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn any_names(names in prop::collection::vec("[a-c]{0,2}[0-9]{0,3}", 0..6)) {
            prop_assert!(ranged(&names).len() <= names.iter().map(|n| n.len() + 2).sum::<usize>());
        }
    }
}
