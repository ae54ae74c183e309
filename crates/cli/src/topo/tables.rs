//! The matrix of paths, the links with their rates and NCCL's graphs, as tables.
//! Not how any of it came about.

use std::io::{self, Write};

use busbw_hardware::topology::{Graphs, Hop, Matrix, NamedRates, shown};

use busbw_core::quantity::ranged;

/// The matrix, as nvidia-smi prints it.
///
/// # Errors
/// `out` cannot be written.
pub fn matrix(out: &mut impl Write, matrix: &Matrix) -> io::Result<()> {
    let mut line = format!("{:<6}", "");
    for endpoint in &matrix.endpoints {
        line += &format!(" {:^6}", endpoint.name);
    }
    writeln!(out, "{line}  NUMA")?;
    for (row, endpoint) in matrix.endpoints.iter().enumerate() {
        let mut line = format!("{:<6}", endpoint.name);
        for column in 0..matrix.endpoints.len() {
            let word = matrix.between(row, column).map_or("-".to_owned(), |word| word.to_string());
            line += &format!(" {word:^6}");
        }
        line += &format!("  {}", endpoint.numa.as_deref().unwrap_or(""));
        writeln!(out, "{}", line.trim_end())?;
    }
    let named =
        matrix.endpoints.iter().filter_map(|e| Some(format!("{} {}", e.name, e.device.as_ref()?)));
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        writeln!(out, "{}", named.join(", "))?;
    }
    Ok(())
}

/// Links with line, payload and what NCCL expects; equal ones share a line.
///
/// # Errors
/// `out` cannot be written.
pub fn links(out: &mut impl Write, links: &[NamedRates]) -> io::Result<()> {
    let mut groups: Vec<(&NamedRates, Vec<&str>)> = Vec::new();
    for link in links {
        let alike = |group: &&mut (&NamedRates, Vec<&str>)| {
            group.0.link == link.link && group.0.rates == link.rates
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.1.push(&link.subject),
            None => groups.push((link, vec![&link.subject])),
        }
    }
    let names: Vec<String> = groups.iter().map(|group| named(&group.1)).collect();
    let width = |texts: &mut dyn Iterator<Item = usize>, least: usize, most: usize| {
        texts.max().unwrap_or(0).clamp(least, most)
    };
    let kinds = width(&mut groups.iter().map(|group| group.0.link.len()), 4, 40);
    writeln!(
        out,
        "{:<kinds$} {:>8} {:>8} {:>8}  of (GB/s one way)",
        "link", "line", "payload", "NCCL"
    )?;
    for ((link, _), names) in groups.iter().zip(&names) {
        let text = |gbps: Option<f64>| gbps.map_or("-".to_owned(), shown);
        let rates = [link.rates.line, link.rates.payload, link.rates.nccl].map(text);
        let [line, payload, nccl] = rates;
        writeln!(out, "{:<kinds$} {line:>8} {payload:>8} {nccl:>8}  {names}", link.link)?;
    }
    Ok(())
}

/// Subjects of a group: GPUs and ports by name, adapters and switches by address where they are few.
fn named(subjects: &[&str]) -> String {
    const MAX_LISTED: usize = 4;
    let of = |begin: &str| -> Vec<&str> {
        subjects.iter().filter(|subject| subject.starts_with(begin)).copied().collect()
    };
    let (switches, nics) = (of("switch "), of("NIC "));
    let mut all: Vec<&str> = subjects.to_vec();
    all.retain(|subject| !switches.contains(subject) && !nics.contains(subject));
    let mut parts = vec![ranged(&all)];
    for (some, plural) in [(switches, "switches"), (nics, "NICs")] {
        parts.push(match some.len() {
            0..=MAX_LISTED => ranged(&some),
            many => format!("{many} {plural}"),
        });
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// NCCL's rings and trees.
///
/// # Errors
/// `out` cannot be written.
pub fn graphs(out: &mut impl Write, graphs: &Graphs) -> io::Result<()> {
    for graph in &graphs.graphs {
        writeln!(
            out,
            "{}: {} channels of {} GB/s within the host ({}), {} between hosts ({}): NCCL expects {} GB/s",
            graph.algorithm(),
            graph.channels_found,
            graph.speed_intra,
            graph.type_intra,
            graph.speed_inter,
            graph.type_inter,
            shown(graph.nccl_expects()),
        )?;
        for (number, channel) in graph.channels.iter().enumerate() {
            let hops = channel.0.iter().map(|hop| match hop {
                Hop::Gpu(gpu) => format!("GPU{gpu}"),
                Hop::Net(net) => format!("NET{net}"),
            });
            writeln!(out, "  {number:>2}  {}", hops.collect::<Vec<_>>().join(" "))?;
        }
    }
    Ok(())
}
