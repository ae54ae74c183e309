//! Tables of nccl-tests before 2020-06-19 (its commit ec1b5e2), whose algbw of all_gather and reduce_scatter leaves out the
//! share that a rank already has: it is (n-1)/n of what has been printed since, and equal to busbw.
//! Not a table that contradicts itself (`check`).

use super::{Figure, Measurement, Row, deduction::rounding};
use busbw_core::{Collective, record::Figures};

/// Bandwidths below this, GB/s, have too few digits to tell the two ways of counting apart.
const TELLING: f64 = 1.0;

impl Measurement {
    /// n of n/(n-1), where every telling figure shows that algbw was counted in the old way. None where one was not.
    pub fn counted_without_own_share(&self) -> Option<usize> {
        let collective = self.collective()?;
        let ranks = self.rank_count().filter(|ranks| *ranks > 1)?;
        let concerned = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        if !concerned || self.test.figure != Figure::Bandwidths {
            return None;
        }
        let mut told = 0;
        for row in &self.rows {
            for half in row.both() {
                match old(row, half, ranks) {
                    Some(true) => told += 1,
                    Some(false) => return None,
                    None => {}
                }
            }
        }
        (told > 0).then_some(ranks)
    }
}

/// Whether algbw is that of the others' shares, by size and time. None of figures that do not tell.
fn old(row: &Row, half: &Figures, ranks: usize) -> Option<bool> {
    let time = half.time_us.filter(|time| *time > 0.0)?;
    let algbw = half.algbw.filter(|algbw| *algbw >= TELLING)?;
    let busbw = half.busbw?;
    let all = row.size as f64 / 1e3 / time;
    let others = all * (ranks - 1) as f64 / ranks as f64;
    let slack = half.rounding_us / time + 0.002;
    let is = |figure: f64, computed: f64| {
        (figure - computed).abs() <= computed * slack + rounding(figure.max(computed))
    };
    match (is(algbw, all), is(algbw, others) && is(busbw, others)) {
        (true, true) => None,
        (_, old) => Some(old),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Known, disagreements};
    use super::*;

    fn run(collective: Collective, algbw: f64, busbw: f64) -> Measurement {
        let half = Figures {
            time_us: Some(16_542.0),
            rounding_us: 0.5,
            algbw: Some(algbw),
            busbw: Some(busbw),
            ..Figures::default()
        };
        let row = Row { size: 4 << 30, out_of_place: Some(half), ..Row::default() };
        let mut run = Measurement {
            ranks: Some(Known::stated(8)),
            rows: vec![row],
            ..Measurement::default()
        };
        run.test.collective = Some(Known::stated(collective));
        run
    }

    #[test]
    fn only_figures_of_the_old_way_are_told() {
        let old = run(Collective::AllGather, 227.19, 227.19);
        assert_eq!(old.counted_without_own_share(), Some(8));
        assert_eq!(disagreements(&old), []);
        let new = run(Collective::AllGather, 259.64, 227.19);
        assert_eq!(new.counted_without_own_share(), None);
        // Neither way, and a collective that was never counted so.
        let odd = run(Collective::ReduceScatter, 100.0, 100.0);
        assert_eq!(odd.counted_without_own_share(), None);
        assert!(!disagreements(&odd).is_empty());
        assert_eq!(run(Collective::AllToAll, 227.19, 227.19).counted_without_own_share(), None);
    }
}
