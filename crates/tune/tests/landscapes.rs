//! The search over landscapes with a known optimum, many seeds, against two opponents: the bars, and a table.
//! Not a test of one decision.

mod support;

use support::{
    landscape::{Kind, Landscape},
    opponents::{coordinate_descent, random_search},
    run,
};

const TRIALS: usize = 300;
const EARLY: usize = 80;

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    first..first + std::env::var("SEEDS").ok().and_then(|t| t.parse().ok()).unwrap_or(30)
}

#[test]
fn the_optimum_is_found() {
    let mut near = 0;
    for seed in seeds() {
        let mut landscape = Landscape::draw(
            seed,
            if std::env::var("HARSH").is_ok() { Kind::LaunchNoise } else { Kind::Common },
        );
        let start = landscape.regret(&landscape.space.default_point());
        let mut search = run::search(&landscape, Landscape::objective(), TRIALS, seed);
        let early = run::to_end(&mut search, &mut landscape, EARLY);
        let best = search.best().unwrap();
        let report = search.outcome().unwrap();
        let regret = landscape.regret(&landscape.point_of(&report.environment));
        if std::env::var("SAY").is_ok() {
            println!("{}", report.sentence());
        }
        near += usize::from(regret <= 0.02);
        println!(
            "{seed:>4} default {:>6.1} early {:>6.1} end {:>6.2} trials {} failed {} {:?}",
            100.0 * start,
            100.0 * early.map_or(f64::NAN, |point| landscape.regret(&point)),
            100.0 * regret,
            search.history().len(),
            search.history().iter().filter(|one| one.result.is_err()).count(),
            search.end(),
        );
        if regret > 0.02 {
            let optimum = landscape.optimum().1;
            let differs: Vec<_> = (0..12)
                .filter(|v| optimum[*v] != best.point[*v])
                .map(|v| {
                    let mut other = best.point.clone();
                    other[v] = optimum[v];
                    (
                        v,
                        best.point[v],
                        optimum[v],
                        landscape.log_time(&best.point) - landscape.log_time(&other),
                        landscape.space.variables()[v].default,
                    )
                })
                .collect();
            println!(
                "     differs (v, found, optimum, loss, default) {differs:?} {} found fails {:?}",
                landscape.parts(),
                best.between
            );
        }
    }
    println!("{near} of 30");
}
