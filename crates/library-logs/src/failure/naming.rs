//! How a sentence names ranks, hosts, waits, calls and signals.
//! Not what it says about them (`sentence`).

use std::collections::BTreeSet;

use super::incident::Incident;

/// The most hosts that a sentence names.
const MAX_HOSTS: usize = 2;

/// `Rank 1`, `Ranks 0 and 1 on vm`, `A process on vm`.
pub(super) fn who(incident: &Incident) -> String {
    let named = match incident.ranks.is_empty() {
        true if incident.count > 1 && incident.pids.len() > 1 => {
            format!("{} processes", incident.pids.len())
        }
        true => "A process".to_owned(),
        false => ranks(&incident.ranks),
    };
    format!("{named}{}", on_hosts(incident))
}

/// `Rank 3`, `Ranks 0 and 1`, `Ranks 0-7 and 12`.
pub fn ranks(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let mut parts = Vec::new();
    for (first, last) in &runs {
        match last - first {
            0 => parts.push(first.to_string()),
            1 => parts.extend([first.to_string(), last.to_string()]),
            _ => parts.push(format!("{first}-{last}")),
        }
    }
    if parts.len() > 8 {
        return format!("{} ranks, {} first,", ranks.len(), parts[0]);
    }
    let plural = if ranks.len() == 1 { "Rank" } else { "Ranks" };
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{plural} {} and {last}", rest.join(", "))
        }
        _ => format!("{plural} {}", parts.join("")),
    }
}

pub(super) fn on_hosts(incident: &Incident) -> String {
    match incident.hosts.len() {
        0 => String::new(),
        1..=MAX_HOSTS => format!(
            " on {}",
            incident.hosts.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
        ),
        many => format!(" on {many} hosts"),
    }
}

pub(super) fn hosts_or(incident: &Incident, other: &str) -> String {
    let hosts = on_hosts(incident);
    hosts.strip_prefix(" on ").map_or_else(|| other.to_owned(), str::to_owned)
}

pub(super) fn for_ranks(incident: &Incident) -> String {
    if incident.ranks.is_empty() {
        on_hosts(incident)
    } else {
        format!(" for {}", lower(&who(incident)))
    }
}

pub(super) fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_lowercase(), chars.as_str())
    })
}

pub(super) fn or(value: &Option<String>, other: &str) -> String {
    value.clone().unwrap_or_else(|| other.to_owned())
}

/// `: its own words`, without a full stop at their end.
pub(super) fn because(reason: &Option<String>) -> String {
    let said = reason
        .as_deref()
        .map(|reason| reason.trim_end_matches(['.', ' ', ':']))
        .unwrap_or_default();
    let short = &said[..said.floor_char_boundary(200)];
    match short {
        "" => String::new(),
        short if short.len() < said.len() => format!(": {short} …"),
        short => format!(": {short}"),
    }
}

/// ` 15 s`, where it is known.
pub(super) fn waited(milliseconds: Option<u64>) -> String {
    match milliseconds {
        None => String::new(),
        Some(ms) if ms < 1000 => format!(" {ms} ms"),
        Some(ms) => format!(" {} s", ms / 1000),
    }
}

pub(super) fn within(waited: &str) -> String {
    if waited.is_empty() { String::new() } else { format!(" within{waited}") }
}

pub(super) fn after(waited: &str) -> String {
    if waited.is_empty() { String::new() } else { format!(" after{waited}") }
}

/// `all_reduce number 3 of 16777216 elements`.
pub(super) fn call(incident: &Incident) -> String {
    let d = &incident.details;
    let mut call = or(&d.op, "a collective");
    if let Some(sequence) = d.sequence {
        call.push_str(&format!(" number {sequence}"));
    }
    let sizes: BTreeSet<_> = d.elements.values().collect();
    if let Some(size) = sizes.first().filter(|_| sizes.len() == 1) {
        call.push_str(&format!(" of {size} elements"));
    }
    call
}

pub(super) fn signal(signal: u32) -> String {
    let (article, name, said) = match signal {
        4 => ("an ", "SIGILL", "illegal instruction"),
        6 => ("an ", "SIGABRT", "abort by the program itself"),
        7 => ("a ", "SIGBUS", "bus error"),
        8 => ("a ", "SIGFPE", "floating point exception"),
        9 => ("", "SIGKILL", "killed"),
        11 => ("a ", "SIGSEGV", "segmentation fault"),
        _ => return format!("signal {signal}"),
    };
    format!("{article}{said} (signal {signal}, {name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ranges() {
        let of = |all: &[u32]| ranks(&all.iter().copied().collect());
        assert_eq!(of(&[3]), "Rank 3");
        assert_eq!(of(&[0, 1]), "Ranks 0 and 1");
        assert_eq!(of(&[0, 1, 2, 3, 12]), "Ranks 0-3 and 12");
        assert_eq!(of(&[0, 2, 4, 6, 8, 10, 12, 14, 16]), "9 ranks, 0 first,");
    }
}
