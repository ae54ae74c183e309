//! The shim libraries, built once for all tests.
//! Not runs on them (`shims`).

use std::{fs::File, path::PathBuf, process::Command, sync::OnceLock};

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
