//! Runs a model in every execution that loom finds, and prints their number.
//! Not a model.
#![allow(clippy::unwrap_used, reason = "a model that cannot go on fails")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// How many executions of a model are explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of its executions.
    Exhaustive,
    /// Those in which a rank is preempted at most this many times.
    Preemptions(usize),
}

/// Explores `model`; a race, a deadlock, a panic or an endless wait in any execution fails the
/// test. LOOM_MAX_PREEMPTIONS in the environment replaces `extent`.
pub fn explore(name: &str, extent: Extent, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if let (None, Extent::Preemptions(most)) = (builder.preemption_bound, extent) {
        builder.preemption_bound = Some(most);
    }
    let extent = match builder.preemption_bound {
        None => "exhaustive".to_owned(),
        Some(most) => format!("at most {most} preemptions"),
    };
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    let begun = Instant::now();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let (executions, seconds) = (executions.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
    println!("{name}: {executions} executions in {seconds:.1} s, {extent}");
}

/// Runs `rank` as every rank from 0 to `ranks` − 1, each in a thread, the first in this one.
pub fn on_ranks(ranks: usize, rank: impl Fn(usize) + Send + Sync + 'static) {
    let rank = Arc::new(rank);
    let others: Vec<_> = (1..ranks)
        .map(|me| {
            let rank = Arc::clone(&rank);
            loom::thread::spawn(move || rank(me))
        })
        .collect();
    rank(0);
    for other in others {
        other.join().unwrap();
    }
}
