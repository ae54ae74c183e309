//! Everything that `busbw topo` knows of a host, as JSON and as text.
//! Not how the tree is drawn (`picture`) and not the tables (`tables`).

use std::io::{self, Write};

use busbw_core::finding::Finding;
use busbw_hardware::{
    machine::{self, Machine},
    topology::{
        Graphs, Matrix, NamedRates, NcclPath, Paths, System, links, links_of_machine,
        machine_of_matrix, machine_of_system, of_machine, of_matrix, of_system,
    },
};
use serde::Serialize;

use super::{picture, tables};
use busbw_analysis::machine_argument::Described;
use busbw_render::findings;

/// Version of the JSON.
const SCHEMA: u32 = 2;

/// The host that was read, and its analysis.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the JSON.
    pub schema: u32,
    /// busbw's version.
    pub busbw: String,
    /// This machine, or the file.
    pub source: String,
    /// The kind of source, and the facts that it lacks.
    pub notes: Vec<String>,
    /// The tree, where the source has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// The path between each two devices, in nvidia-smi's words.
    pub matrices: Vec<Matrix>,
    /// The same in NCCL's words, for the same rows and columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nccl_paths: Vec<Vec<NcclPath>>,
    /// Every link with its three rates, GB/s one way.
    pub links: Vec<NamedRates>,
    /// NCCL's rings and trees, where the source has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs: Option<Graphs>,
    /// The host as limits need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// What a file of several hosts is.
fn several_hosts(system: &System) -> Option<String> {
    let (hosts, gpus) = (system.hosts(), system.gpus().len());
    (hosts > 1).then(|| {
        format!(
            "{hosts} hosts in one file, as NCCL writes where NVLink spans hosts (MNNVL): {gpus} GPUs, {} a host; their numbers and PCI addresses repeat",
            gpus / hosts
        )
    })
}

impl Report {
    /// The report of a source.
    pub fn new(source: &str, described: Described, notes: Vec<String>) -> Report {
        let mut report = Report::empty(source, notes);
        match described {
            Described::System(system) => {
                let paths = Paths::of(&system);
                let ends = paths.ends();
                let ways = |a: usize| ends.iter().map(|(b, _)| paths.nccl(a, *b)).collect();
                report.nccl_paths = ends.iter().map(|(a, _)| ways(*a)).collect();
                report.matrices = vec![paths.matrix()];
                report.links = links(&system);
                report.findings = of_system(&system);
                report.notes.extend(several_hosts(&system));
                report.machine = Some(machine_of_system(&system, source));
                report.system = Some(system);
            }
            Described::Matrices(matrices) => {
                report.findings = matrices.iter().flat_map(of_matrix).collect();
                report.machine = matrices.first().map(|matrix| machine_of_matrix(matrix, source));
                report.matrices = matrices;
            }
            Described::Graphs(graphs) => report.graphs = Some(graphs),
            Described::Machine(machine) => {
                report.links = links_of_machine(&machine);
                report.findings = of_machine(&machine);
                report.machine = Some(machine);
            }
        }
        report
    }

    fn empty(source: &str, notes: Vec<String>) -> Report {
        Report {
            schema: SCHEMA,
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            source: source.to_owned(),
            notes,
            system: None,
            matrices: Vec::new(),
            nccl_paths: Vec::new(),
            links: Vec::new(),
            graphs: None,
            machine: None,
            findings: Vec::new(),
        }
    }

    /// Prints it as text.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn print(&self, out: &mut impl Write, colour: bool) -> io::Result<()> {
        writeln!(out, "# busbw {} topo: {}", self.busbw, self.source)?;
        self.notes.iter().try_for_each(|note| writeln!(out, "# {note}"))?;
        if let Some(system) = &self.system {
            picture::print(out, system)?;
        } else if let Some(machine) = self.machine.as_ref().filter(|_| self.matrices.is_empty()) {
            write!(out, "{}", machine::write(machine))?;
        }
        for matrix in &self.matrices {
            writeln!(out)?;
            tables::matrix(out, matrix)?;
        }
        if !self.links.is_empty() {
            writeln!(out)?;
            tables::links(out, &self.links)?;
        }
        if let Some(graphs) = &self.graphs {
            return tables::graphs(out, graphs);
        }
        writeln!(out)?;
        if self.findings.is_empty() {
            return writeln!(out, "nothing wrong found in what is shown here");
        }
        writeln!(out, "what is wrong")?;
        findings(out, &self.findings, colour)
    }
}
