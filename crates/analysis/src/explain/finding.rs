//! A finding about a run, as data.
//! Not the rules that find it (`rules`).

use serde::Serialize;

/// How severe a finding is. Findings are printed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The figures are wrong, or are not what they seem.
    Wrong,
    /// Performance is lost.
    Slow,
    /// Information.
    Note,
}

/// How certain a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The data shows it.
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

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// How severe it is.
    pub severity: Severity,
    /// The cause.
    pub cause: String,
    /// The evidence for it.
    pub evidence: Vec<String>,
    /// How certain the cause is.
    pub confidence: Confidence,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that would confirm the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

impl Finding {
    /// A finding without evidence and advice.
    pub fn new(
        rule: &'static str,
        severity: Severity,
        confidence: Confidence,
        cause: impl Into<String>,
    ) -> Finding {
        let cause = cause.into();
        Finding {
            rule,
            severity,
            cause,
            evidence: Vec::new(),
            confidence,
            remedy: None,
            confirm: None,
        }
    }

    /// Adds a piece of evidence.
    pub fn evidence(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }

    /// Sets what to do.
    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }

    /// Sets the command that would confirm the cause.
    pub fn confirm(self, confirm: impl Into<String>) -> Finding {
        Finding { confirm: Some(confirm.into()), ..self }
    }
}
