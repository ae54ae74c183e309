//! The dynamic loader's cache, /etc/ld.so.cache: the file of each library name.
//! Not ldconfig: nothing is written, and hardware variants are not distinguished.

const OLD: &[u8] = b"ld.so-1.7.0";
const NEW: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes of the new header and of each of its entries, of the old header and its entries: glibc,
/// sysdeps/generic/dl-cache.h, `struct cache_file_new`, `file_entry_new`, `cache_file`, `file_entry`.
const HEADER: usize = 48;
const ENTRY: usize = 24;
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;

/// Name and path of every entry, in the cache's order; empty for a file that is no cache.
pub(super) fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let Some(new) = new_part(bytes) else { return Vec::new() };
    let Some(count) = number(new, NEW.len()) else { return Vec::new() };
    let entry = |index: usize| {
        let at = HEADER.checked_add(index.checked_mul(ENTRY)?)?;
        let (name, path) = (number(new, at.checked_add(4)?)?, number(new, at.checked_add(8)?)?);
        Some((text(new, name)?, text(new, path)?))
    };
    // A wrong count ends with the first entry beyond the file.
    (0..count).map_while(entry).collect()
}

/// Where the new format begins: at once, or after the old one, aligned to its entries.
fn new_part(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(NEW) {
        return Some(bytes);
    }
    let old = bytes.strip_prefix(OLD).and_then(|_| number(bytes, OLD_HEADER - 4))?;
    let end = OLD_HEADER.checked_add(old.checked_mul(OLD_ENTRY)?)?.checked_next_multiple_of(8)?;
    bytes.get(end..).filter(|rest| rest.starts_with(NEW))
}

/// Four bytes in this machine's byte order: its own loader reads them.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?) as usize)
}

fn text(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A cache as ldconfig writes it.
    pub(in super::super) fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = NEW.to_vec();
        bytes.extend((entries.len() as u32).to_ne_bytes());
        bytes.resize(HEADER, 0);
        let mut texts = Vec::new();
        let from = HEADER + entries.len() * ENTRY;
        for (name, path) in entries {
            bytes.extend(0x0303_u32.to_ne_bytes());
            for word in [name, path] {
                bytes.extend(((from + texts.len()) as u32).to_ne_bytes());
                texts.extend(word.bytes().chain([0]));
            }
            bytes.extend([0; 12]);
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn both_formats() {
        let entries = [("liba.so.1", "/lib/liba.so.1"), ("libb.so", "/opt/libb.so")];
        let want: Vec<(String, String)> =
            entries.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let new = cache(&entries);
        assert_eq!(parse(&new), want);
        let mut both = OLD.to_vec();
        both.push(0);
        both.extend(3_u32.to_ne_bytes());
        both.resize(56, 7);
        both.extend(&new);
        assert_eq!(parse(&both), want);
        assert!(parse(b"").is_empty());
    }

    #[test]
    fn the_machines_own_cache_has_its_c_library() {
        let Ok(bytes) = std::fs::read("/etc/ld.so.cache") else {
            return println!("waived: this machine has no /etc/ld.so.cache");
        };
        assert!(
            parse(&bytes).iter().any(|(name, path)| name == "libc.so.6" && path.starts_with('/'))
        );
    }

    proptest! {
        #[test]
        fn damage_is_no_panic(at in 0..200_usize, to: u8, cut in 0..200_usize) {
            let mut bytes = cache(&[("liba.so.1", "/lib/liba.so.1"), ("libb.so", "/opt/libb.so")]);
            let at = at % bytes.len();
            bytes[at] = to;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            prop_assert!(parse(&bytes).len() <= 200);
        }
    }
}
