//! NCCL's expectations of a net plugin, one rule a line (docs/net.md says where NCCL relies on
//! each).
//! Not the processes that they run in (`child`).

mod closing;
mod connecting;
mod identity;
mod merging;
mod messages;

pub(super) use connecting::be_partner;

use super::{
    RuleOutcome,
    subject::{Outcome, Subject},
};

/// A rule.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) walk: fn(&Subject) -> Outcome<RuleOutcome>,
}

/// Most rules need nothing but a device.
macro_rules! rules {
    ($($name:literal, $what:literal, $walk:path;)*) => {
        &[$(Rule { name: $name, what: $what, walk: $walk }),*]
    };
}

/// All rules, in the order of a connection's life.
pub(super) const RULES: &[Rule] = rules! {
    "table", "every function that NCCL calls exists", identity::table;
    "name", "its name is its own", identity::name;
    "properties", "its devices' properties are plausible", identity::properties;
    "stable", "it reports the same properties each time", identity::stable;
    "versions", "all tables report the same properties", identity::versions;
    "connect-returns", "connect does not block, even if nobody answers", connecting::connect_returns;
    "accept-returns", "accept does not block, even if nobody connects", connecting::accept_returns;
    "same-handle", "connect can be called again with the same handle", connecting::same_handle;
    "out-of-order", "listeners accept in any order", connecting::out_of_order;
    "connect-before-listen", "a process that never listened can connect", connecting::before_listen;
    "close-listener", "a connection outlives its listener", connecting::close_listener;
    "zero", "messages may be empty", messages::zero;
    "sizes", "messages of 1 byte to 16 MiB, odd sizes included, arrive unchanged", messages::sizes;
    "larger-receive", "a receive may be larger than its message, and test reports the message's size", messages::larger;
    "in-order", "messages match receives in order", messages::in_order;
    "oldest", "testing only the oldest request is enough", messages::oldest;
    "requests", "32 requests of a connection may be open", messages::requests;
    "null-requests", "a refused request is accepted later", messages::null_requests;
    "without-sizes", "test can be called without a size pointer", messages::without_sizes;
    "merged", "devices that NCCL merges into one carry messages together", merging::merged;
    "quiet", "a receive can have optional completion", messages::quiet;
    "grouped", "several receives in one request, distinguished by tag", messages::grouped;
    "close-open", "connections may be closed with requests open", closing::with_open_requests;
    "descriptors", "closed connections leave no file descriptors", closing::descriptors;
    "threads", "closed connections leave no threads", closing::threads;
};

/// Runs a rule that needs a device.
fn with_device(subject: &Subject, walk: impl FnOnce() -> Outcome) -> Outcome<RuleOutcome> {
    if subject.devices == 0 {
        return Ok(without_device());
    }
    walk().map(|()| RuleOutcome::Pass)
}

/// A plugin may refuse to be used on this host.
fn without_device() -> RuleOutcome {
    let lines = busbw_ffi::net::take_lines();
    let said = lines.last().map_or_else(String::new, |line| format!("; it said: {}", line.text));
    RuleOutcome::Waived(format!("it offers no device on this host{said}"))
}
