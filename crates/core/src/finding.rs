//! A finding: one thing that stands out, how bad it is, its evidence, its cost, what to do, and how to confirm it.
//! Not the rules that find it, and not its text in a terminal (`busbw_render::finding`).

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// How bad a finding is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is wrong.
    Fine,
    /// There is none, and none is needed.
    Absent,
    /// Information; it may be intended.
    Note,
    /// It cannot be read here, which is not the same as "fine".
    Unknown,
    /// It probably has another effect than intended.
    Warning,
    /// Performance is lost.
    Slow,
    /// Something fails, or a figure or a setting is wrong.
    Error,
}

impl Severity {
    /// Whether a command that judges exits with 1.
    pub fn is_wrong(self) -> bool {
        self >= Severity::Warning
    }

    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Fine => "fine",
            Severity::Absent => "absent",
            Severity::Note => "note",
            Severity::Unknown => "unknown",
            Severity::Warning => "warning",
            Severity::Slow => "slow",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How certain a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The data shows it.
    Certain,
    /// The data fits, and little else would.
    Likely,
    /// The data allows it among other causes.
    Possible,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Possible => "possible",
        })
    }
}

/// A setting, or a word of a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The file; none where there is one text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1; none for a process environment.
    pub line: Option<u32>,
    /// The variable, or the option or word where there is no variable.
    pub variable: String,
    /// The value as given.
    pub value: Option<String>,
}

impl Place {
    /// A word, or a name without a value, in line `line` of the only text.
    pub fn at(line: Option<u32>, variable: impl Into<String>) -> Place {
        Place { file: None, line, variable: variable.into(), value: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().map(|file| if file == "-" { "<stdin>" } else { file });
        // As compilers write it, and editors follow it.
        match (file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.variable)?;
        if let Some(value) = &self.value {
            // An option is written with a blank, a variable with an equals sign.
            let joint = if self.variable.starts_with('-') { ' ' } else { '=' };
            write!(f, "{joint}{value}")?;
        }
        Ok(())
    }
}

/// One finding. Its JSON is the same in every command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it, in kebab case.
    pub rule: Cow<'static, str>,
    /// How bad it is.
    pub severity: Severity,
    /// The device, library or setting that it is about; empty where the cause names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// Where it is in a text, for rules that read texts. Its keys are the finding's own in JSON.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// What was found; where something is wrong, its cause.
    pub cause: String,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// How certain the cause is; none where the rule reads it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What it costs, with the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that confirms it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

impl Finding {
    /// A finding without a subject, evidence and advice.
    pub fn new(rule: &'static str, severity: Severity, cause: impl Into<String>) -> Finding {
        Finding {
            rule: Cow::Borrowed(rule),
            severity,
            subject: String::new(),
            place: None,
            cause: cause.into(),
            evidence: Vec::new(),
            confidence: None,
            cost: None,
            remedy: None,
            confirm: None,
        }
    }

    /// The line of its place.
    pub fn line(&self) -> Option<u32> {
        self.place.as_ref()?.line
    }

    /// The variable of its place.
    pub fn variable(&self) -> Option<&str> {
        Some(&self.place.as_ref()?.variable)
    }

    /// Sets what it is about.
    pub fn subject(self, subject: impl Into<String>) -> Finding {
        Finding { subject: subject.into(), ..self }
    }

    /// Sets where it is in a text, which is also what it is about.
    pub fn place(self, place: Place) -> Finding {
        Finding { subject: place.to_string(), place: Some(place), ..self }
    }

    /// Adds a piece of evidence.
    pub fn evidence(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }

    /// Sets how certain the cause is.
    pub fn confidence(self, confidence: Confidence) -> Finding {
        Finding { confidence: Some(confidence), ..self }
    }

    /// Sets what it costs.
    pub fn cost(self, cost: impl Into<String>) -> Finding {
        Finding { cost: Some(cost.into()), ..self }
    }

    /// Sets what to do.
    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }

    /// Sets the command that confirms it.
    pub fn confirm(self, confirm: impl Into<String>) -> Finding {
        Finding { confirm: Some(confirm.into()), ..self }
    }
}

/// In one line: subject, cause, remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.cause)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Finding {
        let (file, value) = (Some("job.sh".to_owned()), Some("1".to_owned()));
        Finding::new("not-read", Severity::Warning, "no NCCL release reads it")
            .place(Place { file, value, ..Place::at(Some(3), "NCCL_IMEX_ENABLE") })
            .remedy("remove it")
    }

    #[test]
    fn reads_as_one_sentence() {
        let text = "job.sh:3: NCCL_IMEX_ENABLE=1: no NCCL release reads it; remove it";
        assert_eq!(setting().to_string(), text);
        assert_eq!(Finding::new("one-rank", Severity::Note, "one rank").to_string(), "one rank");
    }

    #[test]
    fn an_option_is_written_as_typed() {
        let place = Place { value: Some("100".to_owned()), ..Place::at(None, "-i") };
        assert_eq!(place.to_string(), "-i 100");
        assert_eq!(Place::at(Some(3), "-i").to_string(), "line 3: -i");
        let stdin = Place { file: Some("-".to_owned()), ..Place::at(Some(3), "-i") };
        assert_eq!(stdin.to_string(), "<stdin>:3: -i");
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let plain = Finding::new("slot", Severity::Slow, "the slot is narrow")
            .subject("mlx5_0")
            .evidence("PCIe 3.0 x8")
            .confidence(Confidence::Likely)
            .cost("4.6 GB/s one way")
            .confirm("lspci -vv");
        for (finding, keys) in [
            (
                setting(),
                r#"{"rule":"not-read","severity":"warning","subject":"job.sh:3: NCCL_IMEX_ENABLE=1","file":"job.sh","line":3,"#,
            ),
            (
                plain,
                r#"{"rule":"slot","severity":"slow","subject":"mlx5_0","cause":"the slot is narrow","evidence":["PCIe 3.0 x8"],"#,
            ),
        ] {
            let json = serde_json::to_string(&finding).unwrap();
            assert!(json.starts_with(keys), "{json}");
            assert_eq!(serde_json::from_str::<Finding>(&json).unwrap(), finding, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_worse_than_unknown() {
        assert!(!Severity::Unknown.is_wrong() && Severity::Warning.is_wrong());
        assert_eq!(format!("{:<8}|", Severity::Slow), "slow    |");
    }
}
