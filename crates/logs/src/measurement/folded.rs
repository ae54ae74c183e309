//! An imported run as one object {run, rows, end}: a folded record, of what its source said.
//! Not a record of busbw's own, which has a plan, batches and a machine (`record::Folded`).
//!
//! What both know has one name and one unit in both, so that whatever reads rows of records
//! (docs/pandas.md) reads these as well. `run.imported` tells them apart.

use std::collections::BTreeMap;

use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, Serialize};

use super::{Device, Known, Measurement, Row, Source, Test, deduction::MAX_RANKS};
use busbw_core::{
    pairs::Pairs,
    record::{MOST_BYTES, MOST_EVENTS, Machine, SCHEMA, VerbsFacts, within},
};
use busbw_library_logs::{failure::FailureFacts, mpi::MpiFacts, nccl::NcclFacts};

/// A run that was imported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Folded {
    /// What ran, as far as the source says.
    pub run: Imported,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Matrices of pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pairs>,
    /// What it says at its end.
    pub end: Outcome,
}

/// What ran, as far as a source says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Schema version, that of records.
    pub schema: u32,
    /// Where it was read.
    pub imported: Source,
    /// What was run.
    pub test: Test,
    /// Ranks of the communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Known<usize>>,
    /// Hosts that they were on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<usize>,
    /// Every rank's device, as far as it is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// NCCL's (or RCCL's) version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl_version: Option<String>,
    /// Unique name of the run, where the source is a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Start time as the source says it, such as `2026-11-20 10:00:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The command line, where the source shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// See [`Measurement::options`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Settings of the environment that are shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The machine of rank 0, where the source is a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// See [`Measurement::copies`].
    #[serde(default)]
    pub copies: usize,
    /// What NCCL's own output says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<NcclFacts>,
    /// See [`Measurement::mpi`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpi: Vec<MpiFacts>,
    /// See [`Measurement::paths`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<NetStats>,
    /// See [`Measurement::verbs`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<VerbsFacts>,
}

/// What a source says of a run as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// "Out of bounds values".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_bounds: Option<u64>,
    /// "Avg bus bandwidth" as stated, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_busbw: Option<f64>,
    /// Rows beyond the number that is kept.
    #[serde(default)]
    pub rows_left_out: u64,
    /// What was said about a failure, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// See [`Measurement::failure`].
    #[serde(default, skip_serializing_if = "FailureFacts::is_empty")]
    pub failure: FailureFacts,
}

impl Folded {
    /// The same where every number is possible: the text may have been changed since `import` wrote it.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn checked(mut self) -> Result<Folded, String> {
        let ranks = MAX_RANKS as u64;
        let run = &self.run;
        let counts = [
            ("run.ranks.value", run.ranks.map_or(1, |ranks| ranks.value), 1),
            ("run.hosts", run.hosts.unwrap_or(1), 1),
            ("run.copies", run.copies, 0),
        ];
        for (field, value, least) in counts {
            within(field, value as u64, least, ranks)?;
        }
        for device in &run.devices {
            within("run.devices.rank", device.rank as u64, 0, ranks - 1)?;
        }
        for row in &self.rows {
            within("rows.size", row.size, 0, MOST_BYTES)?;
            within("rows.count", row.count.unwrap_or(0), 0, MOST_BYTES)?;
            for half in row.out_of_place.iter().chain(&row.in_place) {
                within("rows.wrong", half.wrong.unwrap_or(0), 0, MOST_EVENTS)?;
            }
        }
        within("end.out_of_bounds", self.end.out_of_bounds.unwrap_or(0), 0, MOST_EVENTS)?;
        within("end.rows_left_out", self.end.rows_left_out, 0, MOST_EVENTS)?;
        let pairs = self.pairs.into_iter().map(|pairs| pairs.checked().map_err(|e| e.to_string()));
        self.pairs = pairs.collect::<Result<_, _>>()?;
        Ok(self)
    }
}

impl From<Measurement> for Folded {
    fn from(measurement: Measurement) -> Folded {
        let Measurement {
            source,
            test,
            ranks,
            hosts,
            devices,
            nccl,
            id,
            started,
            command,
            options,
            environment,
            machine,
            page: _,
            rows,
            rows_left_out,
            pairs,
            out_of_bounds,
            stated_average,
            // Said of the text that was read, and no part of what ran.
            announced: _,
            copies,
            failure,
            errors,
            library,
            mpi,
            paths,
            verbs,
        } = measurement;
        Folded {
            run: Imported {
                schema: SCHEMA,
                imported: source,
                test,
                ranks,
                hosts,
                devices,
                nccl_version: nccl,
                id,
                started,
                command,
                options,
                environment,
                machine,
                copies,
                library,
                mpi,
                paths,
                verbs,
            },
            rows,
            pairs,
            end: Outcome {
                out_of_bounds,
                average_busbw: stated_average,
                rows_left_out,
                errors,
                failure,
            },
        }
    }
}

impl From<Folded> for Measurement {
    fn from(Folded { run, rows, pairs, end }: Folded) -> Measurement {
        Measurement {
            source: run.imported,
            test: run.test,
            ranks: run.ranks,
            hosts: run.hosts,
            devices: run.devices,
            nccl: run.nccl_version,
            id: run.id,
            started: run.started,
            command: run.command,
            options: run.options,
            environment: run.environment,
            machine: run.machine,
            page: None,
            rows,
            rows_left_out: end.rows_left_out,
            pairs,
            out_of_bounds: end.out_of_bounds,
            stated_average: end.average_busbw,
            announced: None,
            copies: run.copies,
            failure: end.failure,
            errors: end.errors,
            library: run.library,
            mpi: run.mpi,
            paths: run.paths,
            verbs: run.verbs,
        }
    }
}
