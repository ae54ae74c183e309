//! Strips the markup of web pages, spreadsheets and papers from a row: tags, bars, quotes, semicolons,
//! thousands marks and decimal commas.
//! Not prefixes of a line: rows are found behind any prefix.

use std::borrow::Cow;

use busbw_core::DataType;
use memchr::{memchr_iter, memchr2, memchr3};

/// The line with cells separated by blanks and figures with a decimal point; none where it has no markup.
/// Only for lines that are not recognised as they are.
pub(super) fn strip_markup(line: &str) -> Option<String> {
    if !line.bytes().any(|byte| b"<&|;,`*\"'[\\_.".contains(&byte)) {
        return None;
    }
    let untagged = without_tags(line);
    let unmarked = without_marks(&untagged);
    let plain = figures(&split_cells(&unmarked));
    (!plain.is_empty() && plain != line.trim()).then_some(plain)
}

/// Names of the HTML elements that wrap such text.
const ELEMENTS: [&str; 18] = [
    "a", "b", "br", "code", "div", "font", "i", "li", "p", "pre", "samp", "span", "strong",
    "table", "tbody", "td", "th", "tr",
];

/// Replaces HTML tags by blanks, and the most common entities by their characters.
fn without_tags(line: &str) -> Cow<'_, str> {
    if memchr2(b'<', b'&', line.as_bytes()).is_none() {
        return line.into();
    }
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('<') {
        kept.push_str(before);
        let name = after.trim_start_matches('/');
        let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        let known = name
            .get(..end)
            .is_some_and(|name| ELEMENTS.iter().any(|element| element.eq_ignore_ascii_case(name)));
        match after.split_once('>') {
            Some((_, after)) if known => {
                kept.push(' ');
                rest = after;
            }
            _ => {
                kept.push('<');
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    if !kept.contains('&') {
        return kept.into();
    }
    [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(kept, |text, (entity, plain)| text.replace(entity, plain))
    .into()
}

/// Without Markdown's bold and code, and colours of which the escape was lost (`[32m`, `^[[0m`).
fn without_marks(line: &str) -> Cow<'_, str> {
    if memchr3(b'*', b'`', b'[', line.as_bytes()).is_none() {
        return line.into();
    }
    let line = line.replace("**", " ").replace('`', " ").replace("^[[", "[");
    let mut kept = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some((before, after)) = rest.split_once('[') {
        kept.push_str(before);
        let code = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        if let Some(after) = code.strip_prefix('m').or_else(|| code.strip_prefix('K')) {
            kept.push(' ');
            rest = after;
        } else {
            kept.push('[');
            rest = after;
        }
    }
    kept.push_str(rest);
    kept.into()
}

/// Minimum of separators in a line before they count as cell borders.
const MIN_SEPARATORS: usize = 6;

/// Separates cells by blanks.
fn split_cells(line: &str) -> Cow<'_, str> {
    let many = |mark: u8| memchr_iter(mark, line.as_bytes()).count() >= MIN_SEPARATORS;
    if let Some(mark) = [b'|', b';', b'&'].into_iter().find(|mark| many(*mark)) {
        let blank = line.replace([char::from(mark), '"'], " ");
        return blank.trim_end_matches(['\\', ' ']).to_owned().into();
    }
    if memchr2(b'"', b',', line.as_bytes()).is_none() {
        return line.into();
    }
    // Where blanks part cells as well, commas are those of numbers.
    let blanks = line.split_ascii_whitespace().filter(|word| !word.ends_with(',')).count();
    if !many(b',') || blanks > MIN_SEPARATORS {
        return line.replace('"', " ").replace(", ", " ").into();
    }
    let mut quoted = false;
    let cell = |c: char| match c {
        '"' => {
            quoted = !quoted;
            None
        }
        ',' => (!quoted).then_some(' '),
        c => Some(c),
    };
    line.chars().filter_map(cell).collect::<String>().into()
}

/// Numbers with a decimal point and without thousands marks, around a type's name.
fn figures(line: &str) -> String {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some(at) = words.iter().position(|word| DataType::from_name(word).is_some()) else {
        return words.join(" ");
    };
    let plain = words.iter().enumerate().map(|(index, word)| match index {
        _ if index + 2 >= at && index < at => whole(word),
        _ if index > at => figure(word),
        _ => (*word).to_owned(),
    });
    plain.collect::<Vec<String>>().join(" ")
}

const THOUSANDS_MARKS: [char; 4] = [',', '.', '\'', '_'];

/// `1,048,576`, `1.048.576` or `1'048'576` without the marks; anything else as it is.
fn whole(word: &str) -> String {
    if are_thousands(word) { word.replace(THOUSANDS_MARKS, "") } else { word.to_owned() }
}

/// One to three digits, then threes behind one and the same mark.
fn are_thousands(word: &str) -> bool {
    let mut groups = word.split(THOUSANDS_MARKS);
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let one_mark = THOUSANDS_MARKS.iter().filter(|mark| word.contains(**mark)).count() == 1;
    one_mark
        && groups.next().is_some_and(|first| (1..=3).contains(&first.len()) && digits(first))
        && groups.all(|group| group.len() == 3 && digits(group))
}

/// `1.234,56`, `1,234.56` or `12,34` with a point alone. Three digits behind one comma are thousands: the
/// programs print two decimals at most.
fn figure(word: &str) -> String {
    if word.parse::<f64>().is_ok() || !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    if !word.contains('.') && are_thousands(word) {
        return word.replace(THOUSANDS_MARKS, "");
    }
    match word.rfind(['.', ',']) {
        Some(at) => {
            let (before, after) = (&word[..at], &word[at + 1..]);
            if before.contains(THOUSANDS_MARKS) && !are_thousands(before) {
                return word.to_owned();
            }
            format!("{}.{after}", before.replace(THOUSANDS_MARKS, ""))
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_kind() {
        let plain = "1048576 262144 float sum -1 1234.5 849.36 1486.38 0";
        for marked_up in [
            "1048576;262144;float;sum;-1;1234,5;849,36;1486,38;0",
            "1048576,262144,float,sum,-1,1234.5,849.36,1486.38,0",
            "\"1,048,576\",\"262,144\",float,sum,-1,1234.5,849.36,1486.38,0",
            "\"1048576\",\"262144\",\"float\",\"sum\",\"-1\",\"1234.5\",\"849.36\",\"1486.38\",\"0\"",
            "  1,048,576   262,144  float  sum  -1  1,234.5  849.36 1,486.38  0",
            "  1.048.576   262.144  float  sum  -1  1.234,5  849,36 1.486,38  0",
            "1'048'576 262'144 float sum -1 1'234.5 849.36 1486.38 0",
            "1_048_576 262_144 float sum -1 1234.5 849.36 1486.38 0",
            "<tr><td>1048576</td><td>262144</td><td>float</td><td>sum</td><td>-1</td><td class=\"x\">1234.5</td><td>849.36</td><td>1486.38</td><td>0</td></tr>",
            "1048576&nbsp;&nbsp;262144&nbsp;float sum -1 1234.5 849.36 1486.38 0<br/>",
            "| **1048576** | **262144** | `float` | sum | -1 | 1234.5 | 849.36 | 1486.38 | 0 |",
            "1048576 & 262144 & float & sum & -1 & 1234.5 & 849.36 & 1486.38 & 0 \\\\",
            "[32m1048576 262144 float sum -1 1234.5 849.36 1486.38 0[0m",
        ] {
            assert_eq!(strip_markup(marked_up).as_deref(), Some(plain), "{marked_up}");
        }
        assert_eq!(strip_markup("12 words follow"), None);
        assert_eq!(figure("1,234"), "1234");
        assert_eq!(figure("12,3,4"), "12,3,4");
        assert_eq!(without_tags("[1,0]<stdout>: <x> a<b"), "[1,0]<stdout>: <x> a<b");
    }
}
