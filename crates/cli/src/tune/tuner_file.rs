//! From what is best for each call to the file of a tuner, and back to what to set for it.
//! Not the file's form (`busbw_tuner_file`), and not what it does in NCCL (docs/tuner.md).

use std::path::Path;

use anyhow::{Context, Result};
use busbw_runner::backend::nccl::tuner;
use busbw_store as store;
use busbw_tune::{Assignment, AtCall, Choice};
use busbw_tuner_file::{Algorithm, Collective, Entry, Protocol, Reference, TunerFile, offered};

use super::by_call::Chosen;

/// The communicator for which a file chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Communicator {
    pub(super) ranks: u32,
    /// `None` where NCCL's log does not say.
    pub(super) nodes: Option<u32>,
}

/// NCCL's collective of a benchmark; `None` where no tuner is asked.
pub(super) fn collective(benchmark: &str) -> Option<Collective> {
    let word: String = benchmark.chars().filter(|letter| *letter != '_').collect();
    Collective::of_word(&word)
}

/// Algorithm and protocol of a name such as `RING_SIMPLE`.
fn pair(name: &str) -> Option<(Algorithm, Protocol)> {
    let (algorithm, protocol) = name.rsplit_once('_')?;
    let algorithm = match algorithm {
        "NVLSTREE" => "nvls_tree".to_owned(),
        other => other.to_ascii_lowercase(),
    };
    Some((Algorithm::of_word(&algorithm)?, Protocol::of_word(&protocol.to_ascii_lowercase())?))
}

/// Whether NCCL has an algorithm such as `RING_SIMPLE` for one of these benchmarks on any machine.
pub(super) fn is_offered(name: &str, benchmarks: &[&str]) -> bool {
    let collectives = benchmarks.iter().filter_map(|benchmark| collective(benchmark));
    pair(name).is_some_and(|(algorithm, protocol)| {
        collectives.into_iter().any(|collective| offered(collective, algorithm, protocol))
    })
}

/// The file of these choices. Between two sizes that were measured a choice reaches to their geometric mean; before the first and
/// behind the last size nothing is chosen.
pub(super) fn of_choices(choices: &[Choice], communicator: Communicator) -> TunerFile {
    let mut entries: Vec<Entry> = Vec::new();
    let mut operations: Vec<&str> = choices.iter().map(|one| one.call.operation.as_str()).collect();
    operations.dedup();
    for operation in operations {
        let own: Vec<&Choice> =
            choices.iter().filter(|one| one.call.operation == operation).collect();
        for (place, choice) in own.iter().enumerate() {
            let size = choice.call.size;
            let middle = |a: u64, b: u64| ((a as f64) * (b as f64)).sqrt() as u64;
            let before = place.checked_sub(1).map(|place| own[place].call.size);
            let behind = own.get(place + 1).map(|next| next.call.size);
            let least = before.map_or(size, |before| middle(before, size) + 1);
            let most = behind.map_or(size, |behind| middle(size, behind));
            let Some(entry) = entry(choice, communicator, least, most) else { continue };
            match entries.last_mut() {
                Some(last) if last.most_bytes + 1 == least && is_alike(last, &entry) => {
                    last.most_bytes = most;
                }
                _ => entries.push(entry),
            }
        }
    }
    TunerFile { entries }
}

fn entry(choice: &Choice, communicator: Communicator, least: u64, most: u64) -> Option<Entry> {
    let chosen = Chosen::of(&choice.environment);
    let (algorithm, protocol) = pair(chosen.algorithm.as_deref()?)?;
    let collective = collective(&choice.call.operation)?;
    let nodes = communicator.nodes;
    let channels = chosen.channels.and_then(|channels| u8::try_from(channels).ok());
    Some(Entry {
        collective,
        least_bytes: least,
        most_bytes: most,
        algorithm,
        protocol,
        channels: channels.filter(|_| !algorithm.takes_any_channels(nodes)),
        nodes,
        ranks: Some(communicator.ranks),
        pipe_ops: None,
    })
}

