//! The programs of the OSU Micro-Benchmarks 7.4 that busbw has: their names, titles and options.
//! Not their loops (`plan`) and not what options mean (`busbw-cli`).

use serde::{Deserialize, Serialize};

use crate::{Benchmark, Collective, messages::Messages};

/// The version whose output and loops these are.
pub const VERSION: &str = "7.4";

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The text between library and `Test` in its title (`BENCHMARK` in its source).
    pub title: &'static str,
    /// What it measures.
    pub benchmark: Benchmark,
    /// Its options in getopt's notation: one colon for a value, two for an attached one
    /// (c/util/osu_util_options.h, the forms for accelerators and others combined).
    pub options: &'static str,
}

const LATENCY: &str = "hvm:x:i:b:c::u:G:D:P:T:Iz::d:";
const BANDWIDTH: &str = "hvm:x:i:t:W:b:c::u:G:D:P:T:Iz::d:";
const PAIRS: &str = "p:W:R:x:i:m:Vhvb:c::u:G:D:P:T:Iz::d:";
const EXCHANGE: &str = "hvfm:i:x:M:a:c::u:G:D:P:T:Ilz::d:r:";
const ROOTED: &str = "hvfm:i:x:M:a:c::u:G:D:P:T:Ilz::d:r:k:";
const BROADCAST: &str = "hvfm:i:x:M:a:c::u:G:D:P:T:Iz::d:r:";
const REDUCTION: &str = "hvfm:i:x:M:a:c::u:G:P:T:Ilz::d:r:";
const REDUCE: &str = "hvfm:i:x:M:a:c::u:G:P:T:Ilz::d:r:k:";
const BARRIER: &str = "hvfm:i:x:M:a:u:G:P:Iz::d:r:";
/// Without a check in OSU; busbw's have one.
const XCCL: &str = "hvfm:i:x:M:a:c::u:z::d:r:";

const fn pair(
    name: &'static str,
    title: &'static str,
    test: Messages,
    options: &'static str,
) -> Program {
    Program { name, title, benchmark: Benchmark::Messages(test), options }
}

const fn all(
    name: &'static str,
    title: &'static str,
    collective: Collective,
    options: &'static str,
) -> Program {
    Program { name, title, benchmark: Benchmark::Collective(collective), options }
}

use Collective as C;
use Messages as M;

/// Every program.
pub const PROGRAMS: [Program; 25] = [
    pair("osu_latency", "Latency", M::Latency, LATENCY),
    pair("osu_bw", "Bandwidth", M::Bandwidth, BANDWIDTH),
    pair("osu_bibw", "Bi-Directional Bandwidth", M::BiBandwidth, BANDWIDTH),
    pair("osu_mbw_mr", "Multiple Bandwidth / Message Rate", M::MultiBandwidth, PAIRS),
    pair("osu_multi_lat", "Multi Latency", M::MultiLatency, LATENCY),
    all("osu_barrier", "Barrier Latency", C::Barrier, BARRIER),
    all("osu_allreduce", "Allreduce Latency", C::AllReduce, REDUCTION),
    all("osu_allgather", "Allgather Latency", C::AllGather, EXCHANGE),
    all("osu_alltoall", "All-to-All Personalized Exchange Latency", C::AllToAll, EXCHANGE),
    all("osu_alltoallv", "All-to-Allv Personalized Exchange Latency", C::AllToAllV, EXCHANGE),
    all("osu_bcast", "Broadcast Latency", C::Broadcast, BROADCAST),
    all("osu_reduce", "Reduce Latency", C::Reduce, REDUCE),
    all("osu_reduce_scatter", "Reduce_scatter Latency", C::ReduceScatter, REDUCTION),
    all("osu_reduce_scatter_block", "Reduce_scatter_block Latency", C::ReduceScatter, REDUCTION),
    all("osu_gather", "Gather Latency", C::Gather, ROOTED),
    all("osu_scatter", "Scatter Latency", C::Scatter, ROOTED),
    pair("osu_xccl_latency", "Latency", M::Latency, LATENCY),
    pair("osu_xccl_bw", "Bandwidth", M::Bandwidth, BANDWIDTH),
    pair("osu_xccl_bibw", "Bi-Directional Bandwidth", M::BiBandwidth, BANDWIDTH),
    all("osu_xccl_allgather", "Allgather Latency", C::AllGather, XCCL),
    all("osu_xccl_allreduce", "Allreduce Latency", C::AllReduce, XCCL),
    all("osu_xccl_alltoall", "All-to-All Personalized Exchange Latency", C::AllToAll, XCCL),
    all("osu_xccl_bcast", "Broadcast Latency", C::Broadcast, XCCL),
    all("osu_xccl_reduce", "Reduce Latency", C::Reduce, XCCL),
    all("osu_xccl_reduce_scatter", "Reduce_scatter Latency", C::ReduceScatter, XCCL),
];

