//! Python's pickle, protocols 2 to 5, of plain data: dictionaries, lists, tuples, texts, numbers, None.
//! Not objects: what would import a name or call something is refused, so that a file cannot run anything.
//!
//! Opcodes: CPython, Lib/pickletools.py. A value is a node, and a node that is fetched again is the same node, so memory is
//! linear in the input; every step into a node counts, and their number is bounded by the input, too.

mod opcodes;
mod values;

use std::{cell::Cell, fmt};

use serde::{Deserialize, de};

use self::{opcodes::Machine, values::At};

/// Why a pickle is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PickleError {
    /// It is not plain data.
    #[error(
        "it asks Python to import or call something (opcode {0} at byte {1}): only plain data is read"
    )]
    Code(&'static str, usize),
    /// An opcode that plain data does not need.
    #[error("it has opcode 0x{0:02x} at byte {1}, which plain data has not")]
    Opcode(u8, usize),
    /// It ends too early, or an opcode lacks what it works on.
    #[error("it is damaged at byte {0}")]
    Damaged(usize),
    /// Its parts are not those of a dump.
    #[error("{0}")]
    Form(String),
}

impl de::Error for PickleError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        PickleError::Form(text.to_string())
    }
}

#[derive(Debug)]
enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than eight bytes.
    Large,
    Float(f64),
    Text(&'a str),
    /// Bytes that are no UTF-8.
    Bytes,
    List(Parts),
    /// Keys and values by turns.
    Dict(Parts),
}

/// The parts of a list or a dictionary: where they are among those of all.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    at: usize,
    length: usize,
    /// How many may be there before they have to move.
    room: usize,
}

/// Reads `bytes` as a value.
///
/// # Errors
/// [`PickleError`].
pub(super) fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, PickleError> {
    let mut machine = Machine::new(bytes);
    let root = machine.run()?;
    let steps = Cell::new(bytes.len().saturating_mul(STEPS_PER_BYTE));
    let Machine { nodes, parts, .. } = &machine;
    T::deserialize(At { nodes, parts, node: root, depth: 0, steps: &steps })
}

/// Steps into nodes for each byte: a dictionary's texts are fetched again by two bytes each.
const STEPS_PER_BYTE: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{
        Deserializer,
        de::{SeqAccess, Visitor},
    };

    use super::*;

    #[test]
    fn plain_data() {
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM\x10\x27\x8a\x05\x00\x00\x00\x00\x01eX\x01\x00\x00\x00bq\x03h\x02u.";
        let read: BTreeMap<String, Vec<i64>> = from_slice(bytes).unwrap();
        let list = vec![1, -2, 10_000, 1 << 32];
        // The second one is the first one, fetched again.
        assert_eq!(read, BTreeMap::from([("a".to_owned(), list.clone()), ("b".to_owned(), list)]));
        let pair: (Option<u8>, f64) =
            from_slice(b"\x80\x02NG?\xf8\x00\x00\x00\x00\x00\x00\x86.").unwrap();
        assert_eq!(pair, (None, 1.5));
        let pair: (bool, String) =
            from_slice(b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00(\x88\x8c\x02ok\x94t.")
                .unwrap();
        assert_eq!(pair, (true, "ok".to_owned()));
    }

    #[test]
    fn nothing_is_called() {
        for (bytes, name) in [
            (&b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R."[..], "GLOBAL"),
            (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
            (b"\x80\x02NNR.", "REDUCE"),
            (b"\x80\x02NN\x81.", "NEWOBJ"),
            (b"\x80\x02NNb.", "BUILD"),
            (b"\x80\x02Nios\nsystem\n.", "INST"),
        ] {
            let error = from_slice::<Vec<u8>>(bytes).unwrap_err();
            assert!(matches!(error, PickleError::Code(said, _) if said == name), "{error}");
            assert!(error.to_string().contains("only plain data is read"));
        }
    }

    #[test]
    fn damaged_ones() {
        for bytes in [
            &b""[..],
            b"\x80",
            b"\x80\x02",
            b"\x80\x02.",
            b"\x80\x02X\xff\xff\xff\xffab.",
            b"\x80\x02h\x07.",
            b"\x80\x02(u.",
            b"\x80\x02Na.",
            b"\x80\x02}N(Nu.",
            b"\x80\x02(a.",
        ] {
            let error = from_slice::<serde_json::Value>(bytes).unwrap_err();
            assert!(matches!(error, PickleError::Damaged(_)), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn what_contains_itself_ends() {
        // A list that is its own only member.
        let error = from_slice::<Nested>(b"\x80\x02]q\x00h\x00a.").unwrap_err();
        assert_eq!(error.to_string(), "it nests more than 64 values");
        // Not asked for, it does not matter.
        from_slice::<de::IgnoredAny>(b"\x80\x02]q\x00h\x00a.").unwrap();
        // Each list holds the one before it twice: 2^60 numbers.
        let mut bytes = b"\x80\x02]q\x00K\x01a".to_vec();
        for n in 0..60_u8 {
            bytes.extend([b']', b'q', n + 1, b'h', n, b'a', b'h', n, b'a']);
        }
        bytes.push(b'.');
        let error = from_slice::<Nested>(&bytes).unwrap_err();
        assert!(error.to_string().contains("too often"), "{error}");
    }

    #[derive(Debug)]
    struct Nested;

    impl<'de> Deserialize<'de> for Nested {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Any;
            impl<'de> Visitor<'de> for Any {
                type Value = Nested;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a list or a number")
                }
                fn visit_i64<E>(self, _: i64) -> Result<Nested, E> {
                    Ok(Nested)
                }
                fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Nested, A::Error> {
                    while all.next_element::<Nested>()?.is_some() {}
                    Ok(Nested)
                }
            }
            from.deserialize_any(Any)
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_slice::<serde_json::Value>(&bytes);
            let mut dump = b"\x80\x02".to_vec();
            dump.extend(bytes);
            let _ = from_slice::<serde_json::Value>(&dump);
        }

        /// Opcodes that plain data has, in any order.
        #[test]
        fn any_opcodes_are_taken(codes in prop::collection::vec(
            prop::sample::select(&b"}](ueastN\x88\x85\x86K\x01q\x01h\x01."[..]), 0..200)
        ) {
            let _ = from_slice::<de::IgnoredAny>(&codes);
        }
    }
}