/// Whether two lines choose alike for neighbouring sizes.
fn is_alike(one: &Entry, other: &Entry) -> bool {
    let sizes = (other.least_bytes, other.most_bytes);
    Entry { least_bytes: sizes.0, most_bytes: sizes.1, ..*one } == *other
}

/// The file without the lines of sizes at which the whole was slower than the defaults.
pub(super) fn without_losses(file: &TunerFile, calls: &[AtCall]) -> TunerFile {
    let is_lost = |entry: &Entry| {
        calls.iter().filter(|at| at.compared.is_loss()).any(|at| {
            collective(&at.call.operation) == Some(entry.collective)
                && (entry.least_bytes..=entry.most_bytes).contains(&at.call.size)
        })
    };
    TunerFile { entries: file.entries.iter().filter(|entry| !is_lost(entry)).copied().collect() }
}

/// Writes a file.
///
/// # Errors
/// The path cannot be written.
pub(super) fn write(file: &TunerFile, path: &Path) -> Result<()> {
    store::write_private(path, file.to_string().as_bytes())
        .with_context(|| format!("cannot write the tuner's file {}", path.display()))
}

/// What to set so that NCCL chooses by the file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn settings(path: &Path) -> Result<Vec<Assignment>> {
    let (reference, _) = tuner::read(path)?;
    Ok(vec![Assignment {
        name: busbw_core::environment::TUNER.to_owned(),
        value: Some(reference.to_string()),
    }])
}

/// The path of the file that these settings name.
///
/// # Errors
/// It is missing, or not the one that was recommended.
pub(super) fn file_of(settings: &[Assignment]) -> Result<Option<String>> {
    let Some(value) = settings.iter().find_map(|one| one.value.as_ref()) else { return Ok(None) };
    tuner::Tuner::of_variable(value, None)?;
    let reference: Reference = value.parse()?;
    Ok(reference.file.to_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use busbw_tune::{
        Call,
        catalogue::{ALGORITHM, CHANNELS},
    };

    use super::*;

    fn choice(size: u64, algorithm: Option<&str>, channels: Option<&str>) -> Choice {
        let set = |name: &str, value: Option<&str>| {
            value.map(|value| Assignment { name: name.to_owned(), value: Some(value.to_owned()) })
        };
        let sets = [set(ALGORITHM, algorithm), set(CHANNELS, channels)];
        Choice {
            call: Call { operation: "all_reduce".to_owned(), size },
            environment: sets.into_iter().flatten().collect(),
            compared: None,
        }
    }

    #[test]
    fn a_choice_reaches_half_way_and_no_farther_than_what_was_measured() {
        let communicator = Communicator { ranks: 16, nodes: Some(2) };
        let choices = [
            choice(1 << 10, Some("TREE_LL"), None),
            choice(1 << 14, Some("TREE_LL"), None),
            choice(1 << 18, None, None),
            choice(1 << 22, Some("RING_SIMPLE"), Some("8")),
            choice(1 << 26, Some("NVLSTREE_SIMPLE"), None),
        ];
        let file = of_choices(&choices, communicator);
        insta::assert_snapshot!(file.to_string(), @r"
        # collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps
        allreduce,1024,65536,tree,ll,0,2,16
        allreduce,1048577,16777216,ring,simple,8,2,16
        allreduce,16777217,67108864,nvls_tree,simple,0,2,16
        ");
        let again = TunerFile::parse(file.to_string().as_bytes()).unwrap();
        assert_eq!(again, file);
    }

    #[test]
    fn an_algorithm_that_nccl_never_has_is_not_offered() {
        assert!(is_offered("TREE_LL", &["all_gather", "all_reduce"]));
        assert!(!is_offered("TREE_LL", &["all_gather"]) && is_offered("RING_LL", &["all_gather"]));
        assert!(!is_offered("RING_LL", &["alltoall"]));
    }
}
