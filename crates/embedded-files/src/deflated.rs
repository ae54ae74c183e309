//! A file as an expression: its compressed bytes, and a mark for cargo that they depend on it.
//! Not which file.

use std::{env, fmt::Write, fs, path::Path};

use miniz_oxide::deflate::compress_to_vec_zlib;

/// miniz's slowest level: a file is compressed once a build.
const LEVEL: u8 = 9;

/// The expression for a file named by a string literal, relative to the manifest of the crate that is compiled.
///
/// # Errors
/// The argument is no string, or the file cannot be read.
pub(super) fn relative(literal: &str) -> Result<String, String> {
    let name = literal.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let name =
        name.ok_or_else(|| format!("deflated! takes a file's name in quotes, not {literal}"))?;
    let folder = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let file = Path::new(&folder).join(name);
    expression(file.to_str().ok_or("the package's folder has a name that is not UTF-8")?)
}

/// The expression for a file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn expression(file: &str) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let packed = compress_to_vec_zlib(&bytes, LEVEL);
    let mut literal = String::with_capacity(4 * packed.len());
    for byte in packed {
        // A String takes everything.
        let _ = write!(literal, "{}", byte.escape_ascii());
    }
    // The constant without a name is not in the program: it makes cargo look at the file.
    Ok(format!("{{ const _: &[u8] = include_bytes!({file:?}); b\"{literal}\" as &[u8] }}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use miniz_oxide::inflate::decompress_to_vec_zlib;

    #[test]
    fn a_file_comes_back() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
        let text = relative("\"src/lib.rs\"").unwrap();
        assert!(text.contains("include_bytes!") && text.contains("src/lib.rs"), "{text}");
        let packed = compress_to_vec_zlib(&fs::read(here).unwrap(), LEVEL);
        let escaped: String = packed.iter().map(|byte| byte.escape_ascii().to_string()).collect();
        assert!(text.contains(&escaped));
        assert_eq!(decompress_to_vec_zlib(&packed).unwrap(), fs::read(here).unwrap());
    }

    #[test]
    fn what_is_no_file_is_said() {
        assert!(relative("kernel").unwrap_err().contains("in quotes"));
        assert!(relative("\"no/such\"").unwrap_err().contains("cannot read"));
    }
}
