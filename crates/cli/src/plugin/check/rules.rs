//! NCCL's expectations of a net plugin, one rule a line (docs/net.md says where NCCL relies on
//! each).
//! Not the processes that they run in (`child`).

mod closing;
mod connecting;
mod identity;
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
    "table", "every function that NCCL calls is there", identity::table;
    "name", "its name is its own", identity::name;
    "properties", "what it says of its devices can be", identity::properties;
    "stable", "it says the same each time", identity::stable;
    "versions", "all tables say the same", identity::versions;
    "connect-returns", "connect returns at once, also when nobody answers", connecting::connect_returns;
    "accept-returns", "accept returns at once, also when nobody comes", connecting::accept_returns;
    "same-handle", "connect may be asked again with the handle that it left", connecting::same_handle;
    "out-of-order", "listeners are served in any order", connecting::out_of_order;
    "connect-before-listen", "a process may connect that never listened", connecting::before_listen;
    "close-listener", "a connection outlives its listener", connecting::close_listener;
    "zero", "messages may be empty", messages::zero;
    "sizes", "messages of 1 byte to 16 MiB, also odd ones, arrive as they were", messages::sizes;
    "larger-receive", "a receive may be larger than its message, and test says how large that was", messages::larger;
    "in-order", "messages match receives in order", messages::in_order;
    "oldest", "it is enough to ask for the oldest request", messages::oldest;
    "requests", "32 requests of a connection may be open", messages::requests;
    "null-requests", "who was told to ask again is served in the end", messages::null_requests;
    "without-sizes", "test may be asked without a place for sizes", messages::without_sizes;
    "quiet", "a receive may be asked for whose end its sender need not hear of", messages::quiet;
    "grouped", "several receives in one request, told apart by tag", messages::grouped;
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
