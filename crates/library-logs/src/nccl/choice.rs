//! `… Bytes -> …` of the TUNING subsystem: the algorithm and protocol that NCCL chose for a call.
//! Only rank 0 prints it, once a call.
//! Not a measurement.
//!
//! Formats: NCCL's src/enqueue.cc, src/scheduler/symmetric_sched.cc; a table in docs/nccl_log.md.

use std::{collections::BTreeMap, sync::LazyLock};

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// The most distinct choices that are kept.
const MAX_CHOICES: usize = 4096;

/// A choice, and how many calls it was made for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// NCCL's name of the collective, such as `AllReduce`; 2.20 to 2.22 do not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// Count × size of the type: for AllGather and ReduceScatter, one rank's share.
    pub bytes: u64,
    /// The choice.
    #[serde(flatten)]
    pub execution: Execution,
    /// The time of the tuning model, in microseconds: 2.20 to 2.23 print it. The last one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
    /// Calls.
    pub calls: u64,
}

/// How a call runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "way")]
pub enum Execution {
    /// With an algorithm and a protocol that the tuning model or a tuner plugin chose.
    #[serde(rename = "tuned")]
    Tuned {
        /// TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT.
        algorithm: String,
        /// LL, LL128, SIMPLE.
        protocol: String,
        /// First and last channel; from 2.24 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channels: Option<[u32; 2]>,
        /// Thread block cluster size (CGA); from 2.31 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster_size: Option<u32>,
    },
    /// With a kernel for symmetric memory (2.27 on), without the tuning model.
    #[serde(rename = "Symmetric")]
    Symmetric {
        /// The kernel's name.
        kernel: String,
        /// Channels.
        channels: u32,
        /// Threads of a block.
        threads: u32,
        /// Works in one launch; from 2.28 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        works: Option<u32>,
    },
    /// With the copy engine (2.29 on), without the tuning model.
    #[serde(rename = "Copy Engine")]
    CopyEngine {
        /// The CUDA call.
        call: String,
    },
    /// With copy engines within a node and a proxy between nodes (2.30 on), without the tuning
    /// model.
    #[serde(rename = "Hierarchical CE")]
    HierarchicalCopyEngine {
        /// NCCL's words.
        call: String,
    },
}

/// (collective, bytes, execution)
type Key = (Option<String>, u64, Execution);

/// The choices read so far: calls, and the last prediction.
#[derive(Debug, Default)]
pub(super) struct Choices {
    choices: BTreeMap<Key, (u64, Option<f64>)>,
    left_out: u64,
}

impl Choices {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, text: &str, cut: bool) -> Option<()> {
        static BYTES: LazyLock<Finder> = LazyLock::new(|| Finder::new(" Bytes -> "));
        let head = text.get(..BYTES.find(text.as_bytes())?)?;
        let mut cursor = Cursor::new(text, cut);
        let (mut collective, mut bypass) = (None, None);
        if head.contains(':') {
            let name = cursor.until(": ")?;
            let (name, kind) = name.split_once(" [").map_or((name, None), |(n, k)| (n, Some(k)));
            collective = Some(keep(name));
            bypass = kind;
        }
        let bytes = cursor.number()?;
        cursor.literal(" Bytes -> ")?;
        let (execution, predicted) = match bypass {
            None => tuned(&mut cursor)?,
            Some("Symmetric]") => (symmetric(&mut cursor)?, None),
            Some("Copy Engine]") => (Execution::CopyEngine { call: keep(cursor.text()?) }, None),
            Some("Hierarchical CE]") => {
                (Execution::HierarchicalCopyEngine { call: keep(cursor.text()?) }, None)
            }
            Some(_) => return None,
        };
        self.add((collective, bytes, execution), predicted);
        Some(())
    }

    fn add(&mut self, key: Key, predicted: Option<f64>) {
        if self.choices.len() >= MAX_CHOICES && !self.choices.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let (calls, said) = self.choices.entry(key).or_default();
        *calls += 1;
        *said = predicted;
    }

    /// By collective, then size.
    pub(super) fn finish(self, left_out: &mut u64) -> Vec<Choice> {
        *left_out += self.left_out;
        self.choices
            .into_iter()
            .map(|((collective, bytes, execution), (calls, predicted_us))| Choice {
                collective,
                bytes,
                execution,
                predicted_us,
                calls,
            })
            .collect()
    }
}

