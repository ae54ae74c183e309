//! The part of a plan that the kind of benchmark decides: each kind has a planner, which returns a [`Part`].
//! Not the ranks, and not how batches are timed.

use busbw_core::{
    Benchmark, DataType,
    alltoallv::Traffic,
    plan::{Calls, Messaging, Osu, Pairing, Step},
    record::Waiver,
};

use super::{
    Asked, BadOption, calls, collectives, gpus, latency, launcher, messages, osu, pairs,
    ranks::Ranks,
    values::{count, names, roots},
    variables,
};
use crate::options::suspicious_options::suspicious_options;

/// First and last size in bytes, and the step between sizes.
pub(super) type Sizes = (u64, u64, Step);
/// Iterations of a batch, timed and untimed, and the rest of the loops.
pub(super) type Loops = (u32, u32, Messaging);

/// What the kind of benchmark decides.
pub(super) struct Part {
    pub(super) sizes: Sizes,
    pub(super) loops: Loops,
    /// Checked operations a row.
    pub(super) check: u32,
    pub(super) datatypes: Vec<DataType>,
    pub(super) roots: Vec<usize>,
    pub(super) traffic: Traffic,
    /// Whether every iteration of a collective is timed alone.
    pub(super) latency: bool,
    pub(super) pairing: Option<Pairing>,
    pub(super) calls: Option<Calls>,
    pub(super) osu: Option<Osu>,
    /// What looks like a mistake.
    pub(super) remarks: Vec<String>,
    /// Options that mean nothing for the kind.
    pub(super) waived: Vec<Waiver>,
}

/// The part of the benchmark that is asked for.
///
/// # Errors
/// An option that the kind cannot use.
pub(super) fn of(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Result<Part, BadOption> {
    match asked.benchmark {
        _ if let Some(osu) = &asked.arguments.osu => osu::part(asked, ranks, osu),
        Benchmark::Messages(test) => messages::part(asked, ranks, test),
        Benchmark::Pairs => pairs::part(asked, ranks),
        Benchmark::Replay => calls::part(asked, ranks),
        Benchmark::Collective(collective) if latency::is_asked(collective, asked.arguments) => {
            latency::part(asked, ranks, collective)
        }
        Benchmark::Collective(collective) => collectives::part(asked, ranks, collective),
    }
}

impl Part {
    /// The part as nccl-tests' and busbw's own options say it; kinds change what is theirs.
    ///
    /// # Errors
    /// `-c`, `-d` or `-r` cannot be used.
    pub(super) fn of_options(
        asked: &Asked<'_>,
        ranks: &Ranks<'_>,
        sizes: Sizes,
        loops: Loops,
        traffic: Traffic,
    ) -> Result<Part, BadOption> {
        let a = asked.arguments;
        let usual = match asked.benchmark {
            Benchmark::Collective(_) | Benchmark::Replay => DataType::Float,
            Benchmark::Messages(_) | Benchmark::Pairs => DataType::Int8,
        };
        let mut remarks = suspicious_options(
            a,
            asked.benchmark,
            &traffic,
            ranks.count(),
            crowding(asked, ranks),
            sizes,
        );
        remarks.extend(gpus::absence(asked).map(|why| {
            format!(
                "no GPU is used, since {why}: this measures memory of this machine (--backend host)"
            )
        }));
        let smallest = variables::smallest_group(&ranks.colours, ranks.count());
        Ok(Part {
            sizes,
            loops,
            check: count("-c", a.check, 1, 0, 1 << 30)? as u32,
            datatypes: names(
                "-d",
                a.datatype.as_deref(),
                usual,
                &DataType::ALL,
                DataType::name,
                DataType::from_spelling,
            )?,
            roots: roots(a.root.as_deref(), smallest)?,
            traffic,
            latency: false,
            pairing: None,
            calls: None,
            osu: None,
            remarks,
            waived: messages::waived(asked.benchmark, a),
        })
    }
}

/// The remark that ranks share what they run on. A launcher that a backend needs has assigned processors itself. One that
/// binds has given this process cores of its own: its ranks alone share them.
pub(super) fn crowding(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Option<String> {
    let launched = asked.environment.launched.as_ref();
    let resources = asked.host_resources;
    let is_bound = launched.is_some() && resources.cores < resources.cores_of_parent;
    let here = match ranks.gpus {
        None if is_bound => ranks.each(),
        _ => launcher::ranks_here(launched, ranks.each()),
    };
    let crowding = gpus::crowding(ranks.gpus, resources.cores, is_bound, here);
    crowding.filter(|_| !ranks.backend.spec().needs_launcher)
}
