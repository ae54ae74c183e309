//! Python's pickle, protocols 2 to 5, of plain data: dictionaries, lists, tuples, texts, numbers, None.
//! Not objects: what would import a name or call something is refused, so that a file cannot run anything.
//!
//! Opcodes: CPython, Lib/pickletools.py. A value is a node, and a node that is fetched again is the same node, so memory is
//! linear in the input; every step into a node counts, and their number is bounded by the input, too.

use std::{cell::Cell, collections::HashMap, fmt};

use serde::{
    Deserialize,
    de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor},
};

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
    let mut machine = Machine { bytes, ..Machine::default() };
    let root = machine.run()?;
    let steps = Cell::new(bytes.len().saturating_mul(STEPS_PER_BYTE));
    let Machine { nodes, parts, .. } = &machine;
    T::deserialize(At { nodes, parts, node: root, depth: 0, steps: &steps })
}

/// Steps into nodes for each byte: a dictionary's texts are fetched again by two bytes each.
const STEPS_PER_BYTE: usize = 16;
/// The deepest nesting of values: a dump needs six.
const MAX_DEPTH: usize = 64;
/// The most values, references, marks and things remembered: a dump of 20,000 calls has some two million.
const MAX_VALUES: usize = 1 << 23;

#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node<'a>>,
    /// The parts of all lists and dictionaries.
    parts: Vec<u32>,
    stack: Vec<u32>,
    marks: Vec<usize>,
    /// What is remembered by number: Python counts from 0 up. Numbers that no count reaches are in `sparse`.
    memo: Vec<Option<u32>>,
    sparse: HashMap<u32, u32>,
    /// Numbers that are remembered.
    remembered: u32,
    /// What [`MAX_VALUES`] limits, so far.
    references: usize,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<usize, PickleError> {
        loop {
            let at = self.at;
            let [opcode] = self.array()?;
            match opcode {
                0x80 => {
                    let [_protocol] = self.array()?;
                }
                0x95 => {
                    let _: [u8; 8] = self.array()?;
                }
                b'}' => self.push(Node::Dict(Parts::default()))?,
                b']' | b')' => self.push(Node::List(Parts::default()))?,
                b'(' => {
                    self.count()?;
                    self.marks.push(self.stack.len());
                }
                b'N' => self.push(Node::None)?,
                0x88 => self.push(Node::Bool(true))?,
                0x89 => self.push(Node::Bool(false))?,
                b'K' => {
                    let [value] = self.array()?;
                    self.push(Node::Int(value.into()))?;
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.array()?);
                    self.push(Node::Int(value.into()))?;
                }
                b'J' => {
                    let value = i32::from_le_bytes(self.array()?);
                    self.push(Node::Int(value.into()))?;
                }
                0x8a => {
                    let [length] = self.array()?;
                    self.long(length.into())?;
                }
                0x8b => {
                    let length = u32::from_le_bytes(self.array()?);
                    self.long(length as usize)?;
                }
                b'G' => {
                    let value = f64::from_be_bytes(self.array()?);
                    self.push(Node::Float(value))?;
                }
                b'X' | b'T' | b'B' => {
                    let length = u32::from_le_bytes(self.array()?);
                    self.text(length as usize)?;
                }
                0x8c | b'U' | b'C' => {
                    let [length] = self.array()?;
                    self.text(length.into())?;
                }
                0x8d | 0x8e => {
                    let length = u64::from_le_bytes(self.array()?);
                    self.text(usize::try_from(length).unwrap_or(usize::MAX))?;
                }
                b'q' => {
                    let [number] = self.array()?;
                    self.remember(number.into())?;
                }
                b'r' => {
                    let number = u32::from_le_bytes(self.array()?);
                    self.remember(number)?;
                }
                0x94 => self.remember(self.remembered)?,
                b'h' => {
                    let [number] = self.array()?;
                    self.recall(number.into())?;
                }
                b'j' => {
                    let number = u32::from_le_bytes(self.array()?);
                    self.recall(number)?;
                }
                b's' => {
                    let from = self.above(2)?;
                    self.extend_dict(from)?;
                }
                b'u' => {
                    let from = self.marked()?;
                    self.extend_dict(from)?;
                }
                b'a' => {
                    let from = self.above(1)?;
                    self.extend_list(from)?;
                }
                b'e' => {
                    let from = self.marked()?;
                    self.extend_list(from)?;
                }
                b't' => {
                    let from = self.marked()?;
                    self.tuple(from)?;
                }
                0x85..=0x87 => {
                    let from = self.above(usize::from(opcode - 0x84))?;
                    self.tuple(from)?;
                }
                b'.' => {
                    let root = self.stack.pop().ok_or(PickleError::Damaged(at))?;
                    return Ok(root as usize);
                }
                _ => return Err(refusal(opcode, at)),
            }
        }
    }

    fn damaged(&self) -> PickleError {
        PickleError::Damaged(self.at)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], PickleError> {
        let end = self.at.checked_add(length).ok_or(PickleError::Damaged(self.at))?;
        let bytes = self.bytes.get(self.at..end).ok_or(PickleError::Damaged(self.at))?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let at = self.at;
        self.slice(N)?.try_into().map_err(|_| PickleError::Damaged(at))
    }

    fn push(&mut self, node: Node<'a>) -> Result<(), PickleError> {
        self.nodes.push(node);
        // There are no more than `MAX_VALUES`.
        self.refer(self.nodes.len() as u32 - 1)
    }

    fn refer(&mut self, node: u32) -> Result<(), PickleError> {
        self.count()?;
        self.stack.push(node);
        Ok(())
    }

    fn count(&mut self) -> Result<(), PickleError> {
        self.references += 1;
        match self.references > MAX_VALUES {
            true => Err(PickleError::Form(format!("it has more than {MAX_VALUES} values"))),
            false => Ok(()),
        }
    }

    fn text(&mut self, length: usize) -> Result<(), PickleError> {
        let bytes = self.slice(length)?;
        // Once for all places that fetch it again, as they do the keys of a call.
        self.push(str::from_utf8(bytes).map_or(Node::Bytes, Node::Text))
    }

    /// An integer of `length` bytes, least first, in two's complement.
    fn long(&mut self, length: usize) -> Result<(), PickleError> {
        let bytes = self.slice(length)?;
        let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
        let mut whole = if negative { [0xff; 8] } else { [0; 8] };
        let node = match whole.get_mut(..bytes.len()) {
            Some(part) => {
                part.copy_from_slice(bytes);
                Node::Int(i64::from_le_bytes(whole))
            }
            None => Node::Large,
        };
        self.push(node)
    }

    fn remember(&mut self, number: u32) -> Result<(), PickleError> {
        let top = *self.stack.last().ok_or(self.damaged())?;
        self.count()?;
        let known = match number as usize {
            place if place <= self.references => {
                if place >= self.memo.len() {
                    self.memo.resize(place + 1, None);
                }
                self.memo.get_mut(place).and_then(|slot| slot.replace(top))
            }
            _ => self.sparse.insert(number, top),
        };
        self.remembered += u32::from(known.is_none());
        Ok(())
    }

    fn recall(&mut self, number: u32) -> Result<(), PickleError> {
        let counted = self.memo.get(number as usize).copied().flatten();
        let node = counted.or_else(|| self.sparse.get(&number).copied());
        self.refer(node.ok_or(self.damaged())?)
    }

    /// Where the uppermost `count` values begin; none of them is below a mark.
    fn above(&self, count: usize) -> Result<usize, PickleError> {
        let from = self.stack.len().checked_sub(count).ok_or(self.damaged())?;
        match self.marks.last().is_some_and(|mark| *mark > from) {
            true => Err(self.damaged()),
            false => Ok(from),
        }
    }

    /// Where the values above the last mark begin.
    fn marked(&mut self) -> Result<usize, PickleError> {
        let mark = self.marks.pop().ok_or(self.damaged())?;
        match mark > self.stack.len() {
            true => Err(self.damaged()),
            false => Ok(mark),
        }
    }

    /// The values from `from` on leave the stack and become a tuple.
    fn tuple(&mut self, from: usize) -> Result<(), PickleError> {
        let parts = self.extended(Parts::default(), from);
        self.push(Node::List(parts))
    }

    /// The values from `from` on leave the stack and stand behind those that `parts` are.
    fn extended(&mut self, parts: Parts, from: usize) -> Parts {
        let Parts { mut at, length, mut room } = parts;
        let more = self.stack.len().saturating_sub(from);
        let is_last = at + length == self.parts.len();
        if length + more > room && !is_last {
            // They move behind all others; twice the room, so that each moves a bounded number of times.
            let old = at..at + length;
            at = self.parts.len();
            self.parts.extend_from_within(old);
        }
        if at + length == self.parts.len() {
            self.parts.extend_from_slice(self.stack.get(from..).unwrap_or_default());
            let spare = if length > 0 { length + more } else { 0 };
            room = length + more + spare;
            self.parts.resize(at + room, 0);
        } else {
            let to = self.parts.get_mut(at + length..at + length + more).unwrap_or_default();
            to.copy_from_slice(self.stack.get(from..).unwrap_or_default());
        }
        self.stack.truncate(from);
        Parts { at, length: length + more, room }
    }

    fn extend_list(&mut self, from: usize) -> Result<(), PickleError> {
        let (top, Some(Node::List(parts))) = self.below(from)? else { return Err(self.damaged()) };
        let parts = *parts;
        let parts = self.extended(parts, from);
        self.put(top, Node::List(parts))
    }

    fn extend_dict(&mut self, from: usize) -> Result<(), PickleError> {
        let (top, Some(Node::Dict(parts))) = self.below(from)? else { return Err(self.damaged()) };
        let parts = *parts;
        if !(self.stack.len() - from).is_multiple_of(2) {
            return Err(self.damaged());
        }
        let parts = self.extended(parts, from);
        self.put(top, Node::Dict(parts))
    }

    /// The node below the values from `from` on.
    fn below(&self, from: usize) -> Result<(usize, Option<&Node<'a>>), PickleError> {
        let top = from.checked_sub(1).and_then(|place| self.stack.get(place));
        let top = *top.ok_or(self.damaged())? as usize;
        Ok((top, self.nodes.get(top)))
    }

    fn put(&mut self, at: usize, node: Node<'a>) -> Result<(), PickleError> {
        let damaged = self.damaged();
        *self.nodes.get_mut(at).ok_or(damaged)? = node;
        Ok(())
    }
}

