//! A pickle's opcodes, which make nodes.
//! Not what is read from the nodes (`values`).

use std::collections::HashMap;

use super::{Node, Parts, PickleError};

/// The most values, references, marks and things remembered: a dump of 20,000 calls has some two million.
const MAX_VALUES: usize = 1 << 23;

/// What runs them.
#[derive(Default)]
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    pub(super) nodes: Vec<Node<'a>>,
    /// The parts of all lists and dictionaries.
    pub(super) parts: Vec<u32>,
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
    /// For these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Machine { bytes, ..Machine::default() }
    }

    /// Runs them all: the number of the node that they leave.
    ///
    /// # Errors
    /// [`PickleError`].
    pub(super) fn run(&mut self) -> Result<usize, PickleError> {
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
