//! Replaces names of people and machines in a report: hosts, users, addresses, GUIDs and serial numbers, each
//! always by the same word.
//! Not secrets: those are masked when a record is written (`busbw-store`).
//!
//! First everything is read to learn names of hosts and users; then every string of the report's data is
//! rewritten. The page is made from these data alone, so nothing can come in beside them.

mod learn;
mod shapes;

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use anyhow::{Context, Result};
use busbw_library_logs::nccl::plain;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{Report, Sources};
use busbw_analysis::check::Subject;
pub(super) use learn::Names;

/// Keys whose values are words of the program, which scripts of the page compare with.
const OWN_WORDS: [&str; 9] =
    ["kind", "level", "unit", "rule", "severity", "status", "confidence", "figure", "datatype"];

/// Bytes of a text that are scanned for names that its measurements do not keep.
const MAX_SCANNED_BYTES: u64 = 1 << 20;

/// Names found in the sources.
#[derive(Debug, Default)]
pub struct KnownNames(Names);

impl KnownNames {
    /// Hosts of devices and machines, as the sources list them, and this machine's own.
    pub fn of(sources: &Sources) -> KnownNames {
        let mut names = Names::default();
        for run in &sources.runs {
            run.devices.iter().for_each(|device| names.host(&device.host));
            run.machine.iter().for_each(|machine| names.host(&machine.host));
            run.paths.iter().for_each(|stats| names.host(&stats.host));
            names.text(&run.source.name);
            run.command.iter().chain(&run.errors).for_each(|text| names.text(text));
        }
        for sweep in &sources.sweeps {
            // `…, host vm`: the host of rank 0.
            sweep.on.rsplit_once("host ").into_iter().for_each(|(_, host)| names.host(host));
        }
        for check in &sources.checks {
            check.hosts.iter().for_each(|host| names.host(host));
            for subject in check.lines.iter().filter_map(|line| line.subject.as_ref()) {
                match subject {
                    Subject::Host { host } => names.host(host),
                    Subject::Hosts { hosts } => hosts.iter().for_each(|host| names.host(host)),
                    Subject::Rank { rank } => names.label(rank),
                    Subject::Link { from, to, .. } => {
                        names.label(from);
                        names.label(to);
                    }
                }
            }
        }
        for (_, file) in &sources.watched {
            names.host(&file.process.host);
            file.process.job.iter().for_each(|name| names.job(name));
        }
        let labels = sources.pairs.iter().flat_map(|pairs| &pairs.labels);
        labels.for_each(|label| names.label(label));
        names.host(&rustix::system::uname().nodename().to_string_lossy());
        for variable in ["USER", "LOGNAME", "SUDO_USER"] {
            if let Ok(user) = std::env::var(variable) {
                names.user(&user);
            }
        }
        KnownNames(names)
    }

    /// Learns names from the lines of a log that its measurement does not keep. A record has no such lines,
    /// and a file that can no longer be read gives no names.
    pub fn learn(&mut self, path: &Path) {
        self.0.text(&path.display().to_string());
        // A pipe was read already, and opening one again would wait.
        if !path.is_file() {
            return;
        }
        let mut start = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(MAX_SCANNED_BYTES).read_to_end(&mut start));
        if read.is_err() || start.first() == Some(&b'{') {
            return;
        }
        let text = String::from_utf8_lossy(&start);
        let text = plain(&text);
        let is_row = |line: &&str| {
            let first = line.split_whitespace().next().unwrap_or_default();
            first.bytes().all(|byte| byte.is_ascii_digit())
        };
        text.lines().filter(|line| !is_row(line)).for_each(|line| self.0.text(line));
    }
}

