//! What the speed of a running job's calls is held against: an earlier run, and what the hardware allows.
//! Not the speeds (`busbw-watch`), and not the limits themselves (`explain`).

use busbw_core::record::Figures;
use busbw_logs::measurement::{Known, Measurement, Row, Test};
use busbw_watch::Speed;

use crate::explain::{Hardware, explained};

/// The busbw of a run with the same collective and `ranks` ranks at the nearest size, GB/s; none where that is twice as far.
pub fn earlier(run: &Measurement, ranks: u32, speed: &Speed) -> Option<f64> {
    let same =
        run.collective() == Some(speed.collective?) && run.rank_count() == Some(ranks as usize);
    let distance = |size: u64| (size.max(1) as f64 / speed.most.max(1) as f64).ln().abs();
    let nearest = |row: &&Row| distance(row.size) <= std::f64::consts::LN_2 + 1e-9;
    let row = run.rows.iter().filter(|_| same).filter(nearest);
    let row = row.min_by(|a, b| distance(a.size).total_cmp(&distance(b.size)))?;
    run.halves(row).filter_map(|(_, figures)| figures.busbw).reduce(f64::max)
}

/// The limit of a class of calls of `ranks` ranks on `hosts` hosts, GB/s, as `busbw explain` finds it for a run of such a row.
pub fn limit(ranks: u32, hosts: usize, speed: &Speed, hardware: &Hardware) -> Option<f64> {
    let figures = Figures {
        time_us: speed.time_us,
        algbw: speed.algbw,
        busbw: speed.busbw,
        ..Figures::default()
    };
    let row = Row { size: speed.most, out_of_place: Some(figures), ..Row::default() };
    let run = Measurement {
        test: Test { collective: Some(Known::stated(speed.collective?)), ..Test::default() },
        ranks: Some(Known::stated(ranks as usize)),
        hosts: Some(hosts),
        rows: vec![row],
        copies: 1,
        ..Measurement::default()
    };
    let (_, explanations) = explained(vec![run], hardware);
    Some(explanations.into_iter().next()?.limit?.busbw)
}
