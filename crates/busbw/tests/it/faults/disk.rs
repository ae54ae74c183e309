//! A disk that fills up under the record or the report: at the first write, in the middle, at the
//! end. The run goes on, and its exit code says whether a file that the user named is incomplete.
//! Not places that cannot be written from the start (`record`).

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

use crate::processes::{
    aftermath,
    bench::{BUSBW, Bench, Ended},
};

const WORDS: &str = "all_reduce -g 2 -b 64 -e 64 -n 5 --batches 2 -N 100";

/// A small file system of its own, gone with this.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// None, with the reason told, where none can be had.
    fn mount(size: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=777"), "faults"])
            .arg(folder.path())
            .output();
        let why = match mount {
            Ok(output) if output.status.success() => return Some(Disk { folder }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        aftermath::waive(&format!("no small file system can be mounted: {why}"));
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut file = File::create(self.path("filler")).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|len| len > 0) {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

/// A run with `option` FILE on the disk, and what is in the file after it.
fn run_on(disk: &Disk, words: &str, option: &str) -> (Ended, PathBuf, String) {
    let mut bench = match option {
        "--record" => Bench::without_record_option(words),
        _ => Bench::new(words),
    };
    let path = disk.path("file.jsonl");
    bench.command.arg(option).arg(&path);
    bench.also_writes = Some(disk.folder.path().to_owned());
    let ended = bench.run();
    let text = fs::read_to_string(&path).unwrap_or_default();
    (ended, path, text)
}

/// All rows and the footer are on stdout, the message names the file, and the exit code is 1: what
/// was asked for is not all there.
fn goes_on(ended: &Ended, what: &str, rows: usize) {
    ended.exits(1).says(what).says("No space left on device").says("; the run continues without");
    assert_eq!(ended.rows().len(), rows);
    assert!(ended.stdout.contains("Avg bus bandwidth"), "{}", ended.stdout);
}

/// Nothing was written, so nothing is left.
#[test]
fn record_full_at_the_first_write() {
    let Some(disk) = Disk::mount("64k") else { return };
    disk.fill();
    let (ended, path, _) = run_on(&disk, WORDS, "--record");
    goes_on(&ended, &format!("cannot write to the record {}", path.display()), 100);
    assert!(!path.exists());
    assert!(!ended.stderr.contains("busbw show"), "{}", ended.stderr);
}

/// Rows that fitted stay and can be shown; the cut one is left out.
#[test]
fn record_full_in_the_middle() {
    let Some(disk) = Disk::mount("64k") else { return };
    let (ended, path, text) = run_on(&disk, WORDS, "--record");
    goes_on(&ended, &format!("cannot write to the record {}", path.display()), 100);
    assert!(text.lines().count() > 2, "{text}");
    let shown = Command::new(BUSBW).arg("show").arg(&path).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let table = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(ended.stdout.starts_with(&table), "{table}");
    // The disk may end just where a line's text does: that row is whole.
    let whole = |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert_eq!(crate::processes::bench::rows(&table).len(), text.lines().filter(whole).count() - 1);
    assert!(String::from_utf8_lossy(&shown.stderr).contains("has no end"));
}

/// Everything fits but the last line. Disks are full in whole pages, and lines differ in length by
/// some digits: a recorded variable moves the end line over a page's border, at most of these tries.
#[test]
fn record_full_at_the_end_line() {
    const PAGE: usize = 4096;
    let words = "all_reduce -g 2 -b 64 -e 64 -n 5 --batches 2 -N 3";
    let run = |pages: usize, padding: usize| {
        let disk = Disk::mount(&format!("{}k", pages * PAGE / 1024))?;
        let mut bench = Bench::without_record_option(words);
        let path = disk.path("file.jsonl");
        bench.command.arg("--record").arg(&path).env("NCCL_DEBUG_FILE", "x".repeat(padding));
        bench.also_writes = Some(disk.folder.path().to_owned());
        let ended = bench.run();
        Some((ended, fs::read_to_string(&path).unwrap()))
    };
    let Some((ended, whole)) = run(64, 1) else { return };
    ended.exits(0);
    let end_line = whole.lines().last().unwrap().len();
    let border = whole.len() - end_line / 2;
    let pages = border.div_ceil(PAGE);
    for _ in 0..10 {
        let Some((ended, text)) = run(pages, 1 + pages * PAGE - border) else { return };
        if ended.code() == Some(0) || !text.contains("\"kind\":\"end\"") {
            continue;
        }
        ended.exits(1).says("cannot write to the record ").says("No space left on device");
        assert_eq!(ended.rows().len(), 3);
        assert!(ended.stdout.contains("Avg bus bandwidth"));
        assert_eq!(text.matches('\n').count(), 4, "{text}");
        return;
    }
    panic!("the end line of {end_line} bytes was never the one that was cut");
}

/// The default place is ours: its record is lost with a warning, and the run succeeds.
#[test]
fn default_record_full() {
    let Some(disk) = Disk::mount("64k") else { return };
    let mut bench = Bench::without_record_option(WORDS);
    bench.command.env("XDG_DATA_HOME", disk.folder.path());
    bench.also_writes = Some(disk.folder.path().to_owned());
    let ended = bench.run();
    ended.exits(0).says("cannot write to the record ").says("; the run continues without a record");
    assert_eq!(ended.rows().len(), 100);
}

/// A report is one JSON text: what is there of it is incomplete. The record is whole.
#[test]
fn report_full() {
    for filled in [true, false] {
        let Some(disk) = Disk::mount("16k") else { return };
        if filled {
            disk.fill();
        }
        let (ended, path, _) = run_on(&disk, WORDS, "-J");
        goes_on(&ended, &format!("cannot write the JSON report {} (-J)", path.display()), 100);
        let record = ended.read_record();
        assert_eq!(
            (record.rows.len(), record.end.unwrap().exit),
            (100, busbw_core::exit::Exit::Internal)
        );
        assert_eq!(ended.shown(), ended.stdout);
    }
}

/// A lost rank is told with its own exit code, whatever else went wrong.
#[test]
fn and_a_rank_is_lost() {
    let Some(disk) = Disk::mount("64k") else { return };
    let words = format!("{WORDS} --fault rank=1,phase=timed,row=90,do=kill");
    let (ended, path, _) = run_on(&disk, &words, "--record");
    ended.exits(6).says(&format!("cannot write to the record {}", path.display()));
    ended.says("busbw: rank 1 (process ").says("while timing row 90");
    assert_eq!(ended.rows().len(), 90);
}
