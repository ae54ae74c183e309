//! busbw's net plugin: built with this program, kept in it, and written to the user's cache where something
//! is to load it.
//! Not what it does (crates/nccl-plugin-busbw), nor how it gets into the program (crates/embedded-files).

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use sha2::{Digest, Sha256};

/// The library, in zlib's format. The program brings it, not this crate: a change of the plugin then compiles no more than the program's
/// `main`.
static LIBRARY: OnceLock<&'static [u8]> = OnceLock::new();

/// Names by which NCCL and RCCL find it.
const NAMES: [&str; 2] = ["libnccl-net-busbw.so", "librccl-net-busbw.so"];

/// Takes the library in zlib's format, once; nothing where it could not be built.
pub fn provide(library: &'static [u8]) {
    let _ = LIBRARY.set(library);
}

/// The library's file, which is written if it is not there: in a folder that is named by its content, so that
/// several versions of busbw do not use each other's file.
///
/// # Errors
/// The cache cannot be written.
pub fn path() -> Result<PathBuf> {
    let cache = dirs::cache_dir()
        .context("there is no cache folder for busbw's net plugin: set XDG_CACHE_HOME or HOME")?;
    let library = match LIBRARY.get().copied().unwrap_or_default() {
        [] => Vec::new(),
        packed => decompress_to_vec_zlib(packed)
            .ok()
            .context("the net plugin in this program is damaged: install busbw again")?,
    };
    path_below(&cache, &library)
}

fn path_below(cache: &Path, library: &[u8]) -> Result<PathBuf> {
    if library.is_empty() {
        bail!("this busbw was built for a target without shared libraries: it has no net plugin");
    }
    let digest = Sha256::digest(library);
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join("busbw").join("plugin").join(name);
    for name in NAMES {
        let file = folder.join(name);
        if fs::read(&file).is_ok_and(|there| there == library) {
            continue;
        }
        let context = || format!("cannot write busbw's net plugin to {}", file.display());
        fs::create_dir_all(&folder).with_context(context)?;
        // Other processes may load it meanwhile: the rename shows them all of it, or nothing.
        let mut new = tempfile::NamedTempFile::new_in(&folder).with_context(context)?;
        new.write_all(library).with_context(context)?;
        let mode = fs::Permissions::from_mode(0o755);
        new.as_file().set_permissions(mode).with_context(context)?;
        new.persist(&file).map_err(|failed| failed.error).with_context(context)?;
    }
    Ok(folder.join(NAMES[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &[u8] = &[7; 1000];

    #[test]
    fn it_is_there_once_and_whole() {
        let cache = tempfile::tempdir().unwrap();
        let path = path_below(cache.path(), LIBRARY).unwrap();
        assert!(path.ends_with("libnccl-net-busbw.so"));
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        let of_rccl = path.with_file_name("librccl-net-busbw.so");
        assert_eq!(fs::read(of_rccl).unwrap(), LIBRARY);
        let files = || fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files(), 2);
        // A damaged file is replaced; another version is in another folder.
        fs::write(&path, &LIBRARY[..100]).unwrap();
        assert_eq!(path_below(cache.path(), LIBRARY).unwrap(), path);
        assert_eq!((fs::read(&path).unwrap().len(), files()), (LIBRARY.len(), 2));
        assert_ne!(path_below(cache.path(), b"another").unwrap(), path);
        assert!(path_below(cache.path(), b"").unwrap_err().to_string().contains("no net plugin"));
    }
}
