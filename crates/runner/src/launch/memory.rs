//! The memory cap: nccl-tests' formula over the memory that this machine, or the control group, has left.
//! Not allocation.

use anyhow::Result;
use busbw_core::{
    exit::{Exit, ExitError},
    plan::Plan,
};

use crate::backend::Capacity;

const GIB: u64 = 1 << 30;

/// Lowers the plan's sizes to what every memory allows and returns the new last size, if it changed.
///
/// nccl-tests keeps 1 GiB for every 16 GiB, at most 4, and 1 more for the rest, then divides by 3
/// buffers (2 without checks): src/common.cu:1537-1546. Here messages have 2, too; ranks that share one
/// memory divide it; and the reserve is at most half, where theirs goes below zero.
///
/// # Errors
/// When not even the smallest size fits.
pub(super) fn cap(plan: &mut Plan, capacities: &[Capacity], host: &str) -> Result<Option<u64>> {
    let mut reduced = None;
    for memory in capacities {
        let most = most_bytes(memory.bytes, memory.ranks, plan.has_check_buffer());
        if plan.calls.is_some() {
            fits(plan, most, host)?;
            continue;
        }
        reduced = lower(plan, most, memory.bytes, host)?.or(reduced);
    }
    Ok(reduced)
}

/// Refuses a job's calls whose largest ones need more than `most` bytes of buffers: their sizes are given.
fn fits(plan: &Plan, most: u64, host: &str) -> Result<()> {
    let of_partitions = plan.partitions().into_iter().map(|one| plan.of_partition(one).max_bytes);
    let needed = of_partitions.fold(plan.max_bytes, u64::saturating_add);
    if needed <= most {
        return Ok(());
    }
    let text = format!(
        "the largest calls of the trace need buffers of {needed} bytes a rank, and memory on {host} allows {most}: replay fewer of its calls (--calls, --span), or fewer ranks a host"
    );
    Err(ExitError::new(Exit::Impossible, text).into())
}

/// Lowers the plan's sizes to `most` bytes.
fn lower(plan: &mut Plan, most: u64, memory: u64, host: &str) -> Result<Option<u64>> {
    let most = most / plan.messages_a_buffer().max(1) as u64;
    if plan.max_bytes <= most {
        return Ok(None);
    }
    if most < 4096 {
        let text = format!(
            "{} ranks do not fit into the {memory} bytes of memory available on {host}: use fewer ranks (-g, -t)",
            plan.ranks()
        );
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    plan.max_bytes = most;
    plan.min_bytes = plan.min_bytes.min(most);
    if let Err(error) = plan.traffic.check(plan.ranks(), plan.min_bytes, plan.max_bytes) {
        let text = format!("memory allows {most} bytes a buffer: {error}");
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    Ok(Some(most))
}

fn most_bytes(memory: u64, ranks: u64, proof: bool) -> u64 {
    let reserve = memory.div_ceil(16 * GIB).saturating_mul(GIB).min(4 * GIB) + GIB;
    let left = memory - reserve.min(memory / 2);
    left / ranks.max(1) / if proof { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_formula_divided_by_ranks() {
        // 141 GiB, one rank: min(9, 4) + 1 GiB kept, a third of the rest.
        assert_eq!(most_bytes(141 * GIB, 1, true), 136 * GIB / 3);
        assert_eq!(most_bytes(24 * GIB, 2, false), 21 * GIB / 4);
        // Where theirs goes below zero, half is left.
        assert_eq!(most_bytes(GIB, 2, true), GIB / 2 / 6);
        assert_eq!(most_bytes(0, 2, true), 0);
    }
}
