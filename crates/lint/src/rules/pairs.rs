//! Two numbers that exclude each other: a least above a most, a product above its limit.
//! Not each number alone (`values`).

use busbw_core::finding::{Finding, Severity};

use super::values::whole_number;
use crate::settings::View;

const BOUNDS: [(&str, &str); 3] = [
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
];

/// Sockets of one connection over NCCL's TCP transport.
const MAX_SOCKETS: i64 = 64;

pub(super) fn check(view: &View<'_>) -> Vec<Finding> {
    let bounds = BOUNDS.iter().filter_map(|(least, most)| order(view, least, most));
    bounds.chain(sockets(view)).collect()
}

fn order(view: &View<'_>, least: &str, most: &str) -> Option<Finding> {
    let (low, high) = (view.get(least)?, view.get(most)?);
    let (low_value, high_value) = (whole_number(low)?, whole_number(high)?);
    if low_value <= high_value || high_value < 1 {
        return None;
    }
    let cause = format!("it is above {most}={high_value}");
    let remedy = format!("set {least} to {high_value} or less");
    Some(Finding::new("conflict", Severity::Error, cause).remedy(remedy).place(low.place()))
}

fn sockets(view: &View<'_>) -> Option<Finding> {
    let (threads, each) = (view.get("NCCL_SOCKET_NTHREADS")?, view.get("NCCL_NSOCKS_PERTHREAD")?);
    let (threads_value, each_value) = (whole_number(threads)?, whole_number(each)?);
    let product = threads_value.checked_mul(each_value)?;
    if threads_value < 1 || product <= MAX_SOCKETS {
        return None;
    }
    let cause = format!(
        "NCCL_SOCKET_NTHREADS={threads_value} times this is {product} sockets, and NCCL takes {MAX_SOCKETS} at most"
    );
    let remedy =
        format!("set NCCL_NSOCKS_PERTHREAD to {} or less", (MAX_SOCKETS / threads_value).max(1));
    Some(Finding::new("conflict", Severity::Error, cause).remedy(remedy).place(each.place()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        lint_text(text, &Options::default())
    }

    #[test]
    fn a_least_above_the_most() {
        let found = found("export NCCL_MIN_NCHANNELS=32\nexport NCCL_MAX_NCHANNELS=16\n");
        assert_eq!(found[0].rule, "conflict");
        assert_eq!(found[0].remedy.as_deref(), Some("set NCCL_MIN_NCHANNELS to 16 or less"));
        assert_eq!(found[0].line(), Some(1));
    }

    #[test]
    fn too_many_sockets() {
        let found = found("NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=8 ./run");
        assert!(found[0].cause.contains("128 sockets"), "{}", found[0]);
        assert!(found[0].remedy.as_deref().unwrap().ends_with("to 4 or less"));
    }

    #[test]
    fn different_launches_are_not_compared() {
        let text = "NCCL_MIN_NCHANNELS=32 ./a\nNCCL_MAX_NCHANNELS=16 ./b\n";
        assert_eq!(found(text), []);
        assert_eq!(found("NCCL_SOCKET_NTHREADS=8 NCCL_NSOCKS_PERTHREAD=8 ./run"), []);
    }
}
