//! Fields of the structures that programs give to NCCL: where they are, and since which release.
//! Not the structures themselves (`busbw-ffi`).

use std::sync::LazyLock;

use busbw_core::nccl_version::Version;

use crate::table;

/// A field, at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The structure, `ncclConfig_t`.
    pub structure: &'static str,
    /// Its name; `-` is the structure as a whole.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of it.
    pub bytes: usize,
    /// The first release that was read and has it there.
    pub first: Version,
    /// The first later release that has not.
    pub removed: Option<Version>,
}

/// The fields of a structure, those of all releases, in order.
pub fn fields(structure: &str) -> impl Iterator<Item = Field> {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
        let rows = table::rows(include_str!("generated/structures.tsv"));
        rows.filter_map(|row| field(&row)).collect()
    });
    FIELDS.iter().copied().filter(move |field| field.structure == structure)
}

fn field(row: &[&'static str]) -> Option<Field> {
    let &[structure, name, offset, bytes, first, removed] = row else {
        return None;
    };
    let (offset, bytes) = (offset.parse().ok()?, bytes.parse().ok()?);
    let removed = table::release(removed);
    Some(Field { structure, name, offset, bytes, first: table::release(first)?, removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_grows_at_its_end() {
        let place = |structure, name| {
            let found = fields(structure).find(|field| field.name == name).unwrap();
            (found.offset, found.bytes, found.first)
        };
        assert_eq!(place("ncclConfig_t", "CTAPolicy"), (60, 4, Version::new(2, 27, 3)));
        assert_eq!(place("ncclCollConfig_t", "algSelection"), (40, 8, Version::new(2, 31, 2)));
        let whole =
            fields("ncclConfig_t").filter(|field| field.name == "-" && field.removed.is_none());
        assert_eq!(whole.map(|field| field.bytes).collect::<Vec<_>>(), [120]);
    }
}
