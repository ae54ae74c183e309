//! A disk that fills up under the record while the run goes on.
//! Not places that cannot be written from the start (`record`).

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use super::{
    aftermath,
    bench::{Bench, SOON},
};

/// A small file system of its own, gone with this.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Result<Disk, String> {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=777"), "busbw-faults"])
            .arg(folder.path())
            .output()
            .map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(Disk { folder });
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

fn fills_up(size: &str) -> Option<String> {
    let disk = match Disk::mount(size) {
        Ok(disk) => disk,
        Err(why) => {
            aftermath::waive(&format!("no small file system can be mounted: {why}"));
            return None;
        }
    };
    let mut bench = Bench::without_record_option("all_reduce -g 2 -b 64 -e 64 -n 5 -N 100");
    let path = disk.path("record.jsonl");
    bench.command.arg("--record").arg(&path);
    bench.also_writes = Some(disk.folder.path().to_owned());
    let ended = bench.run();
    ended.exits(0, SOON);
    ended.says(&format!("cannot write to the record {}", path.display()));
    ended.says("the run goes on without a record");
    assert!(!ended.stderr.contains("busbw show"), "{}", ended.stderr);
    assert_eq!(ended.rows().len(), 100);
    assert!(ended.stdout.contains("Avg bus bandwidth"));
    Some(fs::read_to_string(&path).unwrap_or_default())
}

/// Rows that fitted stay and can be shown; the cut one is left out.
#[test]
fn after_some_rows() {
    let Some(text) = fills_up("64k") else { return };
    assert!(text.lines().count() > 2, "{text}");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.jsonl");
    fs::write(&copy, &text).unwrap();
    let shown = Command::new(super::bench::BUSBW).arg("show").arg(&copy).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let rows = super::bench::rows(&String::from_utf8_lossy(&shown.stdout)).len();
    let whole = text.matches('\n').count();
    assert_eq!(rows, whole - 1);
}
