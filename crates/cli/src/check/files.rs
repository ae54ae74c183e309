//! The files that a check is asked to write: JUnit XML, OpenMetrics text, its result beside the records.
//! Not their forms (`busbw_analysis::check`), and nothing on the hosts that are checked.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use anyhow::{Context, Result};
use busbw_analysis::check::{CheckReport, junit, openmetrics};
use busbw_store as store;
use tempfile::Builder;

use crate::options::CheckingArguments;

/// The result's file in the folder of `--record`.
const RESULT: &str = "check.json";

/// Others read it: a collector runs as a user of its own. It holds no secret: arguments are masked.
const MODE: u32 = 0o644;

/// Writes all of them.
///
/// # Errors
/// One cannot be written; the others are.
pub(super) fn keep(arguments: &CheckingArguments, report: &CheckReport) -> Result<()> {
    let junit = arguments.junit.as_deref().map(|path| replace(path, &junit(report)));
    let metrics = arguments.openmetrics.as_deref().map(|path| replace(path, &openmetrics(report)));
    let result = arguments.record.as_deref().map(|folder| {
        let text = serde_json::to_string(report).context("cannot write the result as JSON")?;
        let path = folder.join(RESULT);
        store::write_private(&path, (text + "\n").as_bytes())
            .with_context(|| format!("cannot write the result to {}", path.display()))
    });
    [junit, metrics, result].into_iter().flatten().collect()
}

/// Writes a file at once: a collector that reads meanwhile sees the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let write = || -> Result<()> {
        // node_exporter reads what ends with .prom only, and must not read this half.
        let mut file =
            Builder::new().prefix(".busbw-check-").suffix(".part").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        fs::set_permissions(file.path(), Permissions::from_mode(MODE))?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busbw.prom");
        replace(&path, "old").unwrap();
        replace(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = replace(&folder.path().join("no/such/folder"), "x").unwrap_err();
        assert!(format!("{nowhere:#}").contains("cannot write"), "{nowhere:#}");
    }
}
