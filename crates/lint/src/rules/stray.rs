//! Blanks and quotes that became part of a value, where the library takes them at their word.
//! Curly quotes are `typography`'s affair.

use busbw_core::finding::{Finding, Severity};

use crate::accepted::belongs_to_others;
use crate::assignment::Assignment;

/// Lists whose entries are compared with names, so a blank inside spoils an entry.
const LISTS: [&str; 4] =
    ["NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "NCCL_DEBUG_SUBSYS"];

pub(super) fn check(assignment: &Assignment) -> Option<Finding> {
    let name = assignment.name.as_str();
    // A time stamp format ends in a blank by default; the values of others are theirs to judge.
    if name == "NCCL_DEBUG_TIMESTAMP_FORMAT" || belongs_to_others(name) {
        return None;
    }
    let value = assignment.literal()?;
    let bare = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let quoted = value.trim().starts_with(['"', '\'']) || value.trim().ends_with(['"', '\'']);
    let cause = if quoted {
        "the quotes are part of the value, and the library does not remove them"
    } else if value.trim() != value {
        "the value begins or ends with a blank, which the library does not remove"
    } else if LISTS.contains(&name) && value.contains(char::is_whitespace) {
        let bare: String = value.split_whitespace().collect();
        let cause =
            "the list holds a blank, which becomes part of an entry, so that entry matches nothing";
        let remedy = format!("write {name}={bare}");
        return Some(
            Finding::new("stray-characters", Severity::Error, cause)
                .remedy(remedy)
                .place(assignment.place()),
        );
    } else {
        return None;
    };
    let finding = Finding::new("stray-characters", Severity::Error, cause)
        .remedy(format!("write {name}={bare}"));
    Some(finding.place(assignment.place()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_environment};

    fn found(name: &str, value: &str) -> Vec<Finding> {
        lint_environment([(name, value)].into_iter(), &Options::default())
    }

    #[test]
    fn quotes_and_blanks_round_a_value() {
        for value in ["\"INFO\"", "'INFO'", "INFO ", " INFO"] {
            let found = found("NCCL_DEBUG", value);
            assert_eq!(found[0].rule, "stray-characters", "{value}");
            assert_eq!(found[0].remedy.as_deref(), Some("write NCCL_DEBUG=INFO"));
        }
    }

    #[test]
    fn a_blank_in_a_list_spoils_the_entry() {
        let found = found("NCCL_IB_HCA", "=mlx5_0, mlx5_1");
        assert_eq!(found[0].remedy.as_deref(), Some("write NCCL_IB_HCA==mlx5_0,mlx5_1"));
    }

    #[test]
    fn blanks_that_belong_are_left() {
        assert_eq!(found("NCCL_TESTS_SPLIT", "MOD 2"), []);
        assert_eq!(found("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T] "), []);
        assert_eq!(found("NCCL_TOPO_FILE", "/a b/topo.xml"), []);
    }
}
