//! The calls in dumps of PyTorch's flight recorder, a file for each rank, as a trace.
//! Not the files' form (`crate::flight_recorder`), and not which rank hangs (`crate::hang`).
//!
//! Names of operations: PyTorch, ProcessGroupNCCL.cpp and torch/distributed/flight_recorder/components/types.py. Sizes are those of tensors: of
//! a scatter, both fields may be empty on ranks that are not the root. From 2.7 on the parts of a coalesced group are entries,
//! and one `coalesced` with the same number ends them.

use std::collections::{HashMap, HashSet};

use super::call::Spacing;
use super::collected::Collected;
use super::exchange::{Exchange, Part};
use super::job::{Kind, Reported, Same};
use super::sizes;
use crate::flight_recorder::{Dump, Entry, Text};
use busbw_core::{Collective, DataType};

/// Takes the calls of the dump in the file `name`.
pub(super) fn read(dump: &Dump<'_>, name: &str, collected: &mut Collected) {
    let Some(reporter) = collected.reporter(name) else { return };
    let names: HashSet<&str> =
        dump.entries.iter().map(|one| one.process_group.0.as_str()).collect();
    let mut groups: HashMap<&str, Option<(usize, u32)>> = HashMap::new();
    for name in names {
        let ranks = dump.group(name).map(|group| ranks(&group.ranks));
        let known = ranks.filter(|(count, ..)| *count > 0).and_then(|(count, listed, spacing)| {
            // Ranks count their groups for themselves: the same name may be other ranks' elsewhere.
            let id = format!("{name} of ranks {listed}");
            let at = collected.communicator_of(&id, count, spacing)?;
            Some((at, count))
        });
        groups.insert(name, known);
    }
    let mut walk = Walk { reporter, collected, exchange: None, parts: HashMap::new() };
    for entry in &dump.entries {
        match groups.get(entry.process_group.0.as_str()).copied().flatten() {
            Some(group) => walk.entry(entry, group),
            None => walk.leave_out("calls of process groups whose ranks the dump does not list"),
        }
    }
    walk.close();
}

/// The number of ranks in `[0, 1]`, the list, shortened where it is long, and how they are spaced.
fn ranks(list: &str) -> (u32, String, Spacing) {
    let list = list.trim().trim_start_matches('[').trim_end_matches(']');
    let all: Vec<&str> =
        list.split(',').map(str::trim).filter(|rank| rank.parse::<u32>().is_ok()).collect();
    let numbers: Vec<u32> = all.iter().filter_map(|rank| rank.parse().ok()).collect();
    let short = match all.as_slice() {
        [first, .., last] if all.len() > 8 => {
            // Groups that begin and end alike still differ in between.
            let sum: u64 = numbers.iter().copied().map(u64::from).sum();
            format!("{first}…{last} ({}, sum {sum})", all.len())
        }
        _ => all.join(","),
    };
    (u32::try_from(all.len()).unwrap_or(0), short, Spacing::of(&numbers))
}

/// The way through the entries of a dump.
struct Walk<'c> {
    reporter: usize,
    collected: &'c mut Collected,
    /// Sends and receives of one group with one number.
    exchange: Option<Together>,
    /// How many entries had this number so far.
    parts: HashMap<(usize, i64), u32>,
}

struct Together {
    group: (usize, u32),
    rank: u32,
    number: i64,
    exchange: Exchange,
}

