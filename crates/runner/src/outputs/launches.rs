//! One row over several launches: medians of launch medians.
//! Not the statistics themselves (`busbw_stats`).

use anyhow::Result;
use busbw_core::record::{Figures, Half, LatencyFigures, Line, MessageFigures, Row};
use busbw_stats::{median, summarise};

use super::Outputs;

impl Outputs {
    /// Rows of launches that ended before the last one: shown with the launches that there are.
    pub(super) fn show_unfinished_launches(&mut self) -> Result<()> {
        let Some(plan) = self.run.as_ref().map(|run| &run.plan) else { return Ok(()) };
        if plan.sampling.launches < 2 {
            return Ok(());
        }
        let first_group = plan.colour(0);
        let same = |a: &Row, b: &Row| (a.index, a.group) == (b.index, b.group);
        let mut latest: Vec<Row> = Vec::new();
        for row in &self.rows {
            if self.rows.iter().any(|other| other.shown && same(other, row)) {
                continue;
            }
            match latest.iter_mut().find(|other| same(other, row)) {
                Some(slot) => *slot = row.clone(),
                None => latest.push(row.clone()),
            }
        }
        for row in latest {
            let row = over_launches(Row { shown: true, ..row }, &self.rows);
            self.record_line(&Line::Row(Box::new(row.clone())));
            if row.group == first_group {
                self.totals.add(&row);
            }
            self.print(|output| output.row(&row))?;
        }
        Ok(())
    }
}

/// A row over its own launch and the same row of `earlier` ones: medians of launch medians.
pub(super) fn over_launches(mut row: Row, earlier: &[Row]) -> Row {
    let same: Vec<&Row> = earlier
        .iter()
        .filter(|r| (r.index, r.group) == (row.index, row.group) && r.launch < row.launch)
        .collect();
    if same.is_empty() {
        return row;
    }
    let outs: Vec<&Half> = same.iter().filter_map(|r| r.out_of_place.as_ref()).collect();
    let ins: Vec<&Half> = same.iter().filter_map(|r| r.in_place.as_ref()).collect();
    row.out_of_place = row.out_of_place.map(|half| half_over_launches(half, &outs));
    row.in_place = row.in_place.map(|half| half_over_launches(half, &ins));
    row
}

fn half_over_launches(half: Half, earlier: &[&Half]) -> Half {
    let all: Vec<&Half> = earlier.iter().copied().chain([&half]).collect();
    let times = |pick: fn(&Half) -> Option<f64>| -> Vec<f64> {
        all.iter().filter_map(|h| pick(h)).collect()
    };
    let launches_us = times(|h| h.figures.time_us);
    let time_us = median(&launches_us);
    // Bandwidth is bytes over time: the ratio of bytes cancels out.
    let faster = half.figures.time_us.zip(time_us).map_or(f64::NAN, |(own, all)| own / all);
    let figures = Figures {
        time_us,
        algbw: half.figures.algbw.map(|algbw| algbw * faster),
        busbw: half.figures.busbw.map(|busbw| busbw * faster),
        wrong: half.figures.wrong.map(|_| all.iter().filter_map(|h| h.figures.wrong).sum()),
        ..half.figures.clone()
    };
    let latency = half.latency.clone().map(|figures| {
        let over = |pick: fn(&LatencyFigures) -> f64| -> f64 {
            let each: Vec<f64> = all.iter().filter_map(|h| h.latency.as_ref()).map(pick).collect();
            median(&each).unwrap_or(f64::NAN)
        };
        LatencyFigures {
            fastest_rank_us: over(|figures| figures.fastest_rank_us),
            slowest_rank_us: over(|figures| figures.slowest_rank_us),
            ..figures
        }
    });
    Half {
        figures,
        latency,
        cpu_time_us: median(&times(|h| h.cpu_time_us)),
        // The samples are the launches now; every batch is in its own launch's row.
        summary: summarise(&launches_us),
        launches_us,
        messages: half
            .messages
            .map(|figures| MessageFigures { rate: figures.rate * faster, ..figures }),
        ..half
    }
}
