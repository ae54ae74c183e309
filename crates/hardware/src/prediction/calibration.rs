//! The public results that calibrate a prediction, and the share of its link that each one is.
//! Not the results on which predictions are scored: those are data of the tests.

use std::sync::OnceLock;

use busbw_core::Collective;

use super::attainable::{Group, Kind};
use crate::limits::{Algorithm, RankPlacement, Resource, limit};
use crate::machine::{Machine, ready};

/// The table, as text: machine, nodes, ranks of a node, collective, algorithm, resource, bytes, busbw, source.
pub const CALIBRATION: &str = include_str!("calibration.tsv");

/// A public result of an algorithm that loads one resource most.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// A ready machine, or `gb200-nvl4`: GB200 whose NVLink domains end at the host.
    pub machine: &'static str,
    /// The placement of its ranks.
    pub placement: RankPlacement,
    /// The collective.
    pub collective: Collective,
    /// The algorithm that moved the bytes.
    pub algorithm: Algorithm,
    /// The resource that it rates.
    pub resource: Resource,
    /// The size column, bytes.
    pub bytes: u64,
    /// GB/s.
    pub busbw: f64,
    /// Who published it.
    pub source: &'static str,
}

/// All of the table. A line that is none is left out; a test reads each.
pub fn points() -> Vec<Point> {
    CALIBRATION.lines().filter(|line| !line.starts_with('#')).filter_map(point).collect()
}

fn point(line: &'static str) -> Option<Point> {
    let cells: Vec<&'static str> = line.split('\t').collect();
    let [machine, nodes, per_node, collective, algorithm, resource, bytes, busbw, source] =
        cells.as_slice()
    else {
        return None;
    };
    Some(Point {
        machine,
        placement: RankPlacement::new(nodes.parse().ok()?, per_node.parse().ok()?),
        collective: Collective::from_name(collective)?,
        algorithm: Algorithm::from_name(algorithm)?,
        resource: match *resource {
            "nv_link" => Resource::NvLink,
            "nic" => Resource::Nic,
            _ => return None,
        },
        bytes: bytes.parse().ok()?,
        busbw: busbw.parse().ok()?,
        source,
    })
}

impl Point {
    /// The machine with its hosts.
    pub fn machine(&self) -> Option<Machine> {
        let mut machine = match self.machine {
            "gb200-nvl4" => ready("gb200-nvl72")?,
            other => ready(other)?,
        };
        if let (Some(nvlink), "gb200-nvl4") = (&mut machine.node.nvlink, self.machine) {
            nvlink.domain = machine.node.gpus;
        }
        machine.nodes = self.placement.nodes;
        Some(machine)
    }

    /// The share of the resource's payload rate (line rate where there is none) that the result is.
    pub fn share(&self) -> Option<f64> {
        let machine = self.machine()?;
        let limit = limit(&machine, self.collective, self.algorithm, &self.placement);
        let load = limit.loads.iter().find(|load| load.resource == self.resource)?;
        let most = load.capacity.best() / load.capacity.line * load.line_busbw;
        Some(self.busbw / most)
    }
}

/// A point's share, under the kind of link and the group of algorithms that it rates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rated {
    pub kind: Kind,
    pub group: Group,
    pub share: f64,
}

/// All points, rated once.
pub(super) fn rated() -> &'static [Rated] {
    static RATED: OnceLock<Vec<Rated>> = OnceLock::new();
    RATED.get_or_init(|| {
        let all = points().into_iter().filter_map(|point| {
            let kind = Kind::of(&point.machine()?, point.resource)?;
            Some(Rated { kind, group: Group::of(point.algorithm), share: point.share()? })
        });
        all.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_point_below_its_link() {
        let lines = CALIBRATION.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(points().len(), lines);
        assert_eq!(rated().len(), lines);
        for point in points() {
            let share = point.share().expect("its machine is known");
            assert!(share > 0.4 && share < 1.0, "{share} of {point:?}");
        }
    }
}