impl Walk<'_> {
    fn leave_out(&mut self, reason: &str) {
        self.collected.leave_out(reason, 1);
    }

    fn entry(&mut self, entry: &Entry<'_>, group: (usize, u32)) {
        let called = entry.profiling_name.as_str().split_once(':').map_or("", |(_, name)| name);
        let mut words = called.split(' ');
        let name = words.next().unwrap_or_default();
        let ends = words.next().unwrap_or_default();
        match name {
            "send" | "recv" => return self.message(entry, group, name == "send", ends),
            "coalesced" => {
                self.close();
                let number = (group.0, entry.collective_seq_id);
                if !entry.is_p2p && !self.parts.contains_key(&number) {
                    self.leave_out("coalesced groups whose parts the dump does not have");
                }
                return;
            }
            "barrier" | "all_reduce_barrier" => return self.leave_out("barriers"),
            _ => {}
        }
        self.close();
        let (collective, is_list) = match operation(name) {
            Some(known) => known,
            None if name.ends_with("_v") || name.contains("_v_") => {
                let reason = format!("{name}, whose ranks give different numbers of elements");
                return self.collected.leave_out(&reason, 1);
            }
            None => {
                let reason =
                    format!("{:?}, which busbw does not measure", entry.profiling_name.as_str());
                return self.collected.leave_out(&reason, 1);
            }
        };
        let pairs: Vec<(u64, u64)> = match is_list {
            // One call for each tensor, in one group.
            true => {
                let outputs = entry.output_sizes.iter().map(|one| elements(one));
                entry.input_sizes.iter().map(|one| elements(one)).zip(outputs).collect()
            }
            false => vec![(all(&entry.input_sizes), all(&entry.output_sizes))],
        };
        let dtype = entry.input_dtypes.first().or(entry.output_dtypes.first());
        let (datatype, each) = match dtype.map(|name| datatype(name.as_str())) {
            Some(Some(known)) => known,
            Some(None) => {
                let dtype = dtype.map_or("", Text::as_str);
                let reason = format!("elements of type {dtype}, which NCCL has not");
                return self.collected.leave_out(&reason, 1);
            }
            None => return self.leave_out("calls without a tensor"),
        };
        for (input, output) in pairs {
            let kind = match kind(collective, input, output, group.1, (datatype, each)) {
                Ok(kind) => kind,
                Err(reason) => {
                    self.leave_out(reason);
                    continue;
                }
            };
            let number = entry.collective_seq_id;
            let part = self.parts.entry((group.0, number)).or_default();
            let same = Same::Number { lane: None, number: number as u64, part: *part };
            *part += 1;
            self.collected.add(&Reported {
                kind,
                communicator: group.0,
                reporter: self.reporter,
                rank: None,
                root: None,
                at_us: at_us(entry),
                took_us: took_us(entry),
                same,
            });
        }
    }

    fn message(&mut self, entry: &Entry<'_>, group: (usize, u32), is_send: bool, ends: &str) {
        // `0->1`; of a receive `1<-0`: this rank is always the first.
        let ends = ends.split_once("->").or_else(|| ends.split_once("<-"));
        let ends = ends.and_then(|(rank, peer)| Some((rank.parse().ok()?, peer.parse().ok()?)));
        let Some((rank, peer)) = ends else {
            return self.leave_out("messages whose ends the dump does not say");
        };
        let (datatype, each) = match entry.input_dtypes.first().map(|name| datatype(name.as_str()))
        {
            Some(Some(known)) => known,
            _ => return self.leave_out("messages of a type that NCCL has not"),
        };
        let bytes = all(&entry.input_sizes).checked_mul(each * datatype.bytes() as u64);
        let Some(bytes) = bytes.and_then(sizes::plausible) else {
            return self.leave_out("calls of more bytes than any machine has");
        };
        let part = Part {
            is_send,
            peer,
            bytes,
            datatype: Some(datatype),
            at_us: at_us(entry),
            took_us: took_us(entry),
        };
        let number = entry.p2p_seq_id;
        let belongs = |open: &Together| {
            open.group == group && open.number == number && !open.exchange.is_closed_to(part)
        };
        if !self.exchange.as_ref().is_some_and(belongs) {
            self.close();
        }
        let fresh = || Together { group, rank, number, exchange: Exchange::default() };
        self.exchange.get_or_insert_with(fresh).exchange.push(part);
    }

    /// Ends a group of sends and receives.
    fn close(&mut self) {
        let Some(Together { group, rank, mut exchange, .. }) = self.exchange.take() else { return };
        exchange.hand_on((rank, group.1), (group.0, self.reporter), true, self.collected);
    }
}

fn at_us(entry: &Entry<'_>) -> Option<f64> {
    // Two of them are subtracted: an f64 holds microseconds since 1970 to a quarter of one.
    entry.time_created_ns.map(|ns| ns as f64 / 1e3)
}

fn took_us(entry: &Entry<'_>) -> Option<f64> {
    entry.duration_ms.map(|ms| ms * 1e3).filter(|us| us.is_finite() && *us >= 0.0)
}

