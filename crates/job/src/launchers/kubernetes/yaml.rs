//! A document of YAML with comments, written so that people can commit it and kubectl reads the same.
//! Not a reader of YAML (`busbw-lint` has one), and not what a document says (`manifest`).

use std::fmt::{self, Write};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A number or a truth value.
    Plain(String),
    /// A text, quoted where YAML would read something else.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys with values.
    Map(Map),
}

/// Keys with values, in the order in which they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Map(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    comment: String,
    key: String,
    value: Node,
}

impl Map {
    /// With one more key.
    pub(super) fn with(self, key: &str, value: impl Into<Node>) -> Map {
        self.about("", key, value)
    }

    /// With one more key below a comment.
    pub(super) fn about(mut self, comment: &str, key: &str, value: impl Into<Node>) -> Map {
        let (comment, key) = (comment.to_owned(), key.to_owned());
        self.0.push(Entry { comment, key, value: value.into() });
        self
    }

    /// With one more key, where there is a value for it.
    pub(super) fn maybe(self, key: &str, value: Option<impl Into<Node>>) -> Map {
        self.maybe_about("", key, value)
    }

    /// With one more key below a comment, where there is a value for it.
    pub(super) fn maybe_about(
        self,
        comment: &str,
        key: &str,
        value: Option<impl Into<Node>>,
    ) -> Map {
        match value {
            Some(value) => self.about(comment, key, value),
            None => self,
        }
    }

    /// With all keys of another one behind its own.
    pub(super) fn and(mut self, other: Map) -> Map {
        self.0.extend(other.0);
        self
    }

    /// Without a key.
    pub(super) fn without(mut self, key: &str) -> Map {
        self.0.retain(|entry| entry.key != key);
        self
    }

    /// With another value of `key`.
    pub(super) fn replaced(mut self, key: &str, value: impl Into<Node>) -> Map {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.key == key) {
            entry.value = value.into();
        }
        self
    }

    /// With the list of `key` begun by `first`.
    pub(super) fn first_of(mut self, key: &str, first: Map) -> Map {
        if let Some(Entry { value: Node::List(all), .. }) =
            self.0.iter_mut().find(|entry| entry.key == key)
        {
            all.insert(0, Node::Map(first));
        }
        self
    }

    /// With the map of `key` changed.
    pub(super) fn within(mut self, key: &str, change: impl FnOnce(Map) -> Map) -> Map {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.key == key) {
            entry.value = match std::mem::replace(&mut entry.value, Node::Plain(String::new())) {
                Node::Map(map) => Node::Map(change(map)),
                // A list of one map, as a pod's containers.
                Node::List(mut all) if all.len() == 1 => match all.remove(0) {
                    Node::Map(map) => Node::List(vec![Node::Map(change(map))]),
                    other => Node::List(vec![other]),
                },
                other => other,
            };
        }
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize, first_inline: bool) -> fmt::Result {
        for (place, Entry { comment, key, value }) in self.0.iter().enumerate() {
            let is_inline = first_inline && place == 0;
            if !comment.is_empty() && !is_inline {
                writeln!(f, "{:1$}# {comment}", "", depth)?;
            }
            if !is_inline {
                write!(f, "{:1$}", "", depth)?;
            }
            write!(f, "{}:", scalar(key))?;
            value.write(f, depth)?;
        }
        Ok(())
    }
}

impl Node {
    /// Behind a key or a dash, to the end of the line, with its own lines below `depth`.
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        match self {
            Node::Plain(text) => writeln!(f, " {text}"),
            Node::Text(text) => writeln!(f, " {}", scalar(text)),
            Node::List(all) if all.is_empty() => f.write_str(" []\n"),
            Node::Map(map) if map.0.is_empty() => f.write_str(" {}\n"),
            Node::List(all) => {
                f.write_char('\n')?;
                all.iter().try_for_each(|one| {
                    write!(f, "{:1$}-", "", depth)?;
                    match one {
                        Node::Map(map) if !map.0.is_empty() => {
                            f.write_char(' ')?;
                            map.write(f, depth + 2, true)
                        }
                        other => other.write(f, depth + 2),
                    }
                })
            }
            Node::Map(map) => {
                f.write_char('\n')?;
                map.write(f, depth + 2, false)
            }
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0, false)
    }
}

/// As YAML 1.1 and 1.2 read it as a string: plain where that is certain, else as JSON writes it, which YAML reads.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    match is_plain {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Node {
        Node::Text(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Node {
        Node::Text(text)
    }
}

impl From<u64> for Node {
    fn from(number: u64) -> Node {
        Node::Plain(number.to_string())
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Node {
        Node::Plain(value.to_string())
    }
}

impl From<Map> for Node {
    fn from(map: Map) -> Node {
        Node::Map(map)
    }
}

impl<N: Into<Node>> From<Vec<N>> for Node {
    fn from(all: Vec<N>) -> Node {
        Node::List(all.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_maps_and_comments() {
        let container = Map::default()
            .with("name", "busbw")
            .with("args", vec!["all_reduce", "-b", "8"])
            .about("a part", "resources", Map::default().with("nvidia.com/gpu", 8))
            .with("env", Node::List(Vec::new()));
        let document = Map::default()
            .about("what it is", "kind", "Job")
            .with("spec", Map::default().with("containers", vec![container]));
        let expected = "# what it is\nkind: Job\nspec:\n  containers:\n  - name: busbw\n    args:\n    - all_reduce\n    - \"-b\"\n    - \"8\"\n    # a part\n    resources:\n      nvidia.com/gpu: 8\n    env: []\n";
        assert_eq!(document.to_string(), expected);
    }

    /// What would be a number, a truth value, a comment or another structure is quoted.
    #[test]
    fn texts_stay_texts() {
        for text in [
            "8", "1e3", "0x1f", "true", "No", "~", "", " a", "a: b", "a #b", "-", "*a", "1.34",
            "é", "a\nb",
        ] {
            let written = scalar(text);
            assert!(written.starts_with('"'), "{written}");
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
        assert_eq!(scalar("nvidia.com/gpu"), "nvidia.com/gpu");
        assert_eq!(scalar("/dev/shm"), "/dev/shm");
    }
}
