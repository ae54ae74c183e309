//! UCX's log lines: the lanes of its endpoints.
//! Not which lane carries a message: that depends on its size.
//!
//! Forms: `ep_cfg[1]: tag(sysv/memory cma/memory)` up to 1.13, later `intra-node cfg#1 tag(…)`
//! after the name of a context (src/ucp/core/ucp_worker.c).

use std::collections::BTreeMap;

use super::Endpoint;

/// The most bytes of an endpoint's lanes that are read; a longer line is torn, or no such line.
const MAX_LANES_BYTES: usize = 4096;

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UcxMessage<'a> {
    /// UCX's version.
    Version(&'a str),
    /// A kind of endpoints.
    Endpoint(Endpoint),
}

/// Parses a line; `None` if nothing of it is kept.
pub(super) fn message(line: &str) -> Option<UcxMessage<'_>> {
    let ("INFO", text) = level(line)? else { return None };
    if let Some(version) = text.strip_prefix("Version ") {
        let word = version.split(' ').next()?;
        return (word.len() <= 64 && word.starts_with(|c: char| c.is_ascii_digit()))
            .then_some(UcxMessage::Version(word));
    }
    let (to, rest) = match text.strip_prefix("ep_cfg[") {
        Some(rest) => (None, after_number(rest)?.strip_prefix("]: ")?),
        None => {
            let (before, rest) = text.split_once(" cfg#")?;
            (before.rsplit(' ').next(), after_number(rest)?.strip_prefix(' ')?)
        }
    };
    let to = to.filter(|to| ["self", "intra-node", "inter-node"].contains(to)).map(str::to_owned);
    Some(UcxMessage::Endpoint(Endpoint { to, lanes: lanes(rest)? }))
}

/// Whether it is printed only because of UCX_LOG_LEVEL=info: by default UCX prints warnings and
/// errors.
pub(super) fn is_chatter(line: &str) -> bool {
    level(line).is_some_and(|(level, _)| matches!(level, "INFO" | "DIAG"))
}

/// The level of one of UCX's messages, and its text: `[time] [host:process:thread] file.c:1 UCX  INFO  …`.
fn level(line: &str) -> Option<(&str, &str)> {
    let (_, message) = line.strip_prefix('[')?.split_once(" UCX  ")?;
    let (level, text) = message.split_once(' ')?;
    Some((level, text.trim()))
}

fn after_number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// Parses `tag(sysv/memory cma/memory) am(…)` into lanes by purpose.
fn lanes(mut text: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let mut lanes = BTreeMap::new();
    if text.len() > MAX_LANES_BYTES {
        return None;
    }
    while !text.is_empty() {
        let (purpose, rest) = text.split_once('(')?;
        let (list, rest) = rest.split_once(')')?;
        let lane: Vec<String> = list.split_ascii_whitespace().map(str::to_owned).collect();
        let known = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if purpose.is_empty() || !purpose.bytes().all(known) || lane.is_empty() {
            return None;
        }
        lanes.insert(purpose.to_owned(), lane);
        text = rest.trim_start();
    }
    (!lanes.is_empty()).then_some(lanes)
}
