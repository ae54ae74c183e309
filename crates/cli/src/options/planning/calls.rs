//! The part of a replay: which of a trace's calls are run, and which options mean nothing.
//! Not reading the trace (`trace_classes`), and not running them (`busbw_runner`).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use busbw_core::{
    Collective, DataType, ReduceOp,
    alltoallv::Traffic,
    plan::{BackendSpec, CallClass, Calls, LeftOut, Messaging, Partition, Step},
    quantity,
};
use busbw_logs::trace::{Call, Spacing, Trace};
use busbw_stats::median;

use super::{
    Asked, BadOption, BenchArguments,
    part::Part,
    ranks::Ranks,
    values::{count, is_on},
};
use crate::{options::replaying::ReplayArguments, trace_classes};

/// The most classes: each is warmed up and verified by itself.
const MAX_CLASSES: usize = 64;
/// Bytes of a buffer where all ranks together make no call.
const SMALLEST: u64 = 16;
/// The longest gap that is waited for, microseconds: a job that loads data or saves its state for a minute does not talk.
const LONGEST_GAP_US: f64 = 1e6;

/// The part of a replay.
///
/// # Errors
/// An option that it cannot use, or a trace without a call that can be run here.
pub(super) fn part(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Result<Part, BadOption> {
    let a = asked.arguments;
    refuse(a)?;
    let Some(replaying) = &a.replaying else {
        return Err(BadOption::new("replay needs a trace"));
    };
    if !ranks.colours.is_empty() {
        return Err(BadOption::new(
            "the trace says which ranks have a communicator: unset NCCL_TESTS_SPLIT",
        ));
    }
    let paths: Vec<PathBuf> = a.words.iter().map(PathBuf::from).collect();
    let trace =
        trace_classes::read(&paths).map_err(|error| BadOption::new(format!("{error:#}")))?;
    let here = Here { ranks: ranks.count(), backend: ranks.backend.spec() };
    let (calls, remarks) = calls(&trace, &here, replaying)?;
    let of_all = calls.classes.iter().filter(|class| class.partition.is_none());
    let most = of_all.map(|class| class.bytes).max().unwrap_or(SMALLEST);
    let loops = (1, count("-w", a.warmup, 1, 0, 1 << 30)? as u32, Messaging::default());
    let mut part =
        Part::of_options(asked, ranks, (most, most, Step::Bytes(0)), loops, Traffic::default())?;
    part.remarks.extend(remarks);
    Ok(Part { calls: Some(calls), ..part })
}

/// Refuses what the trace decides, and forms of timing that a sequence does not have.
fn refuse(a: &BenchArguments) -> Result<(), BadOption> {
    let trace = "the trace says what is called";
    let alone = "every call of a sequence is waited for and timed by itself";
    for (option, given, why) in [
        ("-b", a.min_bytes.is_some(), trace),
        ("-e", a.max_bytes.is_some(), trace),
        ("-i", a.step_bytes.is_some(), trace),
        ("-f", a.step_factor.is_some(), trace),
        ("-d", a.datatype.is_some(), trace),
        ("-o", a.op.is_some(), trace),
        ("-r", a.root.is_some(), trace),
        ("-n", a.iterations.is_some(), "--batches counts passes over the calls"),
        ("-m", a.aggregated.is_some_and(|fused| fused > 1), alone),
        ("-z", a.blocking.is_some_and(|value| value != 0), alone),
        ("-G", a.graph.is_some_and(|value| value != 0), alone),
        ("-I", a.per_iteration.is_some_and(|value| value != 0), alone),
        ("-C", is_on(a.cpu_time), alone),
        (
            "-a",
            a.average.is_some_and(|value| value != 1),
            "a call's time is that of the rank that waited for nobody",
        ),
        ("--latency", a.latency, alone),
        (
            "-N",
            a.cycles.is_some_and(|cycles| cycles != 1),
            "--batches counts passes over the calls",
        ),
    ] {
        if given {
            return Err(BadOption::new(format!("{option} is not for replay: {why}: leave it out")));
        }
    }
    Ok(())
}

/// The ranks that are to make the calls.
struct Here {
    ranks: usize,
    backend: &'static BackendSpec,
}

/// The calls of a trace that the ranks here make, and remarks about them.
///
/// # Errors
/// There is none.
fn calls(
    trace: &Trace,
    here: &Here,
    asked: &ReplayArguments,
) -> Result<(Calls, Vec<String>), BadOption> {
    let all = trace.sequence();
    let gaps = gaps(&all, asked.no_gaps);
    let from = all.len() - last(&gaps, asked);
    let last = all.get(from..).unwrap_or_default();
    let gaps = gaps.get(from..).unwrap_or_default();
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    let kinds = kinds(trace, last, here);
    let (mut assumed, mut moved) = (BTreeSet::new(), false);
    let (mut calls, mut times) = (Calls::default(), Vec::new());
    let (mut gap, mut cut) = (0.0, 0_u64);
    for (nth, (call, own)) in last.iter().zip(gaps).enumerate() {
        // Before the first one there is nothing to wait for.
        let own = if nth > 0 { *own } else { 0.0 };
        cut += u64::from(own > LONGEST_GAP_US);
        gap += own.min(LONGEST_GAP_US);
        let kind = kind(trace, call, here).and_then(|kind| match kinds.contains(&kind) {
            true => Ok(kind),
            false => Err(format!("{MAX_CLASSES} kinds of calls with more bytes are replayed")),
        });
        let class = match kind {
            Ok(kind) => kind,
            Err(reason) => {
                *left_out.entry(reason).or_default() += 1;
                continue;
            }
        };
        if let Some(partition) = class.partition
            && spacing(trace, call) == Spacing::Unknown
        {
            assumed.insert(partition.ranks);
        }
        let neighbours = [Spacing::Unknown, Spacing::Even(1)];
        moved |= class.partition.is_none() && !neighbours.contains(&spacing(trace, call));
        let known = calls.classes.iter().position(|one| *one == class);
        let class = known.unwrap_or_else(|| {
            calls.classes.push(class);
            times.push(Vec::new());
            calls.classes.len() - 1
        });
        if let Some(times) = times.get_mut(class) {
            times.extend(call.took_us);
        }
        // A tenth of a microsecond, so that a record stays short.
        calls.sequence.push((class, (std::mem::take(&mut gap) * 10.0).round() / 10.0));
    }
    let left_out: Vec<LeftOut> =
        left_out.into_iter().map(|(reason, calls)| LeftOut { reason, calls }).collect();
    if calls.sequence.is_empty() {
        return Err(BadOption::new(nothing(&left_out)));
    }
    for (class, times) in calls.classes.iter_mut().zip(&times) {
        class.in_job_us = median(times);
    }
    if let Some((_, first)) = calls.sequence.first_mut() {
        // What was left out before the first call delays nothing.
        *first = 0.0;
    }
    let mut remarks = Vec::new();
    if last.len() < all.len() {
        remarks.push(format!(
            "the last {} of {} are replayed: --calls and --span decide",
            last.len(),
            quantity::count(all.len() as u64, "call")
        ));
    }
    if cut > 0 {
        let gaps = quantity::count(cut, "gap");
        remarks.push(format!("{gaps} of more than a second: a second each is waited for"));
    }
    for ranks in assumed {
        remarks.push(format!(
            "the trace does not say which ranks have communicators of {ranks}: neighbours are taken"
        ));
    }
    if moved {
        remarks.push(format!(
            "communicators of {} whose ranks are not neighbours in the job are all ranks here",
            quantity::count(here.ranks as u64, "rank")
        ));
    }
    if calls.recorded_us() == 0.0 && !asked.no_gaps {
        remarks.push("the trace has no times: calls follow each other".to_owned());
    }
    let (source, of) = (trace.source.name().to_owned(), trace.sequence_of().to_owned());
    Ok((Calls { source, of, left_out, ..calls }, remarks))
}

/// Why no call can be run, with what to do where other ranks would help.
fn nothing(left_out: &[LeftOut]) -> String {
    let reasons: Vec<String> =
        left_out.iter().map(|one| format!("{} ({})", one.reason, one.calls)).collect();
    format!("no call of the trace can be replayed here: {}", reasons.join("; "))
}

/// Microseconds from the start of the call before to each one's own; 0 where the source has no times.
fn gaps(calls: &[&Call], none: bool) -> Vec<f64> {
    let at = |place: Option<usize>| {
        place.filter(|_| !none).and_then(|place| calls.get(place)).and_then(|call| call.at_us)
    };
    let gap = |place: usize| match (at(place.checked_sub(1)), at(Some(place))) {
        (Some(before), Some(now)) => (now - before).max(0.0),
        _ => 0.0,
    };
    (0..calls.len()).map(gap).collect()
}

/// How many calls are replayed, the last ones.
fn last(gaps: &[f64], asked: &ReplayArguments) -> usize {
    let (mut span, mut kept) = (0.0, 0);
    for gap in gaps.iter().rev().take(asked.calls as usize) {
        if kept > 0 && span > asked.span * 1e6 {
            break;
        }
        kept += 1;
        span += gap.min(LONGEST_GAP_US);
    }
    kept
}

/// Why there is no row of a call.
const TOO_SMALL: &str = "a rank's share is below 16 bytes, for which there is no row";

/// The kinds that are run: those with the most bytes.
fn kinds(trace: &Trace, calls: &[&Call], here: &Here) -> Vec<CallClass> {
    let mut all: Vec<(CallClass, u64)> = Vec::new();
    for call in calls {
        let Ok(kind) = kind(trace, call, here) else { continue };
        match all.iter_mut().find(|(one, _)| *one == kind) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(kind.bytes),
            None => all.push((kind, kind.bytes)),
        }
    }
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    all.into_iter().take(MAX_CLASSES).map(|(kind, _)| kind).collect()
}

