//! The shim libraries, built once for all tests, and runs on them.
//! Not what a run is asked (`data`, `options` and the others).

use std::{fs::File, path::PathBuf, process::Command, sync::OnceLock, time::Duration};

use crate::bench::{Bench, Ended};

/// Long enough for any run here on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The folder of the libraries. The first who asks builds them; the others, of other programs as
/// well, wait. `build.sh` compiles only what has changed.
pub fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let lock = File::create(tmp.join("shims.lock")).unwrap();
        lock.lock().unwrap();
        let folder = tmp.join("shims");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/shims/build.sh");
        let built = Command::new(script).arg(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{script} (it needs g++): {said}");
        folder
    })
}

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
