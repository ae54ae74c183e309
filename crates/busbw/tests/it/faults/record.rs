//! Records that cannot be written: where the user said so it is a mistake, where we would put them
//! it is a warning.
//! Not disks that fill up while the run goes on (`disk`).

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
};

use crate::processes::{
    aftermath,
    bench::{BUSBW, Bench, Ended},
};

const SHORT: &str = "all_reduce -g 2 -b 64 -e 128 -n 5";

/// A user without a home and without an entry anywhere.
const NOBODY: u32 = 54_321;

/// One clear error, exit code 2, and nothing was started.
#[track_caller]
fn is_refused(ended: &Ended, path: &Path) {
    ended.exits(2).says(&path.display().to_string());
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.files.is_empty(), "{:?}", ended.files);
}

#[test]
fn in_a_missing_folder() {
    for option in ["--record", "-J"] {
        let mut bench = Bench::without_record_option(SHORT);
        let path = bench.home.path().join("missing").join("file.jsonl");
        bench.command.arg(option).arg(&path);
        is_refused(&bench.run(), &path);
    }
}

#[test]
fn in_place_of_a_folder() {
    let mut bench = Bench::without_record_option(SHORT);
    let path = bench.home.path().join("folder.jsonl");
    fs::create_dir(&path).unwrap();
    bench.command.arg("--record").arg(&path);
    is_refused(&bench.run(), &path);
}

/// The superuser may write anywhere, so this needs to be, or to become, somebody else.
fn as_nobody(bench: &mut Bench) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    bench.command.uid(NOBODY).gid(NOBODY);
    let runs = std::process::Command::new(BUSBW).arg("--version").uid(NOBODY).output();
    if runs.is_ok_and(|output| output.status.success()) {
        return true;
    }
    aftermath::waive("other users may not run the program under test");
    false
}

#[test]
fn in_a_read_only_folder() {
    let mut bench = Bench::without_record_option(SHORT);
    fs::set_permissions(bench.home.path(), Permissions::from_mode(0o755)).unwrap();
    let folder = bench.home.path().join("read-only");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o555)).unwrap();
    let path = folder.join("record.jsonl");
    bench.command.arg("--record").arg(&path);
    if as_nobody(&mut bench) {
        is_refused(&bench.run(), &path);
    }
}

/// The default place warns, and the run goes on.
#[track_caller]
fn is_warned(ended: &Ended) {
    ended.exits(0).says("no record of this run: ");
    assert_eq!(ended.rows().len(), 2);
    assert!(ended.files.is_empty(), "{:?}", ended.files);
}

#[test]
fn in_an_unwritable_home() {
    for variable in ["HOME", "XDG_DATA_HOME"] {
        let mut bench = Bench::without_record_option(SHORT);
        bench.command.env(variable, "/proc/no-such-home");
        is_warned(&bench.run());
    }
}

/// Without HOME the user's entry says where home is; without an entry nobody does.
#[test]
fn without_a_home() {
    let mut bench = Bench::without_record_option(SHORT);
    bench.command.env_remove("HOME").env_remove("XDG_DATA_HOME");
    if !rustix::process::geteuid().is_root() {
        return aftermath::waive("only the superuser can become a user without a home");
    }
    if as_nobody(&mut bench) {
        let ended = bench.run();
        is_warned(&ended);
        ended.says("set HOME or XDG_DATA_HOME");
    }
}

/// A usual home gets the record, and nothing else.
#[test]
fn in_a_usual_home() {
    let ended = Bench::without_record_option(SHORT).run();
    ended.exits(0);
    assert_eq!(ended.files.len(), 1, "{:?}", ended.files);
    assert!(ended.files[0].to_string_lossy().contains("/.local/share/busbw/runs/"));
}

/// A mistake in an option costs a record that was there nothing.
#[test]
fn after_a_mistake() {
    let mut bench = Bench::new(SHORT);
    fs::write(bench.record(), "precious").unwrap();
    bench.command.arg("-d").arg("nonsense");
    let ended = bench.run();
    ended.exits(2);
    assert_eq!(fs::read_to_string(&ended.record).unwrap(), "precious");
}