/// What a call is here.
///
/// # Errors
/// Why it is not made.
fn kind(trace: &Trace, call: &Call, here: &Here) -> Result<CallClass, String> {
    let collective = match call.operation.collective() {
        None => return Err("messages between two ranks".to_owned()),
        Some(Collective::AllToAllV) => {
            return Err("alltoallv, of which the trace has no sizes of pairs".to_owned());
        }
        Some(collective) => collective,
    };
    let partition = partition(trace, call, here)?;
    let ranks = partition.map_or(here.ranks, |partition| partition.ranks);
    let datatype = call.datatype.unwrap_or(DataType::Float);
    let op = call.redop.filter(|_| collective.reduces()).unwrap_or(ReduceOp::Sum);
    let element = datatype.bytes();
    let asked = usize::try_from(call.bytes).map_err(|_| TOO_SMALL)?;
    let bytes = collective.counts(asked, element, ranks, &Traffic::default()).bytes(element) as u64;
    if bytes == 0 {
        return Err(TOO_SMALL.to_owned());
    }
    Ok(CallClass { collective, datatype, op, bytes, partition, in_job_us: None })
}

/// The communicators here that make a call, where that is not the one of all ranks.
///
/// # Errors
/// Why there are none.
fn partition(trace: &Trace, call: &Call, here: &Here) -> Result<Option<Partition>, String> {
    let of = trace.communicators.get(call.communicator).map_or(0, |one| one.ranks as usize);
    if of == here.ranks {
        return Ok(None);
    }
    let communicators = format!("communicators of {}", quantity::count(of as u64, "rank"));
    if of < 2 || of > here.ranks {
        return Err(format!("{communicators}, where there are {} here", here.ranks));
    }
    let stride = match spacing(trace, call) {
        Spacing::Unknown => 1,
        Spacing::Even(stride) => stride as usize,
        Spacing::Uneven => {
            return Err(format!("{communicators} that no even split of the job has"));
        }
    };
    let partition = Partition { ranks: of, stride };
    if !partition.divides(here.ranks) {
        let apart = if stride > 1 { format!(", {stride} apart") } else { String::new() };
        let why = format!("the {} here cannot be split so", here.ranks);
        return Err(format!("{communicators}{apart}: {why}"));
    }
    if !here.backend.several_communicators {
        let name = here.backend.name;
        return Err(format!("{communicators} of {}: --backend {name} has one of all", here.ranks));
    }
    Ok(Some(partition))
}

