//! Locked memory, which RDMA registers, and shared memory, which NCCL uses within a node.
//! Not how much memory there is.

use busbw_core::finding::Finding;

use super::{
    Node,
    advice::{About, Advice},
};
use crate::machine::{self, Limit};

const ABOUT: About = About("memory");
/// What NCCL's troubleshooting page asks of a container: --shm-size=1g.
const WANTED_SHARED: u64 = 1 << 30;

/// Looks at both.
pub fn check(node: &Node) -> Vec<Finding> {
    vec![locked(node), shared(node, node.gpu_count())]
}

pub(super) fn locked(node: &Node) -> Finding {
    const NAME: &str = "memlock";
    const CONFIRM: &str = "ulimit -l";
    let bytes = match machine::locked_memory(&node.root) {
        None => return ABOUT.unknown(NAME, "/proc/self/limits cannot be read", CONFIRM),
        Some(Limit::Unlimited) => return ABOUT.fine(NAME, "unlimited"),
        Some(Limit::Bytes(bytes)) => bytes,
    };
    let seen = format!("{} may be locked", amount(bytes));
    if machine::may_lock(&node.root) == Some(true) {
        return ABOUT.fine(NAME, format!("{seen}, but CAP_IPC_LOCK lifts the limit"));
    }
    if node.rdma.is_empty() {
        return ABOUT.fine(NAME, format!("{seen}; only RDMA needs more"));
    }
    ABOUT.error(
        NAME,
        seen,
        &Advice {
            cost: "RDMA registration fails: ibv_reg_mr or ibv_create_qp, Cannot allocate memory",
            remedy: "`* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.conf; docker run --ulimit memlock=-1; LimitMEMLOCK=infinity in the unit of the job daemon or the container runtime; in a pod the capability IPC_LOCK",
            confirm: CONFIRM,
        },
    )
}

/// Of a node or pod with so many GPUs.
pub(super) fn shared(node: &Node, gpus: usize) -> Finding {
    const NAME: &str = "/dev/shm";
    const CONFIRM: &str = "df -h /dev/shm";
    let Some(mounts) = node.root.text("proc/mounts") else {
        return ABOUT.unknown(NAME, "/proc/mounts cannot be read", CONFIRM);
    };
    let Some(options) = mount_options(&mounts) else {
        return ABOUT.unknown(NAME, "it is no file system of its own", CONFIRM);
    };
    // Without a size, tmpfs may take half of the memory: tmpfs(5).
    let size = size_option(options).or_else(|| node.root.meminfo("MemTotal").map(|all| all / 2));
    let Some(size) = size else {
        return ABOUT.unknown(NAME, "its size is not known", CONFIRM);
    };
    let seen = format!("{} in all", amount(size));
    if size >= WANTED_SHARED {
        return ABOUT.fine(NAME, seen);
    }
    if gpus < 2 {
        return ABOUT.note(
            NAME,
            format!("{seen}; NCCL wants 1 GiB where several GPUs are"),
            CONFIRM,
        );
    }
    ABOUT.error(
        NAME,
        format!("{seen}, where NCCL wants 1 GiB"),
        &Advice {
            cost: "NCCL fails to start: failed to extend /dev/shm/nccl-...",
            remedy: "docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm",
            confirm: CONFIRM,
        },
    )
}

/// Options of the mount at /dev/shm: the fourth field of proc_mounts(5); the last mount covers others.
fn mount_options(mounts: &str) -> Option<&str> {
    mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.nth(1)? == "/dev/shm").then(|| fields.nth(1))?
    })
}

/// `size=65536k`, with k, m or g.
fn size_option(options: &str) -> Option<u64> {
    let text = options.split(',').find_map(|option| option.strip_prefix("size="))?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn amount(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.1} GiB", b as f64 / (1_u64 << 30) as f64),
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b => format!("{} KiB", b >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mount_that_counts() {
        let mounts = "tmpfs /dev tmpfs rw 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size=8g 0 0\n";
        assert_eq!(mount_options(mounts).and_then(size_option), Some(8 << 30));
        assert_eq!(mount_options("tmpfs /dev tmpfs rw 0 0"), None);
        assert_eq!(size_option("rw,size=65536k"), Some(64 << 20));
        assert_eq!(size_option("rw,size=50%"), None);
    }

    proptest! {
        #[test]
        fn any_mounts(text in "[a-z/ =,0-9k%\n]{0,80}") {
            let _ = mount_options(&text).and_then(size_option);
        }
    }
}
