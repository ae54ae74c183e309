//! Where a message of NCCL's log begins in a line: behind a row that it tore apart, too.
//! Not what it says (`busbw_library_logs::nccl`).

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The part of a line before a message of NCCL, if it may have one.
pub(super) fn before_message(line: &str) -> Option<&str> {
    static NCCL: LazyLock<Finder> = LazyLock::new(|| Finder::new("NCCL "));
    let at = NCCL.find_iter(line.as_bytes()).find(|at| {
        let after = line.get(at + "NCCL ".len()..).unwrap_or_default();
        ["INFO", "WARN", "TRACE", "DIAG", "ERROR", "ATTN"]
            .iter()
            .any(|level| after.starts_with(level))
    })?;
    let before = line.get(..at)?;
    if line.get(at + "NCCL ".len()..).is_some_and(|after| after.starts_with("DIAG ")) {
        return Some(before_report(before));
    }
    // `host:pid:tid [device] file:line (function) `, of which the host may stick to a figure.
    let speaker = |token: &str| {
        if !token.ends_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let mut parts = token.rsplitn(3, ':');
        let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
        number(parts.next()) && number(parts.next()) && parts.next().is_some()
    };
    let host = before.split_ascii_whitespace().rev().take(8).find(|token| speaker(token))?;
    let begins = host.as_ptr() as usize - before.as_ptr() as usize;
    let is_figure = |byte: &u8| byte.is_ascii_digit() || matches!(*byte, b'-' | b'.');
    let figure = match host.bytes().take_while(is_figure).count() {
        // nccl-tests prints the root, -1 where there is none, before it measures: digits behind it are the host's (a
        // container is called by twelve of them).
        digits if host.starts_with("-1") => digits.min("-1".len()),
        // No figure stands alone at the begin of a line.
        _ if before.get(..begins).is_some_and(|text| text.trim_ascii().is_empty()) => 0,
        digits => digits,
    };
    before.get(..begins + figure)
}

/// The part before `host:pid `, which a line of NCCL's diagnostics report has, or none.
fn before_report(before: &str) -> &str {
    let token = before.trim_end().rsplit([' ', '\t']).next().unwrap_or_default();
    let source = token.rsplit_once(':').is_some_and(|(host, pid)| {
        !host.is_empty() && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())
    });
    match source {
        true => before.trim_end().strip_suffix(token).unwrap_or(before),
        false => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_diagnostics_report_tear_rows_apart_too() {
        let row = "   268435456      67108864     float     sum      -1 ";
        for (source, text) in [("gpu7:100 ", row), ("", row), ("gpu7:100 ", "")] {
            let line = format!("{text}{source}NCCL DIAG === NCCL Diagnostics ===");
            assert_eq!(before_message(&line), Some(text), "{line}");
        }
    }

    #[test]
    fn a_host_that_begins_with_digits_is_no_figure() {
        let row = "   268435456      67108864     float     sum      -1";
        for host in ["3947c65d25f0", "mew0", "10"] {
            let line = format!("{row}{host}:855:870 [0] NCCL INFO Connected all rings");
            assert_eq!(before_message(&line), Some(row), "{host}");
        }
        assert_eq!(before_message(" 1.7 26.66h:1:2 [0] NCCL INFO x"), Some(" 1.7 26.66"));
        assert_eq!(before_message("3947c65d25f0:855:870 [0] NCCL INFO x"), Some(""));
    }
}
