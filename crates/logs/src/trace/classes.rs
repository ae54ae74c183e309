//! What a trace adds up to: its classes of calls, and the mix of sizes by which a search weighs.
//! Not the calls themselves (`call`).

use std::collections::{BTreeMap, HashMap};

use busbw_core::{Collective, DataType, ReduceOp, alltoallv::Traffic};
use busbw_stats::median;
use serde::Serialize;

use super::call::{Call, Operation, Trace};

/// Calls that are alike: operation, type, size, operator and number of ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Class {
    /// What was called.
    pub operation: Operation,
    /// Element type, where the source has it.
    pub datatype: Option<DataType>,
    /// Bytes as in busbw's size column ([`Call::bytes`]).
    pub bytes: u64,
    /// The operator, where there is one and the source has it.
    #[serde(rename = "redop")]
    pub op: Option<ReduceOp>,
    /// Ranks of the communicator; of a message the two ends.
    pub ranks: u32,
    /// Communicators with such calls.
    pub communicators: usize,
    /// Calls of the rank that made the most: what several ranks do together, or communicators of other ranks do beside it,
    /// counts once.
    pub calls: u64,
    /// `calls` × `bytes`, as a share of that of all classes.
    pub share: f64,
    /// The median time from the call before, of any class, to one of these, start to start, microseconds; absent where the
    /// source has no times.
    pub gap_us: Option<f64>,
    /// The median time on the device, microseconds; absent where the source has none.
    pub took_us: Option<f64>,
}

/// The sizes of one collective with which a job calls it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mix {
    /// The collective.
    pub collective: Collective,
    /// Bytes as in busbw's size column, ascending, and calls of the rank that made the most. A size is that of the row which
    /// busbw measures for it ([`Class::row_bytes`]).
    pub sizes: Vec<(u64, f64)>,
}

impl Mix {
    /// At most so many sizes (one at least): those within a part of an octave, or of several, become the one of them with
    /// the most calls, which gets the calls of all. The parts are as small as the number allows.
    #[must_use]
    pub fn at_most(&self, sizes: usize) -> Mix {
        let mut parts_per_octave = 8.0;
        while self.sizes.len() > sizes.max(1) && parts_per_octave > 1.0 / 128.0 {
            let mut merged: BTreeMap<u64, ((u64, f64), f64)> = BTreeMap::new();
            for (size, calls) in &self.sizes {
                let part = ((*size as f64).log2() * parts_per_octave) as u64;
                let (most, all) = merged.entry(part).or_insert(((*size, *calls), 0.0));
                *all += calls;
                if *calls >= most.1 {
                    *most = (*size, *calls);
                }
            }
            if merged.len() <= sizes.max(1) {
                let sizes = merged.into_values().map(|((size, _), all)| (size, all)).collect();
                return Mix { collective: self.collective, sizes };
            }
            parts_per_octave /= 2.0;
        }
        self.clone()
    }
}

impl Class {
    /// The size of the row that is this operation; `None` of a message, and where a rank's share is too small for a row:
    /// busbw, like nccl-tests, rounds shares down to 16 bytes.
    pub fn row_bytes(&self) -> Option<u64> {
        let collective = self.operation.collective()?;
        let element = self.datatype.map_or(1, DataType::bytes);
        let bytes = usize::try_from(self.bytes).ok()?;
        let counts = collective.counts(bytes, element, self.ranks as usize, &Traffic::default());
        Some(counts.bytes(element) as u64).filter(|bytes| *bytes > 0)
    }
}

/// What calls of a class have in common.
type Alike = (Operation, Option<DataType>, u64, Option<ReduceOp>, u32);

#[derive(Default)]
struct Adding<'a> {
    /// Calls of each communicator.
    of: BTreeMap<usize, u64>,
    /// Messages of each rank.
    messages: HashMap<usize, u64>,
    calls: Vec<&'a Call>,
}

impl Trace {
    /// The classes, those with the largest share of bytes first.
    pub fn classes(&self) -> Vec<Class> {
        let mut alike: HashMap<Alike, Adding<'_>> = HashMap::new();
        for call in &self.calls {
            let ranks = match call.operation {
                Operation::Message => 2,
                Operation::Collective(_) => {
                    self.communicators.get(call.communicator).map_or(0, |one| one.ranks)
                }
            };
            let class = (call.operation, call.datatype, call.bytes, call.redop, ranks);
            let adding = alike.entry(class).or_default();
            *adding.of.entry(call.communicator).or_default() += 1;
            if call.operation == Operation::Message {
                for end in [Some(call.reporter), call.other_end].into_iter().flatten() {
                    *adding.messages.entry(end).or_default() += 1;
                }
            }
            adding.calls.push(call);
        }
        let mut classes: Vec<Class> =
            alike.into_iter().map(|(class, adding)| self.class(class, &adding)).collect();
        let volume = |class: &Class| class.calls as f64 * class.bytes as f64;
        let all: f64 = classes.iter().map(volume).sum();
        for class in &mut classes {
            class.share = if all > 0.0 { volume(class) / all } else { 0.0 };
        }
        let name = |class: &Class| {
            let datatype = class.datatype.map_or("", DataType::name);
            let op = class.op.map_or("", ReduceOp::name);
            (class.operation.name(), class.bytes, datatype, op, class.ranks)
        };
        classes.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| name(a).cmp(&name(b))));
        classes
    }

    fn class(&self, class: Alike, adding: &Adding<'_>) -> Class {
        let (operation, datatype, bytes, op, ranks) = class;
        let mut of_rank = adding.messages.clone();
        if operation != Operation::Message {
            for (communicator, calls) in &adding.of {
                // Every rank of a communicator takes part in each of its collectives.
                for rank in self.members.get(*communicator).into_iter().flatten() {
                    *of_rank.entry(*rank).or_default() += calls;
                }
            }
        }
        let figure = |of: fn(&Call) -> Option<f64>| {
            median(&adding.calls.iter().filter_map(|call| of(call)).collect::<Vec<_>>())
        };
        Class {
            operation,
            datatype,
            bytes,
            op,
            ranks,
            communicators: adding.of.len(),
            calls: of_rank.into_values().max().unwrap_or_default(),
            share: 0.0,
            gap_us: figure(|call| call.gap_us),
            took_us: figure(|call| call.took_us),
        }
    }

    /// The mix of each collective, by which a search weighs its sizes. Messages between two ranks have none, and calls that
    /// are too small for a row.
    pub fn mix(&self) -> Vec<Mix> {
        let mut all: BTreeMap<&'static str, (Collective, BTreeMap<u64, f64>)> = BTreeMap::new();
        for class in self.classes() {
            if let (Some(collective), Some(bytes)) =
                (class.operation.collective(), class.row_bytes())
            {
                let (_, sizes) =
                    all.entry(collective.name()).or_insert_with(|| (collective, BTreeMap::new()));
                *sizes.entry(bytes).or_default() += class.calls as f64;
            }
        }
        let mix = all.into_values();
        mix.map(|(collective, sizes)| Mix { collective, sizes: sizes.into_iter().collect() })
            .collect()
    }
}
