//! busbw's own records: each row of a table is one call, so that every size weighs alike.
//! Not a job: a row's time is that of a benchmark.

use busbw_core::ReduceOp;

use super::collected::Collected;
use super::job::{Kind, Reported, Same};
use super::{call::Operation, sizes};
use crate::measurement::Measurement;

/// Takes the rows of a record; those of several records that are alike count once.
pub(super) fn read(run: &Measurement, collected: &mut Collected) {
    let Some(reporter) = collected.reporter(&run.source.name) else { return };
    let known = (run.collective(), run.ranks);
    let (Some(collective), Some(ranks)) = known else {
        return collected
            .leave_out("rows of messages between ranks, or without ranks", run.rows.len() as u64);
    };
    let ranks = u32::try_from(ranks.value).unwrap_or(u32::MAX);
    let Some(communicator) = collected.communicator("of the record", ranks) else { return };
    for row in &run.rows {
        let figures = row.out_of_place.as_ref().or(row.in_place.as_ref());
        let Some(figures) = figures else {
            collected.leave_out("rows that were waived", 1);
            continue;
        };
        let Some(bytes) = sizes::plausible(row.size) else {
            collected.leave_out("calls of more bytes than any machine has", 1);
            continue;
        };
        collected.add(&Reported {
            kind: Kind {
                operation: Operation::Collective(collective),
                datatype: row.datatype,
                bytes,
                redop: row
                    .op
                    .as_deref()
                    .and_then(ReduceOp::from_name)
                    .filter(|_| collective.reduces()),
            },
            communicator,
            reporter,
            rank: Some(0),
            root: row.root.and_then(|root| u32::try_from(root).ok()),
            at_us: None,
            took_us: figures.time_us,
            same: Same::Row,
        });
    }
}
