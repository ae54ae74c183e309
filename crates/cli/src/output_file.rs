//! A file that a command writes because it was named: whole or not at all, and never over another one
//! without being told so.
//! Not records, which grow row by row (`busbw-store`).

use std::{
    fs,
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

use anyhow::{Context, Result};

/// Whether a file may be written there. `-` is stdout.
///
/// # Errors
/// Why not, and what to do.
pub(crate) fn check(path: &Path, force: bool) -> Result<(), String> {
    let name = path.display();
    if path.as_os_str() == "-" {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(format!("{name} is a folder: name a file in it")),
        Ok(found) if found.is_file() && !force => Err(exists(path)),
        // rename(2) checks the folder's permissions only: it would replace a write-protected file.
        Ok(found) if found.is_file() && found.permissions().readonly() => {
            Err(format!("{name} is write-protected: name another file, or allow it with chmod u+w"))
        }
        Ok(_) => Ok(()),
        Err(_) => check_folder(path),
    }
}

fn exists(path: &Path) -> String {
    format!("{} exists: name another file, or overwrite it with --force", path.display())
}

/// Whether there is a folder to hold a new file.
fn check_folder(path: &Path) -> Result<(), String> {
    if path.file_name().is_none() || path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(format!("\"{}\" names no file: name one", path.display()));
    }
    let folder = folder(path);
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{}: {} is no folder", path.display(), folder.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!(
            "{}: the folder {} does not exist: make it first (mkdir -p), or name another",
            path.display(),
            folder.display()
        )),
        Err(e) => Err(format!("{}: the folder {}: {e}", path.display(), folder.display())),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes it, or leaves what was there.
///
/// # Errors
/// As [`check`], and what the system says.
pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    check(path, force)?;
    if path.as_os_str() == "-" {
        let mut out = io::stdout().lock();
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("stdout: {e}")),
            _ => Ok(()),
        };
    }
    let said = |e: io::Error| match e.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => format!("{}: {e}", path.display()),
    };
    // A pipe or a device is written, not replaced.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text).map_err(said);
    }
    // What a link leads to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder(&target);
    let mut file = tempfile::Builder::new()
        // As any new file, less what the umask takes.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // Only the system's error: the name of the temporary file means nothing to a user.
        .map_err(|e| {
            let why = e
                .raw_os_error()
                .map_or(e.to_string(), |code| io::Error::from_raw_os_error(code).to_string());
            format!("{}: no file can be made in {}: {why}", path.display(), folder.display())
        })?;
    file.write_all(text.as_bytes()).map_err(said)?;
    let kept = if force { file.persist(&target) } else { file.persist_noclobber(&target) };
    kept.map(drop).map_err(|e| said(e.error))
}

/// Others read what [`replace`] writes: a collector runs as a user of its own.
const READABLE: u32 = 0o644;

/// Writes a file at once, readable by all: a collector that reads meanwhile sees the old one or the new one. A stream gets
/// the text behind what it had.
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let write = || -> Result<()> {
        if is_stream(path) {
            fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())?;
            return Ok(());
        }
        // What a link leads to is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // node_exporter reads what ends with .prom only, and must not read this half.
        let mut file = tempfile::Builder::new()
            .prefix(".busbw-")
            .suffix(".part")
            .tempfile_in(folder(&target))?;
        file.write_all(text.as_bytes())?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(READABLE))?;
        file.persist(&target)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Whether a path names something that cannot be replaced: a pipe, a device, or what this process has open (/dev/stdout),
/// which may be a regular file behind the name.
fn is_stream(path: &Path) -> bool {
    const OPEN: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    let is_open = OPEN.iter().any(|name| path.starts_with(name));
    is_open && path.exists() || fs::metadata(path).is_ok_and(|found| !found.is_file())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busbw.prom");
        replace(&path, "old").unwrap();
        replace(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, READABLE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = replace(&folder.path().join("no/such/folder"), "x").unwrap_err();
        assert!(format!("{nowhere:#}").contains("cannot write"), "{nowhere:#}");
    }

    /// `--openmetrics /dev/stdout`, in a container or behind `>`: the name stays what it was.
    #[test]
    fn a_stream_is_written_and_a_link_stays_a_link() {
        use std::{
            io::{Read, Seek},
            os::fd::AsRawFd,
        };
        let (mut reader, writer) = io::pipe().unwrap();
        let stream = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        replace(&stream, "metrics\n").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "metrics\n");

        let folder = tempfile::tempdir().unwrap();
        let (log, link) = (folder.path().join("log"), folder.path().join("busbw.prom"));
        let mut file = fs::File::create_new(&log).unwrap();
        file.write_all(b"table\n").unwrap();
        replace(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), "metrics\n").unwrap();
        file.seek(io::SeekFrom::End(0)).unwrap();
        file.write_all(b"end\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "table\nmetrics\nend\n");

        std::os::unix::fs::symlink(&log, &link).unwrap();
        replace(&link, "new\n").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&log).unwrap(), "new\n");
        assert!(replace(Path::new("/dev/no/such"), "x").is_err());
    }

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
        let said = write(&missing, "x", false).unwrap_err();
        assert!(said.contains("no/such does not exist"), "{said}");
        let below_file = write(&path.join("page"), "x", false).unwrap_err();
        assert!(
            below_file.contains("is no folder") || below_file.contains("Not a dir"),
            "{below_file}"
        );
        let slash = PathBuf::from(format!("{}/new/", folder.path().display()));
        for nameless in [slash.as_path(), Path::new("")] {
            assert!(write(nameless, "x", false).unwrap_err().contains("names no file"));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_a_protected_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["page", "link"].map(|name| folder.path().join(name));
        fs::write(&path, "one").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "two", true).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(write(&path, "three", true).unwrap_err().contains("write-protected"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }
}
