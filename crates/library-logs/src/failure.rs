//! What failed in a run, by its log: any program of a job that fails prints lines of known forms, and this reads
//! them into incidents, of which `FailureFacts::cause` is the one that caused the others.
//! Not benchmark tables, not what NCCL says of a healthy run (`nccl`), and not flight-recorder dumps.
//!
//! Lines may have any prefix, and those of ranks may be interleaved. Every line takes time linear in its length,
//! and memory is bounded for any length of the log. A text of a release or launcher that is not known is no
//! incident: nothing is guessed from words such as "error".

mod advice;
mod cause;
mod derive;
mod elastic;
mod harmless;
mod incident;
mod kind;
mod launcher;
mod line;
mod naming;
mod nccl;
mod pytorch;
mod rule;
mod sentence;
mod system;
mod traceback;

pub use advice::{confirm, remedy};
pub use incident::{Details, Ending, FailureFacts, Incident, ProcessExit, Progress};
pub use kind::{Causality, Kind};
pub use naming::ranks;
pub use sentence::sentence;

use std::{collections::BTreeMap, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::nccl::{NcclFacts, plain};
use incident::Incidents;
use line::{Line, between, number};
use rule::{Field, Rule};

/// The part of a line that is read, in bytes: no known text is longer.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// Lines after which an open incident gets no more details.
const MAX_OPEN_LINES: u64 = 60;
/// Lines of PyTorch's messages that follow their first one without a prefix.
const MAX_FOLLOWING_LINES: u64 = 8;
/// The most ranks and process groups whose progress is kept.
const MAX_PROGRESS: usize = 16_384;

/// What the words of a line stand for.
#[derive(Clone, Copy)]
enum Target {
    Rule(&'static Rule),
    Field(&'static Field),
    Elastic(elastic::Mark),
    Traceback,
    Progress,
    Warning,
    LastError,
    EndedWell,
    InitStart,
}

/// The words that are searched in every line at once.
struct Words {
    search: AhoCorasick,
    targets: Vec<Target>,
}

static WORDS: LazyLock<Option<Words>> = LazyLock::new(|| {
    let mut words: Vec<(&str, Target)> = Vec::new();
    for rules in [nccl::RULES, pytorch::RULES, launcher::RULES, system::RULES, harmless::RULES] {
        words.extend(rules.iter().map(|rule| (rule.needle, Target::Rule(rule))));
    }
    for fields in [nccl::FIELDS, launcher::FIELDS, harmless::FIELDS] {
        words.extend(fields.iter().map(|field| (field.needle, Target::Field(field))));
    }
    words.extend(elastic::MARKS.map(|(needle, mark)| (needle, Target::Elastic(mark))));
    words.extend([
        ("Traceback (most recent call last)", Target::Traceback),
        ("last completed work: ", Target::Progress),
        ("last completed NCCL work: ", Target::Progress),
        ("NCCL WARN", Target::Warning),
        ("Last error:", Target::LastError),
        ("Collective test concluded", Target::EndedWell),
        ("# Avg bus bandwidth", Target::EndedWell),
        ("Destroy COMPLETE", Target::EndedWell),
        ("Init START", Target::InitStart),
    ]);
    let search = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(words.iter().map(|(needle, _)| needle))
        .ok()?;
    Some(Words { search, targets: words.into_iter().map(|(_, target)| target).collect() })
});

/// Reads a log line by line.
#[derive(Debug, Default)]
pub struct Parser {
    lines: u64,
    incidents: Incidents,
    open: Option<Incident>,
    tracebacks: traceback::Tracebacks,
    elastic: elastic::Summary,
    progress: BTreeMap<(String, u32), (u64, u64)>,
    /// The rank of PyTorch's newest message, and its line.
    following: Option<(u32, u64)>,
    /// The rank and line of a `Last error:`, whose next line is the reason of the open incident.
    last_error: Option<(Option<u32>, u64)>,
    ended_well: Option<u64>,
    init_start: Option<u64>,
    /// For each word, the newest line that has it.
    seen: Vec<u64>,
    found: Vec<usize>,
}

impl Parser {
    /// A parser that has read nothing.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Reads one line, with or without its line end. Whether it tells anything.
    pub fn line(&mut self, line: &str) -> bool {
        let mut told = false;
        for line in line.split('\n') {
            self.lines += 1;
            told |= self.one(line);
        }
        told
    }

    fn one(&mut self, line: &str) -> bool {
        let Some(words) = WORDS.as_ref() else { return false };
        let text = plain(unwrapped(line));
        let text = &text[..text.floor_char_boundary(MAX_LINE_BYTES)];
        self.search(words, text);
        if self.found.is_empty() && self.tracebacks.is_empty() && self.last_error.is_none() {
            return false;
        }
        let mut line = Line::new(text, self.lines);
        self.follow(&mut line);
        if self.open.as_ref().is_some_and(|open| self.lines > open.line + MAX_OPEN_LINES) {
            self.close();
        }
        let found = std::mem::take(&mut self.found);
        let mut told = false;
        let mut typed = false;
        for at in &found {
            match words.targets[*at] {
                Target::Rule(rule) if !line.info || rule.in_info => {
                    if self.apply(rule, &line) {
                        told = true;
                        typed = true;
                    }
                }
                Target::Field(field) if !line.info => {
                    if let Some(open) = self.open.as_mut().filter(|o| field.of.contains(&o.kind))
                        && let Some(after) = line.after(field.needle)
                    {
                        (field.read)(open, after);
                        told = true;
                    }
                }
                Target::Elastic(mark) if !line.info => {
                    self.elastic
                        .read(mark, &line)
                        .into_iter()
                        .for_each(|end| self.incidents.add(end));
                    told = true;
                }
                Target::Traceback => self.tracebacks.begin(&line),
                Target::Progress => told |= self.note_progress(&line).is_some(),
                Target::EndedWell => self.ended_well = Some(self.lines),
                Target::InitStart => self.init_start = Some(self.lines),
                Target::Rule(_)
                | Target::Field(_)
                | Target::Elastic(_)
                | Target::Warning
                | Target::LastError => {}
            }
        }
        if let Some(warning) = line.warning.filter(|_| !typed) {
            let mut incident = Incident::at(Kind::NcclWarning, &line);
            incident.details.name = incident.place.clone().or_else(|| Some(rule::keep(warning)));
            incident.details.reason = Some(rule::keep(warning));
            self.incidents.add(incident);
            told = true;
        }
        told |= self.reason(&line, typed);
        told |= self.raised(&line, typed);
        self.found = found;
        told
    }

    /// Finds the words of a line, each once.
    fn search(&mut self, words: &Words, text: &str) {
        self.found.clear();
        self.seen.resize(words.targets.len(), 0);
        for found in words.search.find_overlapping_iter(text) {
            let at = found.pattern().as_usize();
            if self.seen[at] != self.lines {
                self.seen[at] = self.lines;
                self.found.push(at);
            }
        }
        self.found.sort_unstable();
    }

    /// PyTorch's long messages have a prefix on their first line only.
    fn follow(&mut self, line: &mut Line<'_>) {
        if let Some(rank) = line.rank {
            self.following = line.text.contains("ProcessGroup").then_some((rank, self.lines));
        } else if line.pid.is_none()
            && let Some((rank, since)) = self.following
            && self.lines <= since + MAX_FOLLOWING_LINES
            && !self.tracebacks.is_open(None)
        {
            line.rank = Some(rank);
        }
    }

    fn apply(&mut self, rule: &'static Rule, line: &Line<'_>) -> bool {
        let Some(after) = line.after(rule.needle) else { return false };
        let mut incident = Incident::at(rule.kind, line);
        incident.details.op = self.tracebacks.collective(line.rank);
        if !(rule.read)(&mut incident, line, after) {
            return false;
        }
        // The second line of a benchmark's error names the process of the first.
        if let (Some("test failure"), Some(open)) =
            (incident.details.name.as_deref(), &mut self.open)
            && open.hosts == incident.hosts
        {
            incident.pids.into_iter().for_each(|pid| open.pid(Some(pid)));
            return true;
        }
        if rule.opens {
            self.close();
            self.open = Some(incident);
        } else {
            self.incidents.add(incident);
        }
        true
    }

    /// PyTorch repeats NCCL's last warning behind `Last error:`; a text without a rule is the reason itself.
    fn reason(&mut self, line: &Line<'_>, typed: bool) -> bool {
        if line.text.trim_end().ends_with("Last error:") {
            self.last_error = Some((line.rank, self.lines));
            return false;
        }
        let Some((rank, since)) = self.last_error else { return false };
        if self.lines > since + MAX_FOLLOWING_LINES {
            self.last_error = None;
        } else if rank == line.rank && !line.bare().trim().is_empty() {
            self.last_error = None;
            let open = self.open.as_mut().filter(|open| open.kind == Kind::NcclError && !typed);
            let Some(open) = open else { return false };
            open.details.reason.get_or_insert_with(|| rule::keep(line.bare()));
            return true;
        }
        false
    }

    fn close(&mut self) {
        self.open.take().into_iter().for_each(|open| self.incidents.add(open));
    }

    fn raised(&mut self, line: &Line<'_>, typed: bool) -> bool {
        let Some(raised) = self.tracebacks.read(line) else { return false };
        if !raised.aftermath && !typed {
            let mut incident = Incident::at(Kind::Exception, line);
            incident.details.name = Some(raised.name);
            incident.details.reason = Some(raised.message).filter(|message| !message.is_empty());
            self.incidents.add(incident);
        }
        self.tracebacks.end(line.rank);
        true
    }

    /// `[PG ID 0 PG GUID 0(default_pg) Rank 1] … last enqueued work: 3, last completed work: 2`.
    fn note_progress(&mut self, line: &Line<'_>) -> Option<()> {
        let group = between(line.text, "[PG ", "Rank ")?.trim();
        let rank = between(line.text, "[PG ", "]")?.rsplit("Rank ").next().and_then(number)?;
        let of = |names: [&str; 2]| {
            names.iter().find_map(|name| line.after(name)).and_then(number::<u64>)
        };
        let enqueued = of(["ast enqueued work: ", "ast enqueued NCCL work: "])?;
        let completed = of(["last completed work: ", "last completed NCCL work: "])?;
        let key = (rule::keep(group), rank);
        if self.progress.len() < MAX_PROGRESS || self.progress.contains_key(&key) {
            let known = self.progress.entry(key).or_default();
            *known = (known.0.max(enqueued), known.1.max(completed));
        }
        Some(())
    }

    /// All facts. What NCCL says of ranks, processes and variables completes them.
    pub fn finish(mut self, nccl: &NcclFacts) -> FailureFacts {
        self.close();
        let facts = FailureFacts {
            left_out: self.incidents.left_out,
            incidents: self.incidents.finish(),
            exits: self.elastic.finish(),
            progress: self
                .progress
                .into_iter()
                .map(|((group, rank), (enqueued, completed))| Progress {
                    group,
                    rank,
                    enqueued,
                    completed,
                })
                .collect(),
            ended_well: self.ended_well,
        };
        derive::complete(facts, nccl, self.init_start)
    }
}

/// A line without the JSON in which Docker and Kubernetes keep it: `{"log":"…\n","stream":"stderr","time":"…"}`.
fn unwrapped(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("{\"log\":\"") else { return line };
    let end =
        rest.find("\\n\",\"stream\"").or_else(|| rest.find("\",\"stream\"")).unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest)
}

/// The facts in a complete text.
pub fn parse(text: &str, nccl: &NcclFacts) -> FailureFacts {
    let mut parser = Parser::new();
    parser.line(text);
    parser.finish(nccl)
}
