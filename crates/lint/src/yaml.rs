//! Reads settings out of YAML and JSON: `env:` lists of name and value, and `KEY: value` maps.
//! It is not a YAML parser: it reads lines, in which both forms are written.

/// A setting found in YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'t> {
    pub(crate) line: u32,
    pub(crate) name: &'t str,
    pub(crate) value: Option<&'t str>,
    pub(crate) form: EntryForm,
}

/// Which of the two forms it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryForm {
    /// `- name: X` with `value: y`.
    List,
    /// `X: y`.
    Map,
}

/// Every setting; names are not judged here.
pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let mut item = Item::default();
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let trimmed = line.trim_start();
        let fresh = trimmed.starts_with("- ") || trimmed.starts_with(['{', '}']);
        if fresh || trimmed.is_empty() {
            item.finish(&mut found);
        }
        let body = trimmed.trim_start_matches(['-', ' ']);
        if let Some(flow) = body.strip_prefix('{').filter(|flow| flow.contains(':')) {
            for part in flow.trim_end().trim_end_matches([',', '}', ']']).split(", ") {
                item.take(number, part);
            }
            item.finish(&mut found);
            continue;
        }
        if item.take(number, body) {
            continue;
        }
        if let Some((name, value)) = pair(body) {
            found.push(Entry { line: number, name, value, form: EntryForm::Map });
        }
    }
    item.finish(&mut found);
    found
}

/// Whether the text is YAML rather than a script: then `$X` is a template's placeholder.
pub(crate) fn looks_like_yaml(text: &str) -> bool {
    let marks = ["apiVersion:", "kind:", "services:", "metadata:", "spec:"];
    text.lines().take(200).any(|line| marks.iter().any(|mark| line.starts_with(mark)))
}

/// A list item being read; `name` and `value` may come in either order.
#[derive(Debug, Default)]
struct Item<'t> {
    name: Option<(u32, &'t str)>,
    value: Option<&'t str>,
}

impl<'t> Item<'t> {
    fn take(&mut self, line: u32, body: &'t str) -> bool {
        match pair(body) {
            Some(("name", Some(name))) => self.name = Some((line, name)),
            Some(("value", value)) => self.value = Some(value.unwrap_or("")),
            _ => return false,
        }
        true
    }

    fn finish(&mut self, found: &mut Vec<Entry<'t>>) {
        let Item { name, value } = std::mem::take(self);
        if let Some((line, name)) = name {
            found.push(Entry { line, name, value, form: EntryForm::List });
        }
    }
}

/// `key: value`, without quotes and comment.
fn pair(body: &str) -> Option<(&str, Option<&str>)> {
    let (key, value) = body.split_once(':')?;
    let key = unquoted(key.trim());
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    // A URL or a Windows path has no blank after its colon.
    if !plain || key.is_empty() || !(value.is_empty() || value.starts_with([' ', '\t', '"'])) {
        return None;
    }
    let value = without_comment(value.trim());
    Some((key, (!value.is_empty()).then(|| unquoted(value))))
}

fn without_comment(value: &str) -> &str {
    if let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let inside = &value[1..];
        let end = closing(inside, quote).map_or(value.len(), |at| at + 2);
        return &value[..end];
    }
    let value = value.find(" #").map_or(value, |at| &value[..at]);
    value.trim_end().trim_end_matches(',')
}

/// Where the quote closes; a backslash hides the next character of a double-quoted value.
fn closing(inside: &str, quote: char) -> Option<usize> {
    let mut hidden = false;
    inside.char_indices().find_map(|(at, c)| {
        let closes = c == quote && !hidden;
        hidden = quote == '"' && c == '\\' && !hidden;
        closes.then_some(at)
    })
}

fn unquoted(text: &str) -> &str {
    let strip = |quote| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    strip('"').or_else(|| strip('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(u32, &str, Option<&str>)> {
        entries(text).into_iter().map(|e| (e.line, e.name, e.value)).collect()
    }

    #[test]
    fn kubernetes_lists() {
        let text = "env:\n- name: NCCL_DEBUG\n  value: \"INFO\" # loud\n- value: eth0\n  name: B\n";
        let got = found(text);
        assert!(got.contains(&(2, "NCCL_DEBUG", Some("INFO"))), "{got:?}");
        assert!(got.contains(&(5, "B", Some("eth0"))), "{got:?}");
    }

    #[test]
    fn a_value_from_elsewhere_is_unknown() {
        let got = found("- name: NCCL_SOCKET_IFNAME\n  valueFrom:\n    fieldRef: x\n");
        assert!(got.contains(&(1, "NCCL_SOCKET_IFNAME", None)), "{got:?}");
    }

    #[test]
    fn flow_and_json_items() {
        assert_eq!(found("- {name: A, value: \"1\"}"), [(1, "A", Some("1"))]);
        assert_eq!(found("{\"name\": \"A\", \"value\": \"x\"},"), [(1, "A", Some("x"))]);
    }

    #[test]
    fn maps() {
        assert_eq!(found("  NCCL_DEBUG: INFO\n"), [(1, "NCCL_DEBUG", Some("INFO"))]);
        assert_eq!(found("  \"UCX_TLS\": 'rc,tcp' # x"), [(1, "UCX_TLS", Some("rc,tcp"))]);
        assert!(found("see http://x/y").is_empty());
    }

    #[test]
    fn odd_ends_do_not_panic() {
        for text in [":", "a:", "\":\"", "a: \"", "a: '\\", "- {", "- {:", "“: ”"] {
            entries(text);
        }
    }
}
