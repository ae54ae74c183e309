//! An interface named in order to measure TCP, while InfiniBand or RoCE would still be taken.
//! It applies to scripts only: in an environment the interface is often for start-up alone.

use busbw_core::finding::{Finding, Severity};

use crate::settings::View;

pub(super) fn check(view: &View<'_>) -> Option<Finding> {
    let interface = view.get("NCCL_SOCKET_IFNAME")?;
    // A list of what not to use names no choice.
    if interface.value.as_deref().is_none_or(|value| value.is_empty() || value.starts_with('^')) {
        return None;
    }
    // Any word about the network shows that the script knows which one it wants.
    let decides = |name: &&str| name.starts_with("NCCL_IB_") || name.starts_with("NCCL_NET");
    let disabled = view.get("NCCL_IB_DISABLE").and_then(|a| a.literal());
    let decided = view.keys().any(|name| decides(name) && *name != "NCCL_IB_DISABLE");
    if decided || disabled.is_some_and(|value| value != "0") {
        return None;
    }
    let cause = "IB or RoCE wins over sockets whatever NCCL_SOCKET_IFNAME says";
    let remedy = "to measure TCP set NCCL_IB_DISABLE=1 or NCCL_NET=Socket as well";
    Some(
        Finding::new("socket-choice", Severity::Note, cause)
            .remedy(remedy)
            .place(interface.place()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| f.rule == "socket-choice");
        found
    }

    #[test]
    fn an_interface_alone_does_not_choose_tcp() {
        let found = found("mpirun -x NCCL_SOCKET_IFNAME=eth0 ./run");
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(found[0].cause, "IB or RoCE wins over sockets whatever NCCL_SOCKET_IFNAME says");
    }

    #[test]
    fn zero_does_not_disable() {
        assert_eq!(found("NCCL_IB_DISABLE=0 NCCL_SOCKET_IFNAME=eth0 ./run").len(), 1);
    }

    #[test]
    fn a_script_that_decides_is_silent() {
        for also in
            ["NCCL_IB_DISABLE=1", "NCCL_NET=Socket", "NCCL_IB_HCA==mlx5_0", "NCCL_NET_PLUGIN=none"]
        {
            assert_eq!(
                found(&format!("mpirun -x NCCL_SOCKET_IFNAME=eth0 -x {also} ./run")),
                [],
                "{also}"
            );
        }
        assert_eq!(found("export NCCL_SOCKET_IFNAME=^lo,docker0\n./run"), []);
    }
}
