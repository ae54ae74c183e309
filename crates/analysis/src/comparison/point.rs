//! The key of a comparison: all figures of one point are times of the same operation.
//! Not the figures.

use serde::{Deserialize, Serialize};

use busbw_core::Collective;
use busbw_logs::measurement::{Figure, Measurement, Row};

/// A test with its type, operator, ranks, size and placement. The order is that of tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The collective's name, or the test's.
    pub test: String,
    /// The kind of its figure; only figures of one kind are compared.
    pub figure: Figure,
    /// Element type, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<String>,
    /// Operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redop: Option<String>,
    /// Root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i64>,
    /// Colour of its communicator, where the run had several: they share the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Ranks, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// What its calls were given; what its run has unlike other runs of its file: settings, hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Whether it is in place.
    pub in_place: bool,
}

impl Point {
    /// The point of a placement of a row.
    pub fn of(run: &Measurement, row: &Row, in_place: bool) -> Point {
        // Tables without the column were measured with nccl-tests' default.
        let rooted = run.collective().is_some_and(Collective::rooted);
        Point {
            test: run.test_name().to_owned(),
            figure: run.test.figure,
            datatype: row.datatype.map(|datatype| datatype.name().to_owned()),
            redop: row.op.clone(),
            root: row.root.or(rooted.then_some(0)),
            group: row.group,
            ranks: run.ranks_of(row),
            variant: row.variant.clone(),
            size: row.size,
            in_place,
        }
    }

    /// The point without size and placement: a table's title.
    pub fn case(&self) -> String {
        let mut said = vec![self.test.clone()];
        said.extend(self.datatype.clone());
        said.extend(self.redop.clone());
        said.extend(self.root.filter(|root| *root > 0).map(|root| format!("root {root}")));
        let ranks = match self.ranks {
            Some(1) => "1 rank".to_owned(),
            Some(ranks) => format!("{ranks} ranks"),
            None => "ranks not known".to_owned(),
        };
        let group = self.group.map_or(String::new(), |group| format!(", group {group}"));
        let variant = self.variant.as_ref().map_or(String::new(), |variant| format!(", {variant}"));
        format!("{}, {ranks}{group}{variant}", said.join(" "))
    }

    /// The same point of a run that is unlike others of its file.
    pub(super) fn of_variant(self, variant: Option<&String>) -> Point {
        Point { variant: variant.cloned().or(self.variant), ..self }
    }

    /// The same point on another number of ranks.
    pub(super) fn on(&self, ranks: Option<usize>) -> Point {
        Point { ranks, ..self.clone() }
    }
}
