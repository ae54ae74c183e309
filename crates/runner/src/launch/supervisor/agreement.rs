//! Whether all ranks use the same version of NCCL.
//! Not whether they have joined (`timeouts`).

use std::collections::BTreeMap;

use busbw_ffi::nccl::Version;

use super::Launch;
use busbw_job::naming;

impl Launch<'_> {
    /// The message about ranks with different NCCLs: within NCCL they would fail with a less clear one.
    pub(super) fn disagreement(&self) -> Option<String> {
        let versions = self.facts.iter().enumerate().flat_map(|(rank_thread, facts)| {
            let version = facts.as_ref().map_or(0, |facts| facts.nccl);
            self.plan.ranks_of(rank_thread).map(move |rank| (rank, version))
        });
        differing(versions, &self.describe.run.machine.host)
    }
}

/// None if all known versions are equal; 0 is unknown.
fn differing(versions: impl Iterator<Item = (usize, u32)>, host: &str) -> Option<String> {
    let mut ranks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (rank, version) in versions.filter(|(_, version)| *version > 0) {
        ranks.entry(version).or_default().push(rank);
    }
    if ranks.len() < 2 {
        return None;
    }
    let mut groups: Vec<(u32, Vec<usize>)> = ranks.into_iter().collect();
    // The smallest group first.
    groups.sort_by_key(|(_, ranks)| ranks.len());
    let words: Vec<String> = groups
        .iter()
        .map(|(version, ranks)| {
            format!("{} on {} ({host})", Version(*version), naming::ranks(ranks))
        })
        .collect();
    Some(format!(
        "ranks use different versions of NCCL: {}; give all of them the same with --nccl PATH or BUSBW_NCCL",
        words.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_is_named_first() {
        let four = [22809, 22809, 22703, 22809].into_iter().enumerate();
        assert_eq!(
            differing(four, "node7").unwrap(),
            "ranks use different versions of NCCL: 2.27.3 on rank 2 (node7), 2.28.9 on ranks 0, 1, 3 (node7); \
             give all of them the same with --nccl PATH or BUSBW_NCCL"
        );
    }

    #[test]
    fn one_version_and_no_version_are_no_difference() {
        assert_eq!(differing([22809, 22809, 0].into_iter().enumerate(), "node7"), None);
        assert_eq!(differing([0, 0].into_iter().enumerate(), "node7"), None);
    }
}
