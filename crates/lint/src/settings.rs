//! The settings that hold at the same time, for rules that compare two of them.
//! It does not compare.

use std::collections::BTreeMap;

use busbw_core::environment;

use super::assignment::Assignment;
use super::document::Document;

/// One launch's settings by name.
pub(crate) type View<'d> = BTreeMap<&'d str, &'d Assignment>;

/// Maximum of launches whose settings are compared: generated scripts repeat themselves.
const MAX_VIEWS: usize = 500;

/// What holds at each command that sets something of its own, and at the end.
pub(crate) fn views(document: &Document) -> Vec<View<'_>> {
    let mut standing = View::new();
    let mut views = Vec::new();
    let mut rest = document.assignments.as_slice();
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|a| a.command == first.command).count();
        let (group, after) = rest.split_at(same);
        rest = after;
        let pairs = group.iter().filter(|a| is_compared(&a.name)).map(|a| (a.name.as_str(), a));
        if first.command.is_none() {
            standing.extend(pairs);
        } else if views.len() < MAX_VIEWS {
            let mut view = standing.clone();
            view.extend(pairs);
            views.push(view);
        }
    }
    views.push(standing);
    views
}

/// Whether any rule compares this variable with another.
fn is_compared(name: &str) -> bool {
    name.starts_with("NCCL_IB_")
        || name.starts_with("NCCL_MIN_")
        || name.starts_with("NCCL_MAX_")
        || name.starts_with("NCCL_NET")
        || name.starts_with("NCCL_TUNER_")
        || name.starts_with("NCCLX_TUNER_")
        || name == environment::TUNER
        || matches!(name, "UCX_NET_DEVICES" | "NCCL_SOCKET_IFNAME")
        || matches!(name, "NCCL_SOCKET_NTHREADS" | "NCCL_NSOCKS_PERTHREAD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_adds_to_what_stands() {
        let text = "export NCCL_NET=IB\nNCCL_IB_TC=1 ./a\nNCCL_IB_TC=2 ./b\nexport NCCL_IB_SL=3\n";
        let document = Document::from_text(text);
        let all = views(&document);
        let values =
            |view: &View<'_>, name| view.get(name).and_then(|a| a.literal().map(str::to_owned));
        assert_eq!(all.len(), 3);
        assert_eq!(values(&all[0], "NCCL_IB_TC").as_deref(), Some("1"));
        assert_eq!(values(&all[1], "NCCL_IB_TC").as_deref(), Some("2"));
        assert_eq!(values(&all[1], "NCCL_NET").as_deref(), Some("IB"));
        assert_eq!(values(&all[2], "NCCL_IB_TC"), None);
        assert_eq!(values(&all[2], "NCCL_IB_SL").as_deref(), Some("3"));
    }

    #[test]
    fn others_are_left_out() {
        let document = Document::from_text("export NCCL_DEBUG=INFO\n");
        assert!(views(&document)[0].is_empty());
    }
}
