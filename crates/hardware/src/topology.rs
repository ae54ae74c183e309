//! What one host is made of, and how its GPUs and NICs are joined: read from NCCL's files or nvidia-smi's
//! text, written as NCCL reads it, judged. Not how a file or /sys is opened, and nothing is measured.

mod elements;
mod findings;
mod graphs;
mod judgement;
mod link;
mod machine;
mod matrix;
mod names;
mod nccl_path;
mod paths;
mod rates;
mod recognise;
mod smi;
mod system;
mod writer;
mod xml;

pub use findings::{of_machine, of_matrix, of_system, too_fast};
pub use graphs::{Channel, Graph, Graphs, Hop};
pub use judgement::{Ends, LinkTrouble, judge};
pub use link::PcieReading;
pub use machine::{machine_of_matrix, machine_of_system};
pub use matrix::{Endpoint, Matrix, Word};
pub use names::{chip, gpu_model};
pub use nccl_path::NcclPath;
pub use paths::Paths;
pub use rates::{NamedRates, Rates, links, links_of_machine, shown};
pub use recognise::{Input, Refused, recognise};
pub use smi::matrices;
pub use system::{
    Cpu, Device, Fabric, Gpu, GpuLink, GpuLinkKind, Net, NetKind, Parent, PortState, System, Target,
};
pub use writer::write;
