//! What stands out in a run, as data.
//! Not the rules that find it (`rules`).

use serde::Serialize;

/// How grave a finding is. The order is that in which findings are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The figures are wrong, or are not what they seem.
    Wrong,
    /// It costs performance.
    Slow,
    /// Worth knowing.
    Note,
}

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The data says it.
    Certain,
    /// The data fits, and little else would.
    Likely,
    /// The data allows it among other causes.
    Possible,
}

impl Confidence {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Possible => "possible",
        }
    }
}

/// One thing that stands out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// How grave it is.
    pub weight: Weight,
    /// What it is.
    pub cause: String,
    /// What it is concluded from.
    pub evidence: Vec<String>,
    /// How sure that is.
    pub confidence: Confidence,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that would confirm it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

impl Finding {
    /// A finding without advice.
    pub fn new(
        rule: &'static str,
        weight: Weight,
        confidence: Confidence,
        cause: impl Into<String>,
    ) -> Finding {
        let cause = cause.into();
        Finding {
            rule,
            weight,
            cause,
            evidence: Vec::new(),
            confidence,
            remedy: None,
            confirm: None,
        }
    }

    /// What it is concluded from.
    pub fn evidence(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }

    /// What to do.
    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }

    /// The command that would confirm it.
    pub fn confirm(self, confirm: impl Into<String>) -> Finding {
        Finding { confirm: Some(confirm.into()), ..self }
    }
}
