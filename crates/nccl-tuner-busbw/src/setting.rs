//! What the environment says: BUSBW_TUNER with its file, and BUSBW_TUNER_BEFORE.
//! Not the choices of one communicator (`tuner`).

use std::{ffi::OsString, fs::File, io, path::PathBuf};

use busbw_tuner_file::{BadReference, Digest, MOST_BYTES, Mistake, Reference, TunerFile, bounded};
use thiserror::Error;

use crate::names::{BEFORE, VARIABLE};

/// Why the communicator must fail: a rank that chose by itself would hang the others, or corrupt their data.
#[derive(Debug, Error)]
pub enum Failure {
    /// The variable cannot be read.
    #[error("{VARIABLE} is \"{value}\": {why}")]
    Variable {
        /// Its value.
        value: String,
        /// What is wrong.
        why: BadReference,
    },
    /// The variable is not UTF-8.
    #[error("{VARIABLE} is not UTF-8: name the file with UTF-8 letters")]
    NotText,
    /// The file cannot be read.
    #[error(
        "cannot read {}, the file of {VARIABLE}: {why}; put the same file there on every host, or unset {VARIABLE} on all", file.display()
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The file has another hash than the variable.
    #[error(
        "{} has the SHA-256 {found}, but {VARIABLE} says {}: put the file that was meant there on every host, or set {VARIABLE} to this one's hash on all",
        expected.file.display(), expected.digest
    )]
    Another {
        /// The variable's value.
        expected: Reference,
        /// The hash of the file.
        found: Digest,
    },
    /// The file has a line that cannot be used.
    #[error("{}, the file of {VARIABLE}: {why}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line and what is wrong with it.
        why: Mistake,
    },
    /// The tuner before this one.
    #[error(transparent)]
    Before(#[from] crate::before::Refusal),
}

/// What the environment says.
#[derive(Debug, Default)]
pub struct Setting {
    /// The file, its bytes checked against the hash.
    pub file: Option<(Reference, TunerFile)>,
    /// The library of the tuner before this one.
    pub before: Option<PathBuf>,
}

impl Setting {
    /// Reads the environment of this process, and the file.
    ///
    /// # Errors
    /// A value that cannot be read, and a file that is missing, has another hash or a line that cannot be used.
    pub fn of_process() -> Result<Self, Failure> {
        let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
        Ok(Self {
            file: set(VARIABLE).map(|value| checked(&value)).transpose()?,
            before: set(BEFORE).map(PathBuf::from),
        })
    }
}

/// The file of a value of the variable.
fn checked(value: &OsString) -> Result<(Reference, TunerFile), Failure> {
    let value = value.to_str().ok_or(Failure::NotText)?;
    let variable = |why| Failure::Variable { value: value.to_owned(), why };
    let reference: Reference = value.parse().map_err(variable)?;
    let unreadable = |why| Failure::Unreadable { file: reference.file.clone(), why };
    let bytes = File::open(&reference.file).and_then(bounded).map_err(unreadable)?;
    let found = Digest::of(&bytes);
    if bytes.len() <= MOST_BYTES && found != reference.digest {
        return Err(Failure::Another { expected: reference, found });
    }
    let line = |why| Failure::Line { file: reference.file.clone(), why };
    let file = TunerFile::parse(&bytes).map_err(line)?;
    Ok((reference, file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn the_file_is_the_one_that_was_meant() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuner.csv");
        let said = |text: String| checked(&text.into()).unwrap_err().to_string();
        let meant =
            |content: &str| format!("{}#sha256={}", file.display(), Digest::of(content.as_bytes()));

        assert!(
            said(meant("a")).contains("cannot read") && said(meant("a")).contains("every host")
        );
        std::fs::write(&file, "allreduce,0,9,ring,ll,4,-1,-1\n").unwrap();
        let found = checked(&meant("allreduce,0,9,ring,ll,4,-1,-1\n").into()).unwrap();
        assert_eq!((found.0.file, found.1.entries.len()), (file.clone(), 1));
        let another = said(meant("allreduce,0,8,ring,ll,4,-1,-1\n"));
        assert!(another.contains("has the SHA-256") && another.contains("but BUSBW_TUNER says"));
        assert!(said("tuner.csv".to_owned()).contains("BUSBW_TUNER is \"tuner.csv\": there is no"));
        let bad = "allreduce,0,9,ring,ll,4,-1\n";
        std::fs::write(&file, bad).unwrap();
        assert!(said(meant(bad)).contains("line 1: has 7 of at least 8 fields"));
        let long = "\n".repeat(MOST_BYTES + 7);
        std::fs::write(&file, &long).unwrap();
        assert!(said(meant(&long)).contains("more than 1048576 bytes"), "{}", said(meant(&long)));
    }
}
