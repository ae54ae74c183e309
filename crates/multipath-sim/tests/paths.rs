//! Unequal paths over TCP: 16 of them, of which four collide on one link, one has a tenth, one loses 1 %.
//! Not over datagrams (`datagrams`), nor the bed's cases (`netlab`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod bed;

use std::time::Duration;

use bed::{BURST, Bed, MIB, MILLI, goodput};
use busbw_multipath_sim::{
    Change, Label,
    tcp::Algorithm,
    transport::{Endless, Settings},
};

/// Gb/s of one connection over these links (Mb/s, loss), each of which its paths take in turn.
fn over(
    links: &[(u64, f64)],
    paths: &[usize],
    algorithm: Algorithm,
    (bytes, open): (usize, usize),
    time: Duration,
) -> f64 {
    let rates: Vec<_> = links.iter().map(|(rate, _)| (rate * 1_000_000, 8 * MILLI)).collect();
    let mut bed = Bed::new(7, &rates, None, BURST);
    bed.tcp.algorithm = algorithm;
    for (link, (_, loss)) in links.iter().enumerate() {
        bed.change(link, Change::Loss(*loss));
    }
    let labels = paths.iter().map(|link| [Label::Link(*link); 2]).collect();
    let pair = bed.world.connect(Settings { paths: paths.len(), labels, ..bed.settings() });
    let mut endless = Endless::new(&[pair], bytes, open);
    goodput(&mut bed, &mut endless, 500 * MILLI, time)
}

/// Against the sum of what each link's path delivers alone. With one message at a time the share is only printed: its last
/// chunks leave links idle.
#[test]
fn unequal_tcp_paths_add_up() {
    let mut links = vec![(1000, 0.0); 13];
    links[1].0 = 100;
    links[2].1 = 0.01;
    let paths: Vec<usize> = [0, 0, 0].into_iter().chain(0..13).collect();
    println!(
        "| congestion control | messages of | open | together Gb/s | alone, sum Gb/s | share |"
    );
    println!("|---|---|---|---|---|---|");
    for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
        for (mib, open) in [(1, 1), (1, 8), (4, 8), (16, 1), (16, 4)] {
            let over = |links: &[(u64, f64)], paths: &[usize]| {
                over(links, paths, algorithm, (mib * MIB, open), 2000 * MILLI)
            };
            let alone: f64 = links.iter().map(|link| over(&[*link], &[0])).sum();
            let together = over(&links, &paths);
            let share = together / alone;
            println!(
                "| {algorithm:?} | {mib} MiB | {open} | {together:.2} | {alone:.2} | {share:.3} |"
            );
            assert!(share >= 0.9 || open == 1, "{share}");
        }
    }
}
