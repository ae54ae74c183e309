//! The row of a case, or of each of its variants: both placements, combined and reported to the supervisor by the first rank of
//! each communicator.
//! Not its sampling (`placement`).

use busbw_core::{
    Collective,
    algorithm::Table,
    alltoallv::Traffic,
    collective::OpColumn,
    plan::{Case, Placement},
    record::{Half, Row, RowVariant, SCHEMA},
};

use super::{Report, RunError, Session, variants::Honoured};

impl Session<'_> {
    /// Measures both placements of a case (with `latency` one of them), in all variants, and reports a row for each. Returns
    /// the number of wrong elements.
    pub(super) fn measure_rows(&mut self, case: &Case, cycle: u64) -> Result<u64, RunError> {
        if self.world.rank() == 0 {
            let bytes = case.counts.bytes(case.sweep.datatype.bytes()) as u64;
            self.report(Report::Progress { index: self.index, bytes })?;
        }
        let [out, inside] = Placement::BOTH;
        let in_place_only = self.plan.osu.as_ref().is_some_and(|osu| osu.in_place);
        let why_not = match in_place_only || !self.plan.latency {
            true => self.backend.has_in_place(case).err(),
            false => None,
        };
        if let (true, Some(reason)) = (in_place_only, &why_not) {
            self.report_waived(case, cycle, format!("in place: {reason}"))?;
            return Ok(0);
        }
        let has_in_place = in_place_only || (!self.plan.latency && why_not.is_none());
        let share = if has_in_place && !in_place_only { 0.5 } else { 1.0 };
        let Honoured { cases, declined } = self.honoured(case)?;
        let mut outs = match in_place_only {
            true => Vec::new(),
            false => self.measure_halves(&cases, out, [0.0, share])?,
        }
        .into_iter();
        let mut ins = match has_in_place {
            true => self.measure_halves(&cases, inside, [1.0 - share, 1.0])?,
            false => Vec::new(),
        }
        .into_iter();
        let (mut wrong, first) = (0, self.index);
        for (place, case) in self.plan.in_variants(*case).enumerate() {
            self.index = first + place as u64;
            if place > 0 && self.groups.len() > 1 {
                // Rows of one index are printed together: no communicator reports its next one earlier.
                self.world.barrier(None)?;
            }
            if let Some(reason) = declined.get(&place) {
                self.report_waived(&case, cycle, reason.clone())?;
                continue;
            }
            let (out_of_place, in_place) = (outs.next(), ins.next());
            let halves: Vec<&Half> = out_of_place.iter().chain(&in_place).collect();
            wrong += halves.iter().filter_map(|half| half.figures.wrong).sum::<u64>();
            let mut notes = self.traffic_notes(&case, &halves);
            notes.extend(why_not.iter().map(|why| format!("# in place is waived: {why}")));
            let ran = halves.iter().find_map(|half| half.figures.algorithm.as_deref());
            let empty = self.empty_row(&case, cycle);
            let variant = empty.variant.map(|RowVariant { given, .. }| RowVariant {
                evidence: given.evidence(ran),
                given,
            });
            let row = Row { variant, out_of_place, in_place, notes, ..empty };
            self.report_row(row)?;
        }
        Ok(wrong)
    }

    /// Reports that a case cannot run.
    pub(super) fn report_waived(
        &mut self,
        case: &Case,
        cycle: u64,
        reason: String,
    ) -> Result<(), RunError> {
        let row = Row { waived: Some(reason), ..self.empty_row(case, cycle) };
        self.report_row(row)
    }

    /// Reports the algorithm table that the backend measured on this machine.
    pub(super) fn report_measured(&mut self, table: Table) -> Result<(), RunError> {
        if self.leads() {
            self.report(Report::Measured(table))?;
        }
        Ok(())
    }

    pub(super) fn report_row(&mut self, row: Row) -> Result<(), RunError> {
        if self.leads() {
            self.report(Report::Row(Box::new(row)))?;
        }
        if self.index == 0 {
            // A run without an end (`-N 0`) may have no other moment to report this.
            self.report_library()?;
        }
        if self.plan.timeout_s.is_some() {
            // The reader of stdout may delay the reporting rank for as long as it likes: no rank is
            // late because of that.
            self.world.barrier(None)?;
        }
        Ok(())
    }

    pub(super) fn report(&mut self, report: Report) -> Result<(), RunError> {
        Ok(self.world.report(&report.into_bytes())?)
    }

    pub(super) fn empty_row(&self, case: &Case, cycle: u64) -> Row {
        let collective = case.collective;
        let redop = match collective.op_column() {
            OpColumn::Name => case.sweep.op.name(),
            OpColumn::None => "none",
            OpColumn::Blank => "",
        };
        Row {
            schema: SCHEMA,
            index: self.index,
            cycle,
            launch: self.launch,
            shown: self.launch + 1 == self.plan.sampling.launches,
            group: self.group().ranks.first().map_or(0, |rank| self.plan.colour(*rank)),
            ranks: self.group().ranks.len(),
            benchmark: collective.into(),
            size: case.counts.bytes(case.sweep.datatype.bytes()) as u64,
            count: case.counts.param as u64,
            datatype: case.sweep.datatype,
            redop: redop.to_owned(),
            root: if collective.rooted() { case.sweep.root as i64 } else { -1 },
            finished: busbw_store::local_time::now(),
            variant: self
                .plan
                .variant_of(case)
                .map(|given| RowVariant { given: given.clone(), evidence: None }),
            waived: None,
            out_of_place: None,
            in_place: None,
            pairs: None,
            notes: Vec::new(),
            counters: Vec::new(),
            other_hosts: Vec::new(),
        }
    }

    /// The summary of alltoallv (nccl-tests src/alltoallv.cu:464-493), which nccl-tests prints
    /// inside the row.
    fn traffic_notes(&self, case: &Case, halves: &[&Half]) -> Vec<String> {
        if !self.plan.traffic_summary || case.collective != Collective::AllToAllV {
            return Vec::new();
        }
        let times = halves.iter().filter_map(|half| half.figures.time_us);
        times.flat_map(|time_us| self.traffic_summary(case, time_us)).collect()
    }

    fn traffic_summary(&self, case: &Case, time_us: f64) -> Vec<String> {
        let ranks = self.group().ranks.len();
        let total = case.counts.param * ranks * case.sweep.datatype.bytes();
        let traffic = &self.plan.traffic;
        let head = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY:";
        let mut lines = vec![match traffic {
            Traffic::Generated { spread } => format!(
                "{head} mode=generated nranks={ranks} total_bytes={total} spread={spread:.3} time_usec={time_us:.2}"
            ),
            Traffic::Even => {
                format!(
                    "{head} mode=even nranks={ranks} total_bytes={total} time_usec={time_us:.2}"
                )
            }
            Traffic::Matrix { rows, scale } => format!(
                "{head} mode=matrix nranks={ranks} matrix_dim={} scale={scale:.3} time_usec={time_us:.2}",
                rows.len()
            ),
        }];
        for rank in 0..ranks {
            let sent: usize = (0..ranks).map(|to| traffic.bytes(rank, to, ranks, total)).sum();
            let received: usize =
                (0..ranks).map(|from| traffic.bytes(from, rank, ranks, total)).sum();
            let algbw = sent.max(received) as f64 / 1e9 / (time_us * 1e-6);
            let busbw = algbw * (ranks as f64 - 1.0) / ranks as f64;
            lines.push(format!(
                "#   rank={rank} send_bytes={sent} recv_bytes={received} alg_bw={algbw:.2} bus_bw={busbw:.2}"
            ));
        }
        lines
    }
}
