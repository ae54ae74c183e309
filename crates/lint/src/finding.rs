//! What the rules report: a cause and a remedy, as data.
//! It does not decide anything; the rules do.

use std::fmt;

use serde::Serialize;

/// How severe a finding is, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The setting cannot have the intended effect.
    Error,
    /// The setting probably has another effect than intended.
    Warning,
    /// Information; the setting may be intended.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// Which rule found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// No library knows the name.
    UnknownVariable,
    /// A name that people publish but that NCCL does not read.
    NotRead,
    /// A release dropped the variable.
    RemovedVariable,
    /// The release in use is older than the variable.
    NewerVariable,
    /// The value is outside what the library accepts.
    ValueRange,
    /// Blanks or quotes became part of the value.
    StrayCharacters,
    /// Two variables contradict each other.
    Conflict,
    /// A list entry is a prefix and also takes longer names.
    PrefixMatch,
    /// NCCL and UCX were given different devices.
    DeviceSets,
    /// A typographic quote or dash where ASCII belongs.
    Typography,
    /// A shell variable is used but never set.
    UnsetVariable,
    /// An option of nccl-tests does not mean what it seems to.
    TestOption,
    /// Two runs of one test measured different things.
    UnequalRuns,
    /// A launcher exports a variable that nobody sets.
    ExportUnset,
    /// A socket interface is named while InfiniBand would be taken.
    SocketChoice,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line, from 1; none for a process environment.
    pub line: Option<u32>,
    /// The variable, or the option or word where there is no variable.
    pub variable: String,
    /// The value as given.
    pub value: Option<String>,
    /// How severe it is.
    pub severity: Severity,
    /// Which rule found it.
    pub rule: Rule,
    /// What is wrong.
    pub cause: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.variable)?;
        if let Some(value) = &self.value {
            // An option is written with a blank, a variable with an equals sign.
            let joint = if self.variable.starts_with('-') { ' ' } else { '=' };
            write!(f, "{joint}{value}")?;
        }
        write!(f, ": {}; {}", self.cause, self.remedy)
    }
}

/// Sorts by line, then the worst first. Settings that hold for many launches are judged at each,
/// so the same finding may come more than once; one is kept.
pub(super) fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.line, f.severity, f.rule);
        // Down to the last field, so that equal findings stand side by side.
        let by_text = || a.variable.cmp(&b.variable).then_with(|| a.cause.cmp(&b.cause));
        let by_rest = || a.value.cmp(&b.value).then_with(|| a.remedy.cmp(&b.remedy));
        key(a).cmp(&key(b)).then_with(by_text).then_with(by_rest)
    });
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Finding {
        Finding {
            line: Some(3),
            variable: "NCCL_IMEX_ENABLE".into(),
            value: Some("1".into()),
            severity: Severity::Warning,
            rule: Rule::NotRead,
            cause: "no NCCL release reads it".into(),
            remedy: "remove it".into(),
        }
    }

    #[test]
    fn reads_as_one_sentence() {
        let text = "line 3: NCCL_IMEX_ENABLE=1: no NCCL release reads it; remove it";
        assert_eq!(sample().to_string(), text);
    }

    #[test]
    fn an_option_is_written_as_typed() {
        let option = Finding { variable: "-i".into(), value: Some("100".into()), ..sample() };
        assert!(option.to_string().starts_with("line 3: -i 100: "));
    }

    #[test]
    fn lines_rise_the_worst_comes_first_and_each_comes_once() {
        let error = Finding { severity: Severity::Error, ..sample() };
        let early = Finding { line: Some(1), ..sample() };
        let all = vec![sample(), error.clone(), sample(), early.clone(), error.clone()];
        assert_eq!(in_order(all), [early, error, sample()]);
    }

    #[test]
    fn equal_findings_come_once_even_with_another_value_between() {
        let other = Finding { value: Some("2".into()), ..sample() };
        assert_eq!(in_order(vec![sample(), other.clone(), sample()]), [sample(), other]);
    }

    #[test]
    fn serialises_in_kebab_case() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert!(json.contains(r#""rule":"not-read""#), "{json}");
        assert!(json.contains(r#""severity":"warning""#), "{json}");
    }
}
