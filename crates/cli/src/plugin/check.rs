//! `busbw plugin check`: tests a net plugin against what NCCL expects of it (docs/net.md). Each
//! rule runs in a process of its own, so that a plugin that hangs or crashes fails that rule and no
//! other.
//! Not the rules (`rules`).

mod child;
mod rules;
mod subject;

pub use child::{partner, rule};

use std::io::{self, StdoutLock, Write};

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    finding::{Finding, Severity},
};
use serde::{Deserialize, Serialize};

use self::{
    child::{Asked, Described},
    rules::{RULES, Rule},
};
use crate::options::CheckArguments;
use busbw_core::exit::ExitError;
use busbw_core::printable::Printable;
use busbw_nccl_releases::PluginKind;
use busbw_render::{answer, findings};
use busbw_runner::backend::net::Wanted;

/// The outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOutcome {
    /// The plugin keeps the rule.
    Pass,
    /// The plugin breaks the rule, and how.
    Fail(String),
    /// The rule does not apply to this plugin, and why.
    Waived(String),
}

/// All outcomes, as `--json` prints them.
#[derive(Debug, Serialize)]
struct CheckReport {
    plugin: String,
    path: String,
    versions: Vec<u32>,
    checked: u32,
    /// Symbols of other kinds of plugins in the library, which no rule checks.
    not_checked: Vec<String>,
    passed: usize,
    failed: usize,
    waived: usize,
    findings: Vec<Finding>,
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
    let mut report = CheckReport {
        plugin: described.name.clone(),
        path: asked.word.clone(),
        versions: described.versions.clone(),
        checked: described.version,
        not_checked: described.others.clone(),
        passed: 0,
        failed: 0,
        waived: 0,
        findings: Vec::new(),
    };
    if !arguments.json {
        say(|out, _| out.write_all(head(&report).as_bytes()));
    }
    for rule in RULES.iter().filter(|rule| chosen(rule.name)) {
        let outcome = child::judge(rule.name, &asked);
        match outcome {
            RuleOutcome::Pass => report.passed += 1,
            RuleOutcome::Fail(_) => report.failed += 1,
            RuleOutcome::Waived(_) => report.waived += 1,
        }
        let finding = finding(rule, outcome, &arguments.plugin);
        if !arguments.json {
            say(|out, colour| findings(out, std::slice::from_ref(&finding), colour));
        }
        report.findings.push(finding);
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&report)?;
        answer::answer(|out, _| writeln!(out, "{text}"))?;
    } else {
        let CheckReport { passed, failed, waived, .. } = report;
        say(|out, _| writeln!(out, "# {passed} passed, {failed} failed, {waived} waived"));
    }
    Ok(if report.failed == 0 { Exit::Ok } else { Exit::Internal })
}

fn head(report: &CheckReport) -> String {
    let versions: Vec<String> = report.versions.iter().map(|v| format!("v{v}")).collect();
    let mut head = format!(
        "# net plugin {} ({}), tables {}; checked by v{}\n",
        report.plugin,
        report.path,
        versions.join(" "),
        report.checked
    );
    if !report.not_checked.is_empty() {
        head += &format!("# not checked: {}\n", named(&report.not_checked).join(", "));
    }
    head
}

/// Each symbol with what it is for.
fn named(symbols: &[String]) -> Vec<String> {
    let what = |symbol: &str| {
        let kinds = [
            (PluginKind::Gin, "sends that a GPU begins"),
            (PluginKind::Rma, "one-sided operations"),
            (PluginKind::CollNet, "reductions in the network"),
            (PluginKind::Tuner, "choice of algorithms"),
            (PluginKind::Profiler, "events"),
            (PluginKind::Env, "variables"),
        ];
        let found = kinds.iter().find(|(kind, _)| symbol.starts_with(kind.symbol()));
        found.map_or("", |(_, what)| what)
    };
    symbols.iter().map(|symbol| format!("{symbol} ({})", what(symbol))).collect()
}

fn finding(rule: &Rule, outcome: RuleOutcome, plugin: &str) -> Finding {
    let Rule { name, what, .. } = *rule;
    let finding = match outcome {
        RuleOutcome::Pass => Finding::new(name, Severity::Fine, what),
        RuleOutcome::Waived(why) => Finding::new(name, Severity::Absent, why),
        RuleOutcome::Fail(why) => {
            Finding::new(name, Severity::Error, format!("{why}; expected: {what}"))
                .confirm(format!("busbw plugin check {plugin} --rule {name}"))
        }
    };
    finding.subject(name)
}

/// Lines are printed as they are known: a rule may take seconds.
fn say(write: impl FnOnce(&mut Printable<StdoutLock<'static>>, bool) -> io::Result<()>) {
    let colour = answer::wants_colour();
    let mut out = Printable::new(io::stdout().lock(), colour);
    // If the reader has gone, the exit code still counts.
    let _ = write(&mut out, colour).and_then(|()| out.flush());
}
