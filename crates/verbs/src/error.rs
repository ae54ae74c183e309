//! The errors of RDMA: what was called, on what, what the system said, and what to do.
//! Not those of loading the library (`library::LoadError`).

use std::io;

use thiserror::Error;

/// A call that failed, or a request that completed with an error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerbsError {
    /// A call was refused.
    #[error("{call} on {on} failed: {why}{advice}")]
    Refused {
        /// The function, such as ibv_reg_mr.
        call: &'static str,
        /// The device, or the end of a connection.
        on: String,
        /// The system's text.
        why: String,
        /// What to do, behind "; ", or nothing.
        advice: String,
    },
    /// A work request completed with an error.
    #[error("{what} on {on} completed with {status}{advice}")]
    Completed {
        /// The request.
        what: String,
        /// The device and port.
        on: String,
        /// `ibv_wc_status_str`, with the vendor's code.
        status: String,
        /// What it means, and what to do.
        advice: String,
    },
    /// The device reported an event that ends what is under way.
    #[error("{on}: {event}; {advice}")]
    Event {
        /// The device.
        on: String,
        /// The event.
        event: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// The library lacks a function.
    #[error("{library} has no {0}: it is too old (rdma-core {since} has it)", library = library_of(.0).0, since = library_of(.0).1)]
    Absent(&'static str),
    /// A request that cannot be made.
    #[error("a bug of busbw: {0}")]
    Misuse(&'static str),
}

/// The library of a function, and the first rdma-core that has all that is used of it.
fn library_of(function: &str) -> (&'static str, u8) {
    if function.starts_with("rdma") { ("librdmacm", 23) } else { ("libibverbs", 17) }
}

/// A refusal, with advice where the cause is known.
pub(super) fn refused(call: &'static str, on: &str, error: &io::Error) -> VerbsError {
    let advice = match (call, error.raw_os_error()) {
        ("ibv_reg_mr" | "ibv_reg_mr_iova2", Some(12)) => {
            "; memory cannot be locked: raise memlock (ulimit -l unlimited, `--ulimit memlock=-1` for containers, \
             LimitMEMLOCK=infinity for services), or measure smaller sizes with -e"
        }
        ("rdma_bind_addr" | "rdma_resolve_addr", Some(19 | 99)) => {
            "; no RDMA device has this address: it belongs to another interface (rdma link)"
        }
        ("rdma_resolve_addr" | "rdma_resolve_route", Some(101 | 113)) => {
            "; the other end's address is not reached from this one"
        }
        ("ibv_create_qp", Some(22)) => {
            "; the device takes no such queue pair: fewer requests (--tx-depth, --rx-depth) or no --inline_size may do"
        }
        ("ibv_create_qp", Some(12)) => {
            "; the device has no room for it: --tx-depth and --rx-depth make it smaller"
        }
        ("ibv_open_device", Some(13)) => "; this user may not open /dev/infiniband/uverbs*",
        ("ibv_modify_qp", Some(110)) => {
            "; the other end's address does not resolve on this network: choose another --gid-index on both hosts"
        }
        ("ibv_modify_qp", Some(22 | 101 | 113)) => {
            "; the two ends' addresses do not belong together: choose --gid-index on both hosts (show_gids)"
        }
        _ => "",
    };
    let (on, why, advice) = (on.to_owned(), error.to_string(), advice.to_owned());
    VerbsError::Refused { call, on, why, advice }
}

/// What a status means to whoever runs the network (InfiniBand specification, chapter 11.6.2).
pub(super) fn advice(status: i32) -> &'static str {
    match status {
        // IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR
        1 | 4 => "; a bug of busbw",
        // IBV_WC_WR_FLUSH_ERR
        5 => "; the queue pair had failed before",
        // IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR
        9..=11 => "; the other end refused it: its process may have ended",
        // IBV_WC_RETRY_EXC_ERR
        12 => {
            "; the other end does not answer: its port is down, its process ended, the path between loses packets, or the MTU \
             of a switch is smaller (--mtu 1024)"
        }
        // IBV_WC_RNR_RETRY_EXC_ERR
        13 => "; the other end posted no receive in time",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let text =
            |call, code| refused(call, "mlx5_0", &io::Error::from_raw_os_error(code)).to_string();
        for call in ["ibv_reg_mr", "ibv_reg_mr_iova2"] {
            assert!(text(call, 12).contains("memlock"), "{}", text(call, 12));
        }
        assert!(text("ibv_modify_qp", 110).contains("--gid-index"));
        assert!(text("ibv_open_device", 13).starts_with("ibv_open_device on mlx5_0 failed"));
        assert!(!text("ibv_alloc_pd", 5).contains(';'));
    }
}