/// The report without names.
///
/// # Errors
/// The report cannot be serialised, which would be a bug.
pub fn redacted(mut report: Report, known: &KnownNames) -> Result<Report> {
    for run in &mut report.runs {
        // Folders tell of users and projects.
        run.source = file_name(&run.source).to_owned();
    }
    for unread in &mut report.unread {
        *unread = file_name(unread).to_owned();
    }
    report.redacted = true;
    let mut names = known.0.clone();
    for fact in report.runs.iter().flat_map(|run| &run.environment) {
        names.text(&format!("{}={}", fact.name, fact.value));
    }
    let mut value = serde_json::to_value(report).context("cannot read the report's own data")?;
    visit(&mut value, &mut |text| names.text(text));
    let mut words = Words::new(&names)?;
    visit(&mut value, &mut |text| *text = words.replaced(text));
    serde_json::from_value(value).context("cannot read the redacted data")
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// Rewrites every string of the data, except the program's own words.
fn visit(value: &mut Value, each: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(values) => values.iter_mut().for_each(|value| visit(value, each)),
        Value::Object(fields) => {
            let fields = fields.iter_mut().filter(|(key, _)| !OWN_WORDS.contains(&key.as_str()));
            fields.for_each(|(_, value)| visit(value, each));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The replacements.
struct Words {
    /// Names of hosts and users, in small letters.
    names: BTreeMap<String, String>,
    /// Finds any of them.
    any: Option<Regex>,
    /// Addresses and the like, in small letters, as they turn up.
    shapes: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Words {
    fn new(names: &Names) -> Result<Words> {
        let map = names.replacements();
        let mut longest_first: Vec<&String> = map.keys().collect();
        longest_first.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.as_str()));
        let all: Vec<String> = longest_first.iter().map(|name| regex::escape(name)).collect();
        let any = (!all.is_empty())
            .then(|| {
                RegexBuilder::new(&all.join("|"))
                    .case_insensitive(true)
                    .size_limit(256 << 20)
                    .build()
                    .context("cannot look for so many names of hosts and users")
            })
            .transpose()?;
        Ok(Words { names: map, any, shapes: BTreeMap::new(), counts: BTreeMap::new() })
    }

    fn replaced(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for found in shapes::find(text) {
            out.push_str(text.get(at..found.range.start).unwrap_or_default());
            let original = text.get(found.range.clone()).unwrap_or_default();
            out.push_str(&self.shape(original, found.kind));
            at = found.range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        self.named(&out)
    }

    fn shape(&mut self, original: &str, kind: &'static str) -> String {
        let key = original.to_ascii_lowercase();
        if let Some(word) = self.shapes.get(&key) {
            return word.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let word = format!("{kind}-{count}");
        self.shapes.insert(key, word.clone());
        word
    }

    fn named(&self, text: &str) -> String {
        let Some(any) = &self.any else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut from = 0;
        while let Some(found) = any.find_at(text, from) {
            let before = text.get(..found.start()).and_then(|text| text.chars().next_back());
            let after = text.get(found.end()..).and_then(|text| text.chars().next());
            match self.names.get(&found.as_str().to_lowercase()) {
                Some(word) if stands_alone(found.as_str(), before, after) => {
                    out.push_str(text.get(at..found.start()).unwrap_or_default());
                    out.push_str(word);
                    (at, from) = (found.end(), found.end());
                }
                _ => {
                    let step = found.as_str().chars().next().map_or(1, char::len_utf8);
                    from = found.start() + step;
                }
            }
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

/// Whether a name that was found in a text is meant there, and not a part of another word. A name with a
/// digit is rarely a part of one, only of a longer number: `node1` of `node17`.
fn stands_alone(name: &str, before: Option<char>, after: Option<char>) -> bool {
    let distinct = name.len() >= 4 && name.chars().any(|c| c.is_ascii_digit());
    if distinct && name.ends_with(|c: char| c.is_ascii_digit()) {
        return !after.is_some_and(|c| c.is_ascii_digit());
    }
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    distinct || !(letter(before) || letter(after))
}

#[cfg(test)]
mod tests;
