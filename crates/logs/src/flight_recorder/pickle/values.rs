//! Nodes as serde reads them, each step counted.
//! Not how they are made (`opcodes`).

use std::cell::Cell;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Node, Parts, PickleError};

/// The deepest nesting of values: a dump needs six.
const MAX_DEPTH: usize = 64;

/// A node to be read.
#[derive(Clone, Copy)]
pub(super) struct At<'n, 'a> {
    pub(super) nodes: &'n [Node<'a>],
    pub(super) parts: &'n [u32],
    pub(super) node: usize,
    pub(super) depth: usize,
    /// Steps that are left.
    pub(super) steps: &'n Cell<usize>,
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