fn tuned(cursor: &mut Cursor<'_>) -> Option<(Execution, Option<f64>)> {
    cursor.literal("Algo ")?;
    let algorithm = cursor.word()?;
    cursor.literal(" proto ")?;
    let protocol = cursor.word()?;
    let (mut channels, mut cluster_size, mut predicted) = (None, None, None);
    if cursor.has(" channel{Lo..Hi}={") {
        let low = cursor.number()?;
        channels = Some([low, cursor.field("..")?]);
        cursor.literal("}")?;
        cluster_size = cursor.field(" cgaClusterSize ");
    } else {
        cursor.literal(" time ")?;
        predicted = Some(cursor.decimal()?);
    }
    cursor.end()?;
    let algorithm = name(algorithm, &ALGORITHMS)?;
    let protocol = name(protocol, &["LL", "LL128", "SIMPLE"])?;
    Some((Execution::Tuned { algorithm, protocol, channels, cluster_size }, predicted))
}

/// The meaning of the numbers of 2.20 to 2.23: NCCL's src/include/nccl_common.h.
const ALGORITHMS: [&str; 7] =
    ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"];

/// A name as it is, or the name that belongs to a number.
fn name(said: &str, names: &[&str]) -> Option<String> {
    match said.parse::<usize>() {
        Ok(number) => names.get(number).map(|&name| name.to_owned()),
        Err(_) => Some(keep(said)),
    }
}

fn symmetric(cursor: &mut Cursor<'_>) -> Option<Execution> {
    cursor.literal("Kernel ")?;
    let kernel = keep(cursor.word()?);
    let channels = cursor.field(" nchannels ")?;
    let threads = cursor.field(" nthreads ")?;
    let works = cursor.field(" nWorks ");
    cursor.end()?;
    Some(Execution::Symmetric { kernel, channels, threads, works })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(texts: &[&str]) -> Vec<Choice> {
        let mut choices = Choices::default();
        for text in texts {
            assert!(choices.read(text, false).is_some(), "{text}");
        }
        choices.finish(&mut 0)
    }

    fn ring(channels: Option<[u32; 2]>) -> Execution {
        let (algorithm, protocol) = ("RING".to_owned(), "SIMPLE".to_owned());
        Execution::Tuned { algorithm, protocol, channels, cluster_size: None }
    }

    #[test]
    fn every_generation_of_the_line() {
        let all = choices(&[
            "33554432 Bytes -> Algo 1 proto 2 time 1234.5",
            "AllReduce: 33554432 Bytes -> Algo 1 proto 2 time 1234.500000",
            "AllReduce: 33554432 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..31}",
            "AllReduce: 33554432 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..31}",
            "AllGather [Symmetric]: 4096 Bytes -> Kernel AllGather_LLMC nchannels 8 nthreads 512",
            "AllGather [Symmetric]: 4096 Bytes -> Kernel AllGather_ST nchannels 8 nthreads 512 nWorks 2 cgaClusterSize 8",
            "AllGather [Copy Engine]: 8 Bytes -> cudaMemcpyBatchAsync",
            "AllGather [Hierarchical CE]: 8 Bytes -> RMA proxy + CE",
            "AllGather [Hierarchical CE]: 8 Bytes -> Rail ring RMA proxy + CE",
            "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1} cgaClusterSize 4",
        ]);
        assert_eq!(all[0].collective, None);
        assert_eq!((all[0].predicted_us, all[0].calls), (Some(1234.5), 1));
        assert_eq!(all[0].execution, ring(None));
        let tuned: Vec<_> = all.iter().filter(|c| c.execution == ring(Some([0, 31]))).collect();
        assert_eq!((tuned.len(), tuned[0].calls, tuned[0].bytes), (1, 2, 33_554_432));
        let works: Vec<_> = all
            .iter()
            .filter_map(|c| match &c.execution {
                Execution::Symmetric { works, .. } => Some(*works),
                _ => None,
            })
            .collect();
        assert_eq!(works, [None, Some(2)]);
        let clusters: Vec<_> = all
            .iter()
            .filter_map(|c| match &c.execution {
                Execution::Tuned { cluster_size: Some(size), .. } => Some(*size),
                _ => None,
            })
            .collect();
        assert_eq!((all.len(), clusters), (9, vec![4]));
        let json = serde_json::to_string(&all).expect("choices are JSON");
        assert_eq!(serde_json::from_str::<Vec<Choice>>(&json).expect("and back"), all);
    }

    #[test]
    fn numbers_without_a_name_and_unknown_ways_are_not_read() {
        let mut choices = Choices::default();
        for text in [
            "8 Bytes -> Algo 9 proto 2 time 1.0",
            "AllReduce [Magic]: 8 Bytes -> x",
            "x Bytes -> Algo RING",
            "AllReduce: 8 Bytes -> Algo RING proto SIMPLE",
        ] {
            assert_eq!(choices.read(text, false), None, "{text}");
        }
        assert_eq!(
            choices.read("AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}n", true),
            Some(())
        );
        assert_eq!(choices.read("8 Bytes -> Algo 1 proto 2 time 1.0", true), None);
    }
}
