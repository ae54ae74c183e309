//! Runs of busbw where the shim libraries are the machine's.
//! Not what a run is asked (`data`, `options` and the others).

use std::{path::PathBuf, time::Duration};

pub use crate::built_shims::folder;
use crate::processes::bench::{Bench, Ended};

/// The time limit of a run: long enough for any of them on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// `busbw WORDS` where the shims are the machine's libraries.
pub fn bench(words: &str, variables: &[(&str, &str)]) -> Bench {
    on(folder(), words, variables)
}

/// The same with the libraries of another folder.
pub fn on(libraries: &PathBuf, words: &str, variables: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::new(words);
    bench.looks_for_sockets = false;
    bench
        .command
        .env("LD_LIBRARY_PATH", libraries)
        .env("BUSBW_NVML", folder().join("libnvidia-ml.so.1"))
        .envs(variables.iter().copied());
    bench
}

/// Runs it to its end.
pub fn run(words: &str, variables: &[(&str, &str)]) -> Ended {
    bench(words, variables).start().end(LIMIT)
}

/// Runs it, which must go well; what it compared was right.
#[track_caller]
pub fn well(words: &str, variables: &[(&str, &str)]) -> Ended {
    let ended = run(words, variables);
    assert_eq!(ended.code(), Some(0), "{words}\n{}\n{}", ended.stdout, ended.stderr);
    let checked = ended.read_record().run.plan.check > 0;
    assert!(!checked || ended.stdout.contains("# Out of bounds values : 0 OK"), "{words}");
    assert_eq!(ended.shown(), ended.stdout, "{words}");
    ended
}
