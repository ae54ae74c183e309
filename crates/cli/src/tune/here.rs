//! What there is to tune here, from the record of one launch in the user's own environment.
//! Not which variables follow from it (`busbw_tune::catalogue`).

use std::collections::BTreeMap;

use anyhow::Result;
use busbw_core::{
    Benchmark, Collective,
    environment::FAKE,
    exit::{Exit, ExitError},
    nccl_version::Version,
    record::Folded,
};
use busbw_library_logs::nccl::{NcclFacts, Transport};
use busbw_tune::catalogue::Here;

/// NCCL's name of its sockets, and of its InfiniBand and RoCE transport.
const SOCKETS: &str = "Socket";
/// The name of NCCL's sockets as a plugin of their own (bench/reference-net).
const REFERENCE: &str = "reference";
/// The option that selects a net plugin on the `net` backend, and its word for busbw's, which is its default.
pub(super) const NET: &str = "--net";
pub(super) const BUSBW: &str = "busbw";
const RDMA: [&str; 2] = ["IB", "IBext"];

/// What there is, by the records of one launch of each benchmark.
///
/// # Errors
/// The backend has nothing that could be set.
pub(super) fn here(records: &[Folded]) -> Result<Here> {
    let Some(first) = records.first() else { return Ok(Here::default()) };
    let benchmarks = records.iter().map(|record| record.run.plan.benchmark);
    let (collectives, messages) =
        benchmarks.fold((false, false), |(collectives, messages), one| match is_sent(one) {
            true => (collectives, true),
            false => (true, messages),
        });
    let here = Here { collectives, messages, ..Here::default() };
    let nothing = |text: String| Err(ExitError::new(Exit::Impossible, text).into());
    match first.run.plan.backend.name() {
        "nccl" => Ok(of_nccl(first, here)),
        "net" => {
            let is = |holds: &dyn Fn(&str) -> bool| {
                first.net.first().is_some_and(|facts| holds(&facts.plugin))
            };
            let (busbw_net, sockets) = (is(&is_busbws), is(&|name| name == REFERENCE));
            Ok(Here { net_backend: true, busbw_net, sockets, ..here })
        }
        // The fake backend stands for any machine.
        "fake" if std::env::var_os(FAKE).is_some() => {
            let nccl = Some(Version::new(2, 32, 3));
            Ok(Here { nccl, rdma: true, sockets: true, rails: true, ..here })
        }
        backend => nothing(format!(
            "{backend} has no settings that busbw tunes: `busbw algorithms` shows which algorithm the host backend takes at which size; `busbw sweep -x NAME=VALUE,VALUE` compares any variable"
        )),
    }
}

/// Whether NCCL makes it of sends and receives.
fn is_sent(benchmark: Benchmark) -> bool {
    match benchmark {
        Benchmark::Collective(collective) => matches!(
            collective,
            Collective::AllToAll
                | Collective::AllToAllV
                | Collective::SendRecv
                | Collective::Gather
                | Collective::Scatter
                | Collective::HyperCube
        ),
        Benchmark::Messages(_) | Benchmark::Pairs => true,
        Benchmark::Replay => false,
    }
}

fn is_busbws(name: &str) -> bool {
    name.to_ascii_lowercase().contains("busbw")
}

fn of_nccl(record: &Folded, here: Here) -> Here {
    let any = |holds: &dyn Fn(&NcclFacts) -> bool| record.library.iter().any(holds);
    let joined = |wanted: &dyn Fn(&str) -> bool| {
        any(&|facts| {
            facts.transports.iter().any(|ends| match &ends.transport {
                Transport::Net { plugin, .. } => wanted(plugin),
                _ => false,
            })
        })
    };
    Here {
        nccl: record.run.nccl.get(1).copied().and_then(Version::from_code),
        rdma: joined(&|name| RDMA.contains(&name)),
        sockets: joined(&|name| name == SOCKETS),
        busbw_net: joined(&is_busbws),
        rails: !record.library.iter().all(has_one_device),
        nvlink: any(&|facts| facts.nvls.as_ref().is_some_and(|nvls| nvls.available > 0)),
        ..here
    }
}

/// Whether NCCL names one network device, and no other.
fn has_one_device(facts: &NcclFacts) -> bool {
    let mut names = facts.net_devices.iter().map(|counted| &counted.what.name);
    names.next().is_some_and(|first| names.all(|name| name == first))
}

/// The variables of this process's environment, and the value of the option that selects a net plugin.
pub(super) fn present(net: Option<&str>) -> BTreeMap<String, String> {
    let option = (NET.to_owned(), net.unwrap_or(BUSBW).to_owned());
    busbw_core::environment::all().chain([option]).collect()
}
