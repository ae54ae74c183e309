//! The example of docs/watch.md: every line is read, and comes back as it stands there.
//! Not the rest of the document.
#![allow(clippy::unwrap_used)]

use busbw_watch_file::{Line, WatchFile};

#[test]
fn the_example_is_a_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");
    let document = std::fs::read_to_string(path).unwrap();
    let begin = document.find("```json\n{\"kind\":\"process\"").unwrap() + "```json\n".len();
    let example = &document[begin..begin + document[begin..].find("```").unwrap()];
    let file = WatchFile::parse(example.as_bytes()).unwrap();
    assert_eq!((file.unread, file.torn, file.lines.len()), (0, false, 9));
    for line in example.lines() {
        let read: Line = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
    let kinds: std::collections::BTreeSet<_> =
        file.lines.iter().map(std::mem::discriminant).map(|one| format!("{one:?}")).collect();
    assert_eq!(kinds.len(), 8, "each kind of line but the first");
}
