//! Which communicators of two sources are one, and who are its members that say nothing themselves.
//! Not how far they came (`recorder`, `watch`, `ras`).

use std::collections::{BTreeSet, HashMap};

use super::evidence::{Evidence, Group, Member, Source};

/// NCCL's hash of a communicator without the form of its source.
pub(super) fn hash(id: &str) -> String {
    let id = id.split(' ').next().unwrap_or_default();
    id.trim_start_matches("0x").trim_start_matches('0').to_ascii_lowercase()
}

/// Names members of the profiler's communicators that wrote nothing of it: by RAS, or where the communicator has as many ranks as the job and
/// all who wrote have their rank of the job in it.
pub(super) fn fill(evidence: &mut Evidence) {
    for at in 0..evidence.groups.len() {
        let Some(group) = evidence.groups.get(at).filter(|one| one.source == Source::Watch) else {
            continue;
        };
        let ranks = group.ranks.unwrap_or_default();
        let whole = is_whole(group, ranks, evidence);
        let id = hash(&group.id);
        let missing = (0..ranks).filter(|rank| !group.members.contains_key(rank));
        // A file may claim any number of ranks.
        let missing: Vec<u32> = missing.take(evidence.processes.len()).collect();
        for rank in missing {
            let by_rank = || evidence.known_rank(rank).filter(|_| whole);
            let Some(process) = evidence.of_member(&id, rank).or_else(by_rank) else { continue };
            if let Some(group) = evidence.groups.get_mut(at) {
                group.members.insert(rank, Member { process, progress: None });
            }
        }
    }
}

/// Whether a rank of the job is the same rank of the communicator, by all that is known.
fn is_whole(group: &Group, ranks: u32, evidence: &Evidence) -> bool {
    let of_job = |at: usize| evidence.processes.get(at).and_then(|one| one.rank);
    !group.members.is_empty()
        && group.members.iter().all(|(rank, member)| of_job(member.process) == Some(*rank))
        && evidence.processes.iter().all(|one| one.rank.is_none_or(|rank| rank < ranks))
}

/// Notes which groups are one communicator: those of NCCL's hash, and a group of PyTorch's whose processes are those of one communicator alone.
pub(super) fn join(evidence: &mut Evidence) {
    let groups = &evidence.groups;
    let mut first: Vec<usize> = (0..groups.len()).collect();
    let mut by_hash: HashMap<(Source, String), Vec<usize>> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        if matches!(group.source, Source::Watch | Source::Ras) {
            by_hash.entry((group.source, hash(&group.id))).or_default().push(at);
        }
    }
    // RAS may know two of one hash.
    for ((source, hash), all) in &by_hash {
        let others = by_hash.get(&(Source::Ras, hash.clone()));
        if let (Source::Watch, [own], Some([other])) = (source, &all[..], others.map(Vec::as_slice))
        {
            let least = (*own).min(*other);
            first[*own] = least;
            first[*other] = least;
        }
    }
    let processes = |group: &Group| -> BTreeSet<usize> {
        group.members.values().map(|member| member.process).collect()
    };
    let mut by_processes: HashMap<BTreeSet<usize>, (Vec<usize>, BTreeSet<usize>)> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        let (recorded, of_nccl) = by_processes.entry(processes(group)).or_default();
        match group.source {
            Source::FlightRecorder => recorded.push(at),
            Source::Watch | Source::Ras => {
                of_nccl.insert(first[at]);
            }
            Source::Log => {}
        }
    }
    for (recorded, of_nccl) in by_processes.values() {
        let mut of_nccl = of_nccl.iter();
        if let ([own], Some(other), None) = (&recorded[..], of_nccl.next(), of_nccl.next()) {
            let least = (*own).min(*other);
            for one in &mut first {
                if *one == *own || *one == *other {
                    *one = least;
                }
            }
        }
    }
    for (group, first) in evidence.groups.iter_mut().zip(first) {
        group.communicator = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_same_in_every_form() {
        for id in ["00fcbe3035a219e3", "0xfcbe3035a219e3", "0xFCBE3035A219E3 0x1:0x2"] {
            assert_eq!(hash(id), "fcbe3035a219e3", "{id}");
        }
    }
}