/// The vendor of the GPUs that a title names (`-d`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// NVIDIA's, also by default.
    #[default]
    Cuda,
    /// AMD's.
    Rocm,
}

impl Program {
    /// The program of that name.
    pub fn find(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Whether it measures NCCL or RCCL without MPI: on GPUs, with a title of its own and no line about
    /// types.
    pub fn is_xccl(&self) -> bool {
        self.name.starts_with("osu_xccl_")
    }

    /// The first line of its output. `library` moves the data: MPI in theirs, a backend's name here.
    /// `gpus` are those that buffers lie on, if any do.
    pub fn title_line(&self, library: &str, gpus: Option<Accelerator>) -> String {
        // Tests of several pairs name no GPUs.
        let several = self.benchmark.messages().is_some_and(Messages::is_multiple);
        let suffix = match gpus.filter(|_| !several) {
            Some(Accelerator::Cuda) => "-CUDA",
            Some(Accelerator::Rocm) => "-ROCM",
            None => "",
        };
        let library = library.to_ascii_uppercase();
        format!("# OSU {library}{suffix} {} Test v{VERSION}", self.title)
    }

    /// How an option takes a value; none where the program has no such option.
    pub fn takes(&self, option: char) -> Option<Takes> {
        let at = self.options.find(option).filter(|_| option.is_ascii_alphabetic())?;
        let after = &self.options[at + 1..];
        Some(match (after.starts_with("::"), after.starts_with(':')) {
            (true, _) => Takes::Attached,
            (_, true) => Takes::Value,
            _ => Takes::Nothing,
        })
    }
}

/// How an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Not at all.
    Nothing,
    /// In the same word or the next one.
    Value,
    /// In the same word, if at all.
    Attached,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_the_gpus() {
        let title = |program: &str, gpus| Program::find(program).map(|p| p.title_line("mpi", gpus));
        for (gpus, library) in [
            (None, "MPI"),
            (Some(Accelerator::Cuda), "MPI-CUDA"),
            (Some(Accelerator::Rocm), "MPI-ROCM"),
        ] {
            let want = format!("# OSU {library} Latency Test v{VERSION}");
            assert_eq!(title("osu_latency", gpus), Some(want));
        }
    }

    #[test]
    fn names_are_unique_and_options_known() {
        for program in &PROGRAMS {
            assert_eq!(Program::find(program.name), Some(program));
            assert_eq!(program.takes('m'), Some(Takes::Value), "{}", program.name);
            assert_eq!(program.takes('z'), Some(Takes::Attached), "{}", program.name);
            assert_eq!(program.takes(':'), None);
        }
        assert_eq!(Program::find("osu_reduce").and_then(|p| p.takes('k')), Some(Takes::Value));
        assert_eq!(Program::find("osu_bcast").and_then(|p| p.takes('l')), None);
        assert_eq!(Program::find("osu_mbw_mr").and_then(|p| p.takes('V')), Some(Takes::Nothing));
        assert_eq!(Program::find("osu_put_bw"), None);
    }
}
