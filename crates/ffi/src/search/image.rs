//! A library's file, read and not loaded: whether the loader would accept it, its version, its
//! symbols.
//! Not its code.

use std::{fs::File, path::Path};

use object::{
    Architecture, Endianness, Object, ObjectSection, ObjectSymbol,
    read::{ReadCache, elf::ElfFile64},
};

use super::kind::{Kind, Mark};

/// The longest version text that is accepted, in bytes.
const MAX_VERSION_BYTES: usize = 64;

/// The facts in a library's file.
pub(super) struct Image {
    pub(super) version: Option<String>,
    pub(super) symbols: Vec<String>,
}

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Reads the file; of NCCL's 400 MB only the headers and the constant text.
///
/// # Errors
/// The loader would not accept it: the reason, as words that follow "not used:".
pub(super) fn inspect(path: &Path, kind: Kind) -> Result<Image, String> {
    let unreadable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => format!("it cannot be read: {e}"),
    };
    // Opening a pipe would block until somebody writes.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let data = ReadCache::new(File::open(path).map_err(unreadable)?);
    let elf = Elf::parse(&data).map_err(|_| "it is no 64-bit ELF library".to_owned())?;
    let ours = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        _ => elf.architecture(),
    };
    if elf.architecture() != ours {
        return Err(format!("it is made for {:?}", elf.architecture()));
    }
    let version = kind.marks().iter().find_map(|mark| match mark {
        Mark::After(words) => text_after(&elf, words.as_bytes()),
        Mark::At(symbol) => text_at(&elf, symbol),
    });
    Ok(Image { version, symbols: telling(&elf, kind.telling()) })
}

fn telling(elf: &Elf, beginnings: &[&str]) -> Vec<String> {
    if beginnings.is_empty() {
        return Vec::new();
    }
    let names = elf.dynamic_symbols().filter(|s| s.is_definition());
    let names = names.filter_map(|s| s.name().ok().map(str::to_owned));
    let mut names: Vec<String> =
        names.filter(|name| beginnings.iter().any(|b| name.starts_with(b))).collect();
    names.sort();
    names.dedup();
    names
}

/// The first word after `words` that begins with a digit.
fn text_after(elf: &Elf, words: &[u8]) -> Option<String> {
    let constants = elf.section_by_name(".rodata")?.data().ok()?;
    let mut windows = constants.windows(words.len().checked_add(1)?).enumerate();
    let (at, _) = windows.find(|(_, w)| w.starts_with(words) && w[words.len()].is_ascii_digit())?;
    first_word(&constants[at + words.len()..])
}

fn text_at(elf: &Elf, name: &str) -> Option<String> {
    let symbol = elf.dynamic_symbols().find(|s| s.is_definition() && s.name() == Ok(name))?;
    let address = symbol.address();
    let section = elf.section_by_index(symbol.section_index()?).ok()?;
    let within = usize::try_from(address.checked_sub(section.address())?).ok()?;
    first_word(section.data().ok()?.get(within..)?)
}

fn first_word(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(MAX_VERSION_BYTES)];
    let end = bytes.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(bytes.len());
    let word = std::str::from_utf8(&bytes[..end]).ok()?;
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_owned())
}
