//! busbw's plugins for NCCL: built with this program, kept in it, and written to the user's cache where something is to
//! load one. Not what they do (crates/nccl-plugin-busbw, crates/nccl-tuner-busbw, crates/nccl-profiler-busbw), nor how they get into the program
//! (crates/embedded-files).

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

/// The libraries in zlib's format, each empty where it could not be built. The program brings them, not this crate: a
/// change of a plugin then compiles no more than the program's `main`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Libraries {
    /// The net plugin's.
    pub net: &'static [u8],
    /// The tuner's.
    pub tuner: &'static [u8],
    /// The profiler's.
    pub profiler: &'static [u8],
}

static LIBRARIES: OnceLock<Libraries> = OnceLock::new();

/// One of the plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// The net plugin.
    Net,
    /// The tuner.
    Tuner,
    /// The profiler.
    Profiler,
}

impl Plugin {
    /// Names by which NCCL and RCCL find it, NCCL's first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Net => &["libnccl-net-busbw.so", "librccl-net-busbw.so"],
            Self::Tuner => &["libnccl-tuner-busbw.so"],
            Self::Profiler => &["libnccl-profiler-busbw.so"],
        }
    }

    /// What messages call it.
    fn called(self) -> &'static str {
        match self {
            Self::Net => "net plugin",
            Self::Tuner => "tuner",
            Self::Profiler => "profiler",
        }
    }

    /// The folder of its versions in the cache.
    fn folder(self) -> &'static str {
        match self {
            Self::Net => "plugin",
            Self::Tuner => "tuner",
            Self::Profiler => "profiler",
        }
    }
}

/// Takes the libraries, once.
pub fn provide(libraries: Libraries) {
    let _ = LIBRARIES.set(libraries);
}

/// A plugin's file, which is written if it is not there: in a folder that is named by its content, so that several
/// versions of busbw do not use each other's file.
///
/// # Errors
/// The cache cannot be written.
pub fn path(plugin: Plugin) -> Result<PathBuf> {
    let called = plugin.called();
    let cache = dirs::cache_dir().with_context(|| {
        format!("there is no cache folder for busbw's {called}: set XDG_CACHE_HOME or HOME")
    })?;
    let libraries = LIBRARIES.get().copied().unwrap_or_default();
    let packed = match plugin {
        Plugin::Net => libraries.net,
        Plugin::Tuner => libraries.tuner,
        Plugin::Profiler => libraries.profiler,
    };
    let library = match packed {
        [] => Vec::new(),
        packed => decompress_to_vec_zlib(packed).ok().with_context(|| {
            format!("the {called} in this program is damaged: install busbw again")
        })?,
    };
    path_below(&cache, plugin, &library)
}

fn path_below(cache: &Path, plugin: Plugin, library: &[u8]) -> Result<PathBuf> {
    let called = plugin.called();
    if library.is_empty() {
        bail!("this busbw was built for a target without shared libraries: it has no {called}");
    }
    let digest = Sha256::digest(library);
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join("busbw").join(plugin.folder()).join(name);
    for name in plugin.names() {
        let file = folder.join(name);
        if fs::read(&file).is_ok_and(|there| there == library) {
            continue;
        }
        let context = || format!("cannot write busbw's {called} to {}", file.display());
        fs::create_dir_all(&folder).with_context(context)?;
        // Other processes may load it meanwhile: the rename shows them all of it, or nothing.
        let mut new = tempfile::NamedTempFile::new_in(&folder).with_context(context)?;
        new.write_all(library).with_context(context)?;
        let mode = fs::Permissions::from_mode(0o755);
        new.as_file().set_permissions(mode).with_context(context)?;
        new.persist(&file).map_err(|failed| failed.error).with_context(context)?;
    }
    Ok(folder.join(plugin.names().first().copied().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &[u8] = &[7; 1000];

    #[test]
    fn it_is_there_once_and_whole() {
        let cache = tempfile::tempdir().unwrap();
        let path = path_below(cache.path(), Plugin::Net, LIBRARY).unwrap();
        assert!(path.ends_with("libnccl-net-busbw.so"));
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        let of_rccl = path.with_file_name("librccl-net-busbw.so");
        assert_eq!(fs::read(of_rccl).unwrap(), LIBRARY);
        let files = || fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files(), 2);
        // A damaged file is replaced; another version is in another folder.
        fs::write(&path, &LIBRARY[..100]).unwrap();
        assert_eq!(path_below(cache.path(), Plugin::Net, LIBRARY).unwrap(), path);
        assert_eq!((fs::read(&path).unwrap().len(), files()), (LIBRARY.len(), 2));
        assert_ne!(path_below(cache.path(), Plugin::Net, b"another").unwrap(), path);
        let none = path_below(cache.path(), Plugin::Net, b"").unwrap_err().to_string();
        assert!(none.contains("no net plugin"));
        let tuner = path_below(cache.path(), Plugin::Tuner, LIBRARY).unwrap();
        assert!(tuner.ends_with("libnccl-tuner-busbw.so") && tuner.parent() != path.parent());
        let profiler = path_below(cache.path(), Plugin::Profiler, LIBRARY).unwrap();
        assert!(profiler.ends_with("libnccl-profiler-busbw.so"));
        assert!(![path.parent(), tuner.parent()].contains(&profiler.parent()));
    }
}
