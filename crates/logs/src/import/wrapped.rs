//! Lines of text that a collector of logs keeps in JSON: Docker, Loki, CloudWatch, Google Cloud, Datadog,
//! journald, or the result of a program that kept another one's output.
//! Not what the lines say, and not busbw's own JSON (`json`).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Names under which collectors keep a line.
const NAMES: [&str; 12] = [
    "log",
    "line",
    "message",
    "msg",
    "MESSAGE",
    "textPayload",
    "text",
    "body",
    "_raw",
    "stdout",
    "stderr",
    "output",
];

/// Hands on every text that an object or a list holds in place of lines, in order; an error where it is
/// no JSON.
///
/// # Errors
/// What is wrong with the JSON.
pub(super) fn texts(json: &str, hand: &mut dyn FnMut(&str)) -> Result<(), serde_json::Error> {
    let mut from = serde_json::Deserializer::from_str(json);
    Texts { hand, named: false }.deserialize(&mut from)?;
    from.end()
}

/// The text in an object alone on a line.
pub(super) fn text(line: &str) -> Option<String> {
    let mut found = None::<String>;
    let mut add = |text: &str| {
        let found = found.get_or_insert_default();
        if !found.is_empty() {
            found.push('\n');
        }
        found.push_str(text);
    };
    texts(line, &mut add).ok()?;
    found
}

struct Texts<'h> {
    hand: &'h mut dyn FnMut(&str),
    /// The value has a name of a line, or is one of a list.
    named: bool,
}

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        // Loki lists a time beside each line.
        let is_time = || text.bytes().all(|byte| byte.is_ascii_digit());
        if text.contains('\n') || (self.named && !is_time()) {
            (self.hand)(text);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let named = NAMES.contains(&name.as_str());
            map.next_value_seed(Texts { hand: self.hand, named })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Texts { hand: self.hand, named: true })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_collector() {
        for json in [
            r#"{"log":"8 2 float\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}"#,
            r#"{"time":"2026-01-02T03:04:05Z","stream":"stdout","log":"8 2 float\n"}"#,
            r#"{"labels":{"pod":"x"},"line":"8 2 float","timestamp":"1767323045"}"#,
            r#"{"content":{"message":"8 2 float","service":"nccl"},"id":"x"}"#,
            r#"{"textPayload":"8 2 float","insertId":"x","n":[1,2.5,null,true]}"#,
            r#"{"stream":{},"values":[["1767323045123000000","8 2 float"]]}"#,
        ] {
            assert_eq!(text(json).as_deref().map(str::trim_end), Some("8 2 float"), "{json}");
        }
        assert_eq!(text(r#"{"a":"hello","b":1}"#), None);
        assert_eq!(text(r#"{"log":"cut"#), None);
        assert_eq!(
            text(r#"{"events":[{"message":"one"},{"message":"two"}]}"#).as_deref(),
            Some("one\ntwo")
        );
    }
}