/// The collective of a name, and whether its tensors are one call each.
fn operation(name: &str) -> Option<(Collective, bool)> {
    let is_list = name.ends_with("_coalesced");
    let base = name.strip_suffix("_coalesced").unwrap_or(name);
    let collective = match base.trim_start_matches('_').to_ascii_lowercase().as_str() {
        "all_reduce" | "allreduce" => Collective::AllReduce,
        "all_gather"
        | "all_gather_base"
        | "all_gather_single"
        | "all_gather_into_tensor"
        | "allgather"
        | "allgather_base"
        | "allgather_into_tensor" => Collective::AllGather,
        "reduce_scatter"
        | "reduce_scatter_base"
        | "reduce_scatter_single"
        | "reduce_scatter_tensor" => Collective::ReduceScatter,
        "broadcast" | "broadcast_oop" => Collective::Broadcast,
        "reduce" | "reduce_oop" => Collective::Reduce,
        "all_to_all"
        | "all_to_all_single"
        | "all_to_all_base"
        | "alltoall"
        | "alltoall_base"
        | "all_to_all_v_single" => Collective::AllToAll,
        "gather" => Collective::Gather,
        "scatter" => Collective::Scatter,
        _ => return None,
    };
    Some((collective, is_list))
}

/// The call of these elements; else why there is none.
fn kind(
    collective: Collective,
    input: u64,
    output: u64,
    ranks: u32,
    (datatype, each): (DataType, u64),
) -> Result<Kind, &'static str> {
    let many = u64::from(ranks);
    let (collective, count) = match collective {
        Collective::AllGather => (collective, input),
        Collective::ReduceScatter => (collective, output),
        Collective::AllToAll if input == output && input.is_multiple_of(many) => {
            (collective, input / many)
        }
        // The larger side of this rank. The dump has no counts of pairs.
        Collective::AllToAll => (Collective::AllToAllV, input.max(output)),
        // Both may be one rank's share, or on the root the whole in one of them.
        Collective::Gather | Collective::Scatter => {
            let share = [input, output].into_iter().filter(|elements| *elements > 0).min();
            (collective, share.unwrap_or_default())
        }
        _ => (collective, input.max(output)),
    };
    let fits = match collective {
        Collective::AllGather => input.saturating_mul(many) == output,
        Collective::ReduceScatter => output.saturating_mul(many) == input,
        _ => true,
    };
    if !fits {
        return Err("calls whose tensors do not fit the number of ranks");
    }
    let size = || {
        let count = count.checked_mul(each)?;
        match collective {
            Collective::AllToAllV => {
                count.checked_mul(datatype.bytes() as u64).and_then(sizes::plausible)
            }
            _ => sizes::bytes(collective, count, datatype.bytes(), ranks),
        }
    };
    let bytes = size().ok_or("calls of more bytes than any machine has")?;
    Ok(Kind { datatype: Some(datatype), ..Kind::collective(collective, bytes) })
}

/// Elements of a tensor.
fn elements(sizes: &[i64]) -> u64 {
    sizes.iter().fold(1, |all, size| all.saturating_mul(u64::try_from(*size).unwrap_or_default()))
}

fn all(tensors: &[Vec<i64>]) -> u64 {
    tensors.iter().fold(0, |all, tensor| all.saturating_add(elements(tensor)))
}

/// NCCL's type for PyTorch's, and how many of them an element is (`getNcclDataType`, ProcessGroupNCCL.cpp; complex numbers are
/// two of their parts).
fn datatype(name: &str) -> Option<(DataType, u64)> {
    Some(match name {
        "Float" => (DataType::Float, 1),
        "Half" => (DataType::Half, 1),
        "BFloat16" => (DataType::Bfloat16, 1),
        "Double" => (DataType::Double, 1),
        "Int" => (DataType::Int32, 1),
        "UInt32" => (DataType::Uint32, 1),
        "Long" => (DataType::Int64, 1),
        "UInt64" => (DataType::Uint64, 1),
        "Char" => (DataType::Int8, 1),
        "Byte" | "Bool" | "Float8_e4m3fnuz" | "Float8_e5m2fnuz" => (DataType::Uint8, 1),
        "Float8_e4m3fn" => (DataType::F8e4m3, 1),
        "Float8_e5m2" => (DataType::F8e5m2, 1),
        "ComplexFloat" => (DataType::Float, 2),
        "ComplexDouble" => (DataType::Double, 2),
        _ => return None,
    })
}
