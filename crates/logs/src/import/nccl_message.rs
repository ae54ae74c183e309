//! Where a message of NCCL's log begins in a line: behind a row that it tore apart, too.
//! Not what it says (`busbw_library_logs::nccl`).

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The part of a line before a message of NCCL, if it may have one.
pub(super) fn before_message(line: &str) -> Option<&str> {
    static NCCL: LazyLock<Finder> = LazyLock::new(|| Finder::new("NCCL "));
    let at = NCCL.find_iter(line.as_bytes()).find(|at| {
        let after = line.get(at + "NCCL ".len()..).unwrap_or_default();
        ["INFO", "WARN", "TRACE"].iter().any(|level| after.starts_with(level))
    })?;
    let before = line.get(..at)?;
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
    let figure = host.bytes().take_while(is_figure).count();
    before.get(..begins + figure)
}
