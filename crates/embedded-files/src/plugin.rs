//! A plugin's shared library, as cargo has built it for the program that asks for it.
//! Not the plugins (`nccl-plugin-busbw`, `nccl-tuner-busbw`,
//! `nccl-profiler-busbw`), and not what is done with their bytes
//! (`busbw_runner::embedded`).
//!
//! Stable cargo gives a program no other crate's shared library (artifact dependencies are unstable). But a plugin's
//! crate is a library for Rust as well as a shared one: for a crate that depends on it cargo builds both at once, and
//! first, with the program's target, linker, flags and profile, and tells rustc where the former is
//! (`--extern nccl_plugin_busbw=DIR/libnccl_plugin_busbw.rlib`). The latter lies beside it. So nothing is compiled
//! twice, and no build script starts another cargo.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::deflated;

/// The net plugin's crate, by its name in rustc's arguments.
pub(super) const NET: &str = "nccl_plugin_busbw";
/// The tuner's crate.
pub(super) const TUNER: &str = "nccl_tuner_busbw";
/// The profiler's.
pub(super) const PROFILER: &str = "nccl_profiler_busbw";

/// The compiler's own command line. Where it would be too long for the system, cargo puts it into a file.
pub(super) fn arguments() -> Vec<String> {
    let words = env::args_os().filter_map(|word| word.into_string().ok());
    let each = words.flat_map(|word| match word.strip_prefix('@').map(fs::read_to_string) {
        Some(Ok(text)) => text.lines().map(str::to_owned).collect(),
        _ => vec![word],
    });
    each.collect()
}

/// The bytes of a crate's library as an expression.
///
/// # Errors
/// A program that is linked, and a library that is not where it must be.
pub(super) fn expression(crate_name: &str, arguments: &[String]) -> Result<String, String> {
    if !values(arguments, "--emit").any(|what| what.split(',').any(links)) {
        return Ok("{ const NONE: &[u8] = &[]; NONE }".to_owned());
    }
    let package = crate_name.replace('_', "-");
    let library = values(arguments, "--extern").find_map(|told| beside(crate_name, told));
    let library = library.ok_or_else(|| {
        format!("rustc is not told where {crate_name} is: the package must depend on {package}")
    })?;
    let file = library.to_str().ok_or("the target directory's name is not UTF-8")?;
    let bytes = if library.is_file() {
        deflated::expression(file)?
    } else {
        let why = format!("cargo has built no shared library of {package}: there is no {file}");
        format!("{{ compile_error!({why:?}); &[] }}")
    };
    Ok(format!(
        "{{
            #[cfg(target_feature = \"crt-static\")]
            const LIBRARY: &[u8] = &[];
            #[cfg(not(target_feature = \"crt-static\"))]
            const LIBRARY: &[u8] = {bytes};
            LIBRARY
        }}"
    ))
}

/// Whether the compiler writes more than metadata: "link", or "link=FILE".
fn links(what: &str) -> bool {
    what.split('=').next() == Some("link")
}

/// Values of an option, written in one word or in two.
fn values<'a>(arguments: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    arguments.iter().enumerate().filter_map(move |(at, word)| match word.strip_prefix(option)? {
        "" => arguments.get(at + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    })
}

/// The shared library, of "name=file" or "options:name=file" if the name is the crate's.
fn beside(crate_name: &str, told: &str) -> Option<PathBuf> {
    let (name, file) = told.split_once('=')?;
    let name = name.rsplit(':').next()?;
    (name == crate_name).then(|| Path::new(file).with_extension("so"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn told(words: &str) -> Result<String, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        expression(NET, &words)
    }

    #[test]
    fn what_is_not_linked_needs_no_library() {
        for emit in ["--emit=dep-info,metadata", "--emit metadata", "--crate-name busbw"] {
            let words = format!("rustc {emit} --extern {NET}=/nowhere/lib{NET}-1.rmeta");
            assert!(told(&words).unwrap().contains("NONE"), "{emit}");
        }
    }

    #[test]
    fn the_library_lies_beside_the_one_for_rust() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
        assert_eq!(
            beside(NET, &format!("{NET}=/a/lib{NET}.rlib")).unwrap(),
            Path::new("/a").join(format!("lib{NET}.so"))
        );
        assert_eq!(
            beside(NET, &format!("priv,noprelude:{NET}=/a/b.rlib")).unwrap(),
            Path::new("/a/b.so")
        );
        assert_eq!(beside(TUNER, &format!("{NET}=/a/b.rlib")), None);
        assert_eq!(beside(NET, "serde=/a/libserde.rlib"), None);
        for emit in ["--emit=dep-info,link", "--emit dep-info,metadata,link", "--emit=link=/a/b"] {
            let absent = told(&format!("rustc {emit} --extern {NET}={here}")).unwrap();
            assert!(absent.contains("compile_error"), "{absent}");
            let why = told(&format!("rustc {emit} --extern serde={here}")).unwrap_err();
            assert!(why.contains("must depend on"), "{why}");
        }
        let folder = env::temp_dir().join(format!("embedded-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("lib.so"), "bytes").unwrap();
        let rlib = folder.join("lib.rlib");
        let there = told(&format!("rustc --emit=link --extern {NET}={}", rlib.display())).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(there.contains("include_bytes!") && there.contains("lib.so"), "{there}");
        assert!(there.contains("b\""), "{there}");
    }
}
