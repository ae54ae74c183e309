//! The folder of the file: whether it may be used, and making it.
//! Not the file (`writer::file`).

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{names::FOLDER, setting::Setting};

/// Why nothing is written.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    /// No folder at all.
    #[error("neither {FOLDER}, XDG_DATA_HOME nor HOME is set: nothing is recorded; set {FOLDER}")]
    None,
    /// It lies on a network file system, and nobody named it.
    #[error(
        "{} is on a network file system ({system}), which a job must not wait for: nothing is recorded; \
         set {FOLDER} to a folder of the node, or to this one if it may be written", folder.display()
    )]
    Network {
        /// The folder.
        folder: PathBuf,
        /// The file system.
        system: &'static str,
    },
    /// It cannot be made.
    #[error("cannot make the folder {}: {why}: nothing is recorded; set {FOLDER}", folder.display())]
    Unmade {
        /// The folder.
        folder: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// File systems whose writes can wait for another machine, by statfs's `f_type` (linux/magic.h; Lustre, GPFS, BeeGFS and
/// PanFS from their sources). FUSE may be local: it is told of all the same, and taken where it is named.
const NETWORK: [(u64, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "CephFS"),
    (0x6573_5546, "FUSE"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0102_1997, "9P"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0x7375_7245, "Coda"),
    (0x2003_0528, "OrangeFS"),
];

/// The network file system of a number.
fn network(number: u64) -> Option<&'static str> {
    NETWORK.iter().find(|one| one.0 == number).map(|one| one.1)
}

/// The folder, made with the rights 0700 where it is not there.
///
/// # Errors
/// There is none, it is on a network file system without being named, or it cannot be made.
pub(crate) fn make(setting: &Setting) -> Result<PathBuf, Refusal> {
    let folder = setting.folder.clone().ok_or(Refusal::None)?;
    if !setting.named
        && let Some(system) = system_of(&folder).and_then(network)
    {
        return Err(Refusal::Network { folder, system });
    }
    match DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
        Ok(()) => Ok(folder),
        Err(why) => Err(Refusal::Unmade { folder, why }),
    }
}

/// The file system of the nearest folder that is there: nothing is made on a network file system to find out.
fn system_of(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find_map(|path| rustix::fs::statfs(path).ok())?;
    // 32 bits on all systems, sign-extended on some.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "its type differs by architecture"
    )]
    Some(there.f_type as u64 & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_node_is_made_and_one_below_a_file_is_not() {
        assert_eq!((network(0x6969), network(0xef53)), (Some("NFS"), None));
        let place = tempfile::tempdir().unwrap();
        let of = |folder: PathBuf| {
            let path = folder.display().to_string();
            Setting::read(|name| (name == FOLDER).then(|| path.clone()), 1, 1)
        };
        let made = make(&of(place.path().join("a/b"))).unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(place.path().join("file"), "").unwrap();
        let why = make(&of(place.path().join("file/c"))).unwrap_err().to_string();
        assert!(
            why.contains("cannot make the folder") && why.contains("set BUSBW_WATCH_DIR"),
            "{why}"
        );
        let none = make(&Setting::read(|_| None, 1, 1)).unwrap_err().to_string();
        assert!(none.contains("HOME"), "{none}");
    }
}