/// Which ranks of the job a call's communicator has.
fn spacing(trace: &Trace, call: &Call) -> Spacing {
    trace.communicators.get(call.communicator).map_or(Spacing::Unknown, |one| one.spacing)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use busbw_core::plan::{BackendChoice, GpuOptions};
    use busbw_logs::trace::Reader;

    use super::*;

    const ALL: ReplayArguments = ReplayArguments { calls: 4096, span: 5.0, no_gaps: false };

    /// So many ranks on GPUs.
    fn here(ranks: usize) -> Here {
        Here { ranks, backend: BackendChoice::Nccl(GpuOptions::default()).spec() }
    }

    /// Calls of NCCL's log: operation, count, ranks of its communicator.
    fn log(calls: &[(&str, u64, u32)]) -> Trace {
        let line = |(operation, count, ranks): &(&str, u64, u32)| {
            format!(
                "h:1:1 [0] NCCL INFO {operation}: opCount 0 sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 op 0 root 1 comm 0x{ranks} [nranks={ranks}] stream 0x1\n"
            )
        };
        read(&calls.iter().map(line).collect::<String>())
    }

    /// Calls of a recorder's dump: elements, and microseconds since the first.
    fn dump(calls: &[(u64, u64)]) -> Trace {
        let entry = |(number, (elements, at)): (usize, &(u64, u64))| {
            serde_json::json!({
                "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
                "profiling_name": "nccl:all_reduce", "time_created_ns": 1000 * at, "duration_ms": 0.5,
                "input_sizes": [[elements]], "input_dtypes": ["Float"],
                "output_sizes": [[elements]], "output_dtypes": ["Float"],
            })
        };
        let entries: Vec<_> = calls.iter().enumerate().map(entry).collect();
        let group = serde_json::json!({"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}});
        let dump = serde_json::json!({"version": "2.10", "pg_config": group, "entries": entries});
        read(&dump.to_string())
    }

    fn read(text: &str) -> Trace {
        let mut reader = Reader::default();
        reader.read(&mut Cursor::new(text), "a trace").expect("a trace");
        reader.finish().expect("calls")
    }

    #[test]
    fn each_kind_is_a_class_or_has_a_reason() {
        let trace = log(&[
            ("AllReduce", 1024, 2),
            ("AllGather", 1024, 2),
            ("AllGather", 1, 2),
            ("AllReduce", 64, 8),
            ("Send", 16, 2),
            ("AllReduce", 1024, 2),
        ]);
        let (calls, remarks) = calls(&trace, &here(2), &ALL).expect("calls");
        let class = |class: &CallClass| format!("{} {}", class.collective.name(), class.bytes);
        let classes: Vec<String> = calls.classes.iter().map(class).collect();
        assert_eq!(classes, ["all_reduce 4096", "all_gather 8192"]);
        assert_eq!(calls.sequence, [(0, 0.0), (1, 0.0), (0, 0.0)]);
        let left: Vec<(&str, u64)> =
            calls.left_out.iter().map(|left| (left.reason.as_str(), left.calls)).collect();
        assert_eq!(
            left,
            [
                (TOO_SMALL, 1),
                ("communicators of 8 ranks, where there are 2 here", 1),
                ("messages between two ranks", 1)
            ]
        );
        assert_eq!(remarks, ["the trace has no times: calls follow each other"]);
    }

    /// Two pairs of neighbours, two pairs that are two apart, and all: as tensor and data parallelism have them.
    #[test]
    fn communicators_of_some_of_the_ranks_split_those_that_are_here() {
        let entry = |group: &str, elements: u64| {
            serde_json::json!({
                "process_group": [group, ""], "collective_seq_id": elements, "p2p_seq_id": 0,
                "profiling_name": "nccl:all_reduce", "time_created_ns": 1000,
                "input_sizes": [[elements]], "input_dtypes": ["Float"],
                "output_sizes": [[elements]], "output_dtypes": ["Float"],
            })
        };
        let group = |ranks: &str| serde_json::json!({"name": "", "desc": "", "ranks": ranks});
        let dump = serde_json::json!({
            "version": "2.10",
            "pg_config": {"1": group("[0, 1]"), "2": group("[0, 2]"), "3": group("[0, 1, 3]")},
            "entries": [entry("1", 64), entry("2", 64), entry("3", 64)],
        });
        let trace = read(&dump.to_string());
        let partitions = |here: &Here| {
            let (calls, remarks) = calls(&trace, here, &ALL).expect("calls");
            let partitions: Vec<_> = calls.classes.iter().map(|one| one.partition).collect();
            (partitions, calls.left_out, remarks)
        };
        let (found, left, _) = partitions(&here(4));
        let [near, apart] = [1, 2].map(|stride| Some(Partition { ranks: 2, stride }));
        assert_eq!(found, [near, apart]);
        assert_eq!(left[0].reason, "communicators of 3 ranks that no even split of the job has");
        // Two ranks are all that there are: both kinds are one.
        let (found, left, remarks) = partitions(&here(2));
        let remark =
            "communicators of 2 ranks whose ranks are not neighbours in the job are all ranks here";
        assert_eq!(remarks[0], remark);
        assert_eq!((found.as_slice(), left.len()), ([None].as_slice(), 1));
        let (found, left, _) = partitions(&here(6));
        assert_eq!(found, [near]);
        assert!(left.iter().any(|left| left.reason
            == "communicators of 2 ranks, 2 apart: the 6 here cannot be split so"));
        let host = Here { ranks: 4, backend: BackendChoice::Host.spec() };
        let error = calls(&trace, &host, &ALL).expect_err("none").to_string();
        assert!(error.contains("communicators of 2 ranks of 4: --backend host has one of all"));
    }

    #[test]
    fn where_the_trace_lists_no_ranks_neighbours_are_taken() {
        let trace = log(&[("AllReduce", 64, 2), ("AllReduce", 64, 4)]);
        let (calls, remarks) = calls(&trace, &here(4), &ALL).expect("calls");
        assert_eq!(calls.classes[0].partition, Some(Partition { ranks: 2, stride: 1 }));
        let assumed =
            "the trace does not say which ranks have communicators of 2: neighbours are taken";
        assert_eq!(remarks[0], assumed);
    }

    #[test]
    fn where_nothing_can_be_replayed_the_reasons_are_told() {
        let trace = log(&[("AllReduce", 64, 8), ("AllReduce", 128, 8)]);
        let error = calls(&trace, &here(4), &ALL).expect_err("none").to_string();
        let reason = "communicators of 8 ranks, where there are 4 here (2)";
        assert_eq!(error, format!("no call of the trace can be replayed here: {reason}"));
    }

    #[test]
    fn gaps_are_kept_cut_or_left_out() {
        let times = [(64, 0), (8, 30), (64, 100), (1 << 20, 3_000_100)];
        let trace = dump(&times);
        let sequence = |asked: &ReplayArguments, ranks| {
            calls(&trace, &here(ranks), asked).map(|(calls, _)| calls.sequence)
        };
        assert_eq!(sequence(&ALL, 2), Ok(vec![(0, 0.0), (1, 30.0), (0, 70.0), (2, 1e6)]));
        let without = ReplayArguments { no_gaps: true, ..ALL };
        assert_eq!(sequence(&without, 2), Ok(vec![(0, 0.0), (1, 0.0), (0, 0.0), (2, 0.0)]));
        let (made, remarks) = calls(&trace, &here(2), &ALL).expect("calls");
        assert_eq!(made.classes[0].in_job_us, Some(500.0));
        assert_eq!(remarks, ["1 gap of more than a second: a second each is waited for"]);
        // A share of 8 bytes for each of 8 ranks is no row: its time is the next one's.
        let small = dump(&[(64, 0), (1, 30), (64, 100)]);
        let (made, _) = calls(&small, &here(2), &ALL).expect("calls");
        assert_eq!(made.sequence.iter().map(|(_, gap)| gap).sum::<f64>(), 100.0);
    }

    #[test]
    fn the_last_calls_and_seconds_are_kept() {
        let trace = dump(&(0..100).map(|n| (64, n * 100_000)).collect::<Vec<_>>());
        let count = |asked: &ReplayArguments| {
            calls(&trace, &here(2), asked).expect("calls").0.sequence.len()
        };
        assert_eq!(count(&ReplayArguments { calls: 7, ..ALL }), 7);
        // A call at each tenth of a second, so ten gaps.
        assert_eq!(count(&ReplayArguments { span: 1.0, ..ALL }), 11);
        assert_eq!(count(&ReplayArguments { span: 1e-9, ..ALL }), 1);
        assert_eq!(count(&ReplayArguments { span: 1.0, no_gaps: true, ..ALL }), 100);
    }

    #[test]
    fn the_classes_with_most_bytes_are_kept() {
        let mut all: Vec<(&str, u64, u32)> =
            (0..MAX_CLASSES as u64 + 5).map(|n| ("AllReduce", 1024 + n, 2)).collect();
        all.extend([("AllReduce", 1024, 2); 10]);
        let (calls, _) = calls(&log(&all), &here(2), &ALL).expect("calls");
        assert_eq!(calls.classes.len(), MAX_CLASSES);
        assert_eq!(calls.left_out[0].calls, 5);
        // Ten more calls of the smallest weigh more than one of the largest.
        assert_eq!(calls.classes[0].bytes, 4096);
    }
}