/// Why an opcode is not read.
fn refusal(opcode: u8, at: usize) -> PickleError {
    let name = match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82..=0x84 => "EXT",
        b'P' | b'Q' => "PERSID",
        _ => return PickleError::Opcode(opcode, at),
    };
    PickleError::Code(name, at)
}

/// A node to be read.
#[derive(Clone, Copy)]
struct At<'n, 'a> {
    nodes: &'n [Node<'a>],
    parts: &'n [u32],
    node: usize,
    depth: usize,
    steps: &'n Cell<usize>,
}

impl<'n, 'a> At<'n, 'a> {
    fn of(self, node: u32) -> Self {
        At { node: node as usize, depth: self.depth + 1, ..self }
    }

    /// What a list or a dictionary is made of.
    fn values(self, parts: Parts) -> Values<'n, 'a> {
        let rest = self.parts.get(parts.at..parts.at + parts.length).unwrap_or_default();
        Values { of: self, rest: rest.iter() }
    }
}

impl<'de> Deserializer<'de> for At<'_, 'de> {
    type Error = PickleError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        let left = self.steps.get().checked_sub(1);
        self.steps.set(left.ok_or_else(|| {
            PickleError::Form("its parts refer to each other too often".to_owned())
        })?);
        if self.depth > MAX_DEPTH {
            return Err(PickleError::Form(format!("it nests more than {MAX_DEPTH} values")));
        }
        let node = self.nodes.get(self.node).ok_or(PickleError::Damaged(0))?;
        match node {
            Node::None => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Int(value) => visitor.visit_i64(*value),
            Node::Large => Err(PickleError::Form("an integer has more than 8 bytes".to_owned())),
            Node::Float(value) => visitor.visit_f64(*value),
            Node::Text(text) => visitor.visit_borrowed_str(text),
            Node::Bytes => Err(PickleError::Form("a text is not UTF-8".to_owned())),
            Node::List(parts) => visitor.visit_seq(self.values(*parts)),
            Node::Dict(parts) => visitor.visit_map(self.values(*parts)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        match self.nodes.get(self.node) {
            Some(Node::None) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// What nobody asks for is not looked at: it may contain itself.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

struct Values<'n, 'a> {
    of: At<'n, 'a>,
    rest: std::slice::Iter<'n, u32>,
}

impl<'a> SeqAccess<'a> for Values<'_, 'a> {
    type Error = PickleError;

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, PickleError> {
        self.rest.next().map(|node| seed.deserialize(self.of.of(*node))).transpose()
    }
}

impl<'a> MapAccess<'a> for Values<'_, 'a> {
    type Error = PickleError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, PickleError> {
        self.rest.next().map(|node| seed.deserialize(self.of.of(*node))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, PickleError> {
        let node = self.rest.next().ok_or(PickleError::Damaged(0))?;
        seed.deserialize(self.of.of(*node))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

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
