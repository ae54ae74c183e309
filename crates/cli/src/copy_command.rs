//! `busbw copy-to FOLDER`: the program into a volume that other containers of a pod share.
//! Not an installation (docs/install.md), and not the copy that ssh needs (`busbw_job::launchers`).

use std::{fs, path::Path};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};

/// Copies this program to `folder`/busbw, with its mode, in place of an earlier copy. An image without a shell has no
/// other way.
///
/// # Errors
/// There is no such folder, or it cannot be written.
pub fn run(folder: &Path) -> Result<Exit> {
    if !folder.is_dir() {
        let text = format!(
            "cannot copy busbw to {}: it is no folder; in a pod mount an emptyDir there",
            folder.display()
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let copy = folder.join("busbw");
    // Renamed when it is whole: another container may start it.
    let partial = folder.join(format!(".busbw-{}", std::process::id()));
    fs::copy(&program, &partial)
        .and_then(|_| fs::rename(&partial, &copy))
        .with_context(|| format!("cannot copy {} to {}", program.display(), copy.display()))?;
    Ok(Exit::Ok)
}
