//! A file that a command writes because it was named: whole or not at all, and never over another one
//! without being told so.
//! Not records, which grow row by row (`store`).

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Whether a file may be written there.
///
/// # Errors
/// Why not, and what to do.
pub(crate) fn check(path: &Path, force: bool) -> Result<(), String> {
    let name = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(format!("{name} is a folder: name a file in it")),
        Ok(found) if found.is_file() && !force => {
            Err(format!("{name} exists: name another file, or overwrite it with --force"))
        }
        _ => Ok(()),
    }
}

/// Writes it, or leaves what was there.
///
/// # Errors
/// As [`check`], and what the system says.
pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    check(path, force)?;
    let said = |e: io::Error| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} exists: name another file, or overwrite it with --force", path.display())
        }
        _ => format!("{}: {e}", path.display()),
    };
    // A pipe or a device is written, not replaced.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text).map_err(said);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        // As any new file, less what the umask takes.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(said)?;
    file.write_all(text.as_bytes()).map_err(said)?;
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|e| said(e.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        write(&path, "one", false).unwrap();
        assert!(write(&path, "two", false).unwrap_err().contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write(&path, "two", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert!(check(folder.path(), true).unwrap_err().contains("folder"));
        let missing = folder.path().join("no/such/page");
        assert!(write(&missing, "x", false).unwrap_err().contains("no/such/page"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
