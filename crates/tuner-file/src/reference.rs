//! The value of BUSBW_TUNER: a file and the hash of its bytes, `FILE#sha256=<64 hex>`.
//! Not the file's content (`reading`).
//!
//! The hash is in the variable so that every rank checks the file that it reads against one that all of them got: a
//! tuner cannot ask other ranks.

use std::{fmt, path::PathBuf, str::FromStr};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// What stands between file and hash.
const SEPARATOR: &str = "#sha256=";

/// The SHA-256 (FIPS 180-4) of a file's bytes; its text has 64 small hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A file with the hash that it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The file, as it is opened on every host.
    pub file: PathBuf,
    /// The hash of its bytes.
    pub digest: Digest,
}

/// Why a value of BUSBW_TUNER is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{why}; expected is FILE#sha256= and 64 small hexadecimal digits, which `busbw tune --show FILE` prints"
)]
pub struct BadReference {
    why: &'static str,
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let bad = |why| BadReference { why };
        let (file, digits) =
            text.rsplit_once(SEPARATOR).ok_or_else(|| bad("there is no #sha256= in it"))?;
        if file.is_empty() {
            return Err(bad("it names no file"));
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        let digits: &[u8; 64] =
            digits.as_bytes().try_into().map_err(|_| bad("its hash has not 64 digits"))?;
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            let read = || Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
            *byte = read().ok_or_else(|| bad("its hash has other characters than 0-9 and a-f"))?;
        }
        Ok(Self { file: file.into(), digest: Digest(digest) })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{SEPARATOR}{}", self.file.display(), self.digest)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// The hash of "abc" (FIPS 180-4, example).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn it_comes_back() {
        let text = format!("/etc/a#b#sha256=x/tuner.csv#sha256={ABC}");
        let read: Reference = text.parse().unwrap();
        assert_eq!(read.digest, Digest::of(b"abc"));
        assert_eq!(read.file, PathBuf::from("/etc/a#b#sha256=x/tuner.csv"));
        assert_eq!(read.to_string(), text);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("/etc/tuner.csv".to_owned(), "no #sha256="),
            (format!("#sha256={ABC}"), "names no file"),
            (format!("a#sha256={}", &ABC[1..]), "has not 64 digits"),
            (format!("a#sha256={}", ABC.to_uppercase()), "other characters"),
        ] {
            let said = text.parse::<Reference>().unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("tune --show"), "{said}");
        }
    }
}
