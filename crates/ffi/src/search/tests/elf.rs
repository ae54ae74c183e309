//! The smallest ELF library that has constant text and exported symbols. Not one that runs.

/// A 64-bit library for this processor with `text` as its constants; every symbol stands at the
/// second byte of them. Layout: System V ABI, chapters 4 and 5.
pub(super) fn library(text: &str, symbols: &[&str]) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let names = b"\0.rodata\0.dynsym\0.dynstr\0.shstrtab\0";
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    let rodata_at = 64;
    for symbol in symbols {
        table.extend((strings.len() as u32).to_le_bytes());
        // A global object in section 1.
        table.extend([0x11, 0, 1, 0]);
        table.extend((rodata_at as u64 + 1).to_le_bytes());
        table.extend(8_u64.to_le_bytes());
        strings.extend(symbol.bytes().chain([0]));
    }
    let mut bytes = vec![0; 64];
    // Name, type, link, entry size, contents of every section but the first.
    let sections: [(u32, u32, u32, u64, &[u8]); 4] = [
        (1, 1, 0, 0, text.as_bytes()),
        (9, 11, 3, 24, &table),
        (17, 3, 0, 0, &strings),
        (25, 3, 0, 0, names),
    ];
    let mut headers = vec![0; 64];
    for (name, kind, link, entry, contents) in sections {
        let at = bytes.len() as u64;
        let address = if name == 1 { rodata_at as u64 } else { 0 };
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        [2, address, at, contents.len() as u64]
            .iter()
            .for_each(|n| headers.extend(n.to_le_bytes()));
        headers.extend(link.to_le_bytes());
        // The first symbol that is not local.
        headers.extend(u32::from(kind == 11).to_le_bytes());
        [1, entry].iter().for_each(|n| headers.extend(n.to_le_bytes()));
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let at = bytes.len() as u64;
    bytes.extend(headers);
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes[16..18].copy_from_slice(&3_u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[20..24].copy_from_slice(&1_u32.to_le_bytes());
    bytes[40..48].copy_from_slice(&at.to_le_bytes());
    for (at, value) in [(52, 64_u16), (54, 56), (58, 64), (60, 5), (62, 4)] {
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}
