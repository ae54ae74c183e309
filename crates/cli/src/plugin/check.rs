//! `busbw plugin check`: tests a net plugin against what NCCL expects of it (docs/net.md). Each
//! rule runs in a process of its own, so that a plugin that hangs or crashes fails that rule and no
//! other.
//! Not the rules (`rules`).

mod child;
mod rules;
mod subject;

pub use child::{partner, rule};

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::exit::Exit;
use serde::Serialize;

use self::{
    child::{Asked, Described},
    rules::RULES,
};
use crate::options::CheckArguments;
use busbw_core::exit::ExitError;
use busbw_core::printable::Printable;
use busbw_render::answer;
use busbw_runner::backend::net::Wanted;

/// The outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "why")]
pub enum RuleOutcome {
    /// The plugin keeps the rule.
    Pass,
    /// The plugin breaks the rule, and how.
    Fail(String),
    /// The rule does not apply to this plugin, and why.
    Waived(String),
}

impl RuleOutcome {
    fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            RuleOutcome::Pass => ("pass", None),
            RuleOutcome::Fail(why) => ("fail", Some(why)),
            RuleOutcome::Waived(why) => ("waived", Some(why)),
        }
    }
}

/// A rule and its outcome.
#[derive(Debug, Serialize)]
struct RuleResult {
    rule: &'static str,
    what: &'static str,
    #[serde(flatten)]
    verdict: RuleOutcome,
}

/// All outcomes, as `--json` prints them.
#[derive(Debug, Serialize)]
struct CheckReport {
    plugin: String,
    path: String,
    versions: Vec<u32>,
    checked: u32,
    passed: usize,
    failed: usize,
    waived: usize,
    rules: Vec<RuleResult>,
}

/// Checks a plugin.
///
/// # Errors
/// The plugin cannot be loaded, or a named rule does not exist.
pub fn run(arguments: &CheckArguments) -> Result<Exit> {
    for name in &arguments.rule {
        if !RULES.iter().any(|rule| rule.name == name) {
            let all: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
            let text =
                format!("--rule {name}: there is no such rule; the rules are {}", all.join(", "));
            return Err(ExitError::new(Exit::Usage, text).into());
        }
    }
    let wanted = Wanted { word: arguments.plugin.clone() };
    let asked = Asked { word: wanted.file()?, version: arguments.table };
    let described: Described = child::describe(&asked)
        .map_err(|why| ExitError::new(Exit::Library, format!("{}: {why}", arguments.plugin)))?;
    let chosen =
        |name: &str| arguments.rule.is_empty() || arguments.rule.iter().any(|rule| rule == name);
    let mut findings = CheckReport {
        plugin: described.name.clone(),
        path: asked.word.clone(),
        versions: described.versions.clone(),
        checked: described.version,
        passed: 0,
        failed: 0,
        waived: 0,
        rules: Vec::new(),
    };
    if !arguments.json {
        say(&head(&findings));
    }
    for rule in RULES.iter().filter(|rule| chosen(rule.name)) {
        let verdict = child::judge(rule.name, &asked);
        match verdict {
            RuleOutcome::Pass => findings.passed += 1,
            RuleOutcome::Fail(_) => findings.failed += 1,
            RuleOutcome::Waived(_) => findings.waived += 1,
        }
        let finding = RuleResult { rule: rule.name, what: rule.what, verdict };
        if !arguments.json {
            say(&line(&finding));
        }
        findings.rules.push(finding);
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&findings)?;
        answer::answer(|out, _| writeln!(out, "{text}"))?;
    } else {
        let CheckReport { passed, failed, waived, .. } = findings;
        say(&format!("# {passed} passed, {failed} failed, {waived} waived\n"));
    }
    Ok(if findings.failed == 0 { Exit::Ok } else { Exit::Internal })
}

fn head(findings: &CheckReport) -> String {
    let versions: Vec<String> = findings.versions.iter().map(|v| format!("v{v}")).collect();
    format!(
        "# net plugin {} ({}), tables {}; checked by v{}\n",
        findings.plugin,
        findings.path,
        versions.join(" "),
        findings.checked
    )
}

fn line(finding: &RuleResult) -> String {
    let (word, why) = finding.verdict.words();
    let why = why.map_or_else(String::new, |why| format!("\n        {why}"));
    format!("{word:<7} {:<22} {}{why}\n", finding.rule, finding.what)
}

/// Lines are printed as they are known: a rule may take seconds.
fn say(text: &str) {
    let mut out = Printable::new(io::stdout().lock(), false);
    // If the reader has gone, the exit code still counts.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
