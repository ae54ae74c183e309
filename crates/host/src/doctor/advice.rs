//! How checks make findings: of one topic, with what each severity needs.
//! Not the checks.

use busbw_core::finding::{Finding, Severity};

/// The cost of a problem, its remedy, and how to confirm it.
pub struct Advice<'a> {
    /// What it costs.
    pub cost: &'a str,
    /// What to do.
    pub remedy: &'a str,
    /// The command that confirms it.
    pub confirm: &'a str,
}

/// Makes findings of one topic, which is their rule.
pub struct About(pub &'static str);

impl About {
    fn plain(&self, severity: Severity, subject: &str, seen: impl Into<String>) -> Finding {
        Finding::new(self.0, severity, seen).subject(subject)
    }

    fn advised(
        &self,
        severity: Severity,
        subject: &str,
        cause: impl Into<String>,
        advice: &Advice,
    ) -> Finding {
        let Advice { cost, remedy, confirm } = *advice;
        self.plain(severity, subject, cause).cost(cost).remedy(remedy).confirm(confirm)
    }

    /// Nothing is wrong.
    pub fn fine(&self, subject: &str, seen: impl Into<String>) -> Finding {
        self.plain(Severity::Fine, subject, seen)
    }

    /// The machine has none, and needs none.
    pub fn absent(&self, subject: &str, seen: impl Into<String>) -> Finding {
        self.plain(Severity::Absent, subject, seen)
    }

    /// Information.
    pub fn note(&self, subject: &str, seen: impl Into<String>, confirm: &str) -> Finding {
        self.plain(Severity::Note, subject, seen).confirm(confirm)
    }

    /// It cannot be read: why, and the command that shows it elsewhere.
    pub fn unknown(&self, subject: &str, why: impl Into<String>, confirm: &str) -> Finding {
        self.plain(Severity::Unknown, subject, why).confirm(confirm)
    }

    /// Performance is lost.
    pub fn slow(&self, subject: &str, cause: impl Into<String>, advice: &Advice) -> Finding {
        self.advised(Severity::Slow, subject, cause, advice)
    }

    /// Something fails.
    pub fn error(&self, subject: &str, cause: impl Into<String>, advice: &Advice) -> Finding {
        self.advised(Severity::Error, subject, cause, advice)
    }
}
