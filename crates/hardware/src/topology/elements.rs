//! Elements and attributes of the XML that NCCL and RCCL write, with the line in every error.
//! Not their meaning.

use roxmltree::{Document, Node, ParsingOptions};

use super::Refused;

/// Maximum of elements in a file: NCCL itself accepts 256 a host.
const MAX_ELEMENTS: usize = 4096;

/// Maximum nesting depth: real trees have fewer than 20 levels.
const MAX_DEPTH: usize = 64;

/// A parsed document.
///
/// # Errors
/// The XML is damaged (with the line), or has too many or too deeply nested elements.
pub fn parse(text: &str) -> Result<Document<'_>, Refused> {
    if let Some(line) = too_deep(text) {
        return Err(Refused(format!("line {line}: elements lie more than {MAX_DEPTH} deep")));
    }
    // Without DTDs there are no entities that grow.
    let most = u32::try_from(MAX_ELEMENTS * 4).unwrap_or(u32::MAX);
    let options = ParsingOptions { nodes_limit: most, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|why| {
        // The reason may quote a line's end; a refusal is one line.
        let why = why.to_string().replace(char::is_control, " ");
        Refused(format!("it is no well-formed XML: {why}"))
    })?;
    let elements = document.descendants().filter(Node::is_element).count();
    if elements > MAX_ELEMENTS {
        return Err(Refused(format!("it has {elements} elements, more than {MAX_ELEMENTS}")));
    }
    Ok(document)
}

/// The line where tags nest too deep. The parser below calls itself for every level, so this is counted
/// before it sees the text.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end..]);
            continue;
        }
        match rest.as_bytes().first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') => {}
            _ => {
                let tag = rest.find(['<', '>']).map_or(rest, |end| &rest[..end]);
                if tag.ends_with('/') && depth < MAX_DEPTH {
                    continue;
                }
                depth += 1;
            }
        }
        if depth > MAX_DEPTH {
            let before = text.len() - rest.len();
            return Some(1 + text[..before].matches('\n').count());
        }
    }
    None
}

/// An element.
#[derive(Clone, Copy)]
pub struct Element<'a, 'input>(pub Node<'a, 'input>);

impl<'a, 'input> Element<'a, 'input> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.0.tag_name().name()
    }

    /// Elements in it.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = Element<'a, 'input>> {
        self.0.children().filter(Node::is_element).map(Element)
    }

    /// An error about it, with its line.
    pub fn refuse(&self, why: impl std::fmt::Display) -> Refused {
        let line = self.0.document().text_pos_at(self.0.range().start).row;
        Refused(format!("line {line}: <{}> {why}", self.name()))
    }

    /// An attribute's text; none where it is missing or empty.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.0.attribute(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// An attribute that must be there.
    pub fn needed(&self, name: &str) -> Result<&'a str, Refused> {
        self.text(name).ok_or_else(|| self.refuse(format_args!("has no {name}")))
    }

    /// A whole number, decimal or hexadecimal with 0x.
    pub fn number<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>, Refused> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = match text.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => text.parse::<i128>().ok(),
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        let complaint = || self.refuse(format_args!("has {name}=\"{text}\", which is no number"));
        number.map(Some).ok_or_else(complaint)
    }

    /// The same where nothing depends on it and people hide it before they publish a file (`0xREDACTED`, `0x****`): none then.
    pub fn number_or_hidden<T: TryFrom<i128>>(&self, name: &str) -> Option<T> {
        self.number(name).ok().flatten()
    }

    /// A number with a point, not negative.
    pub fn decimal(&self, name: &str) -> Result<Option<f64>, Refused> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let complaint = || self.refuse(format_args!("has {name}=\"{text}\", which is no number"));
        number.map(Some).ok_or_else(complaint)
    }

    /// 0 or 1.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Refused> {
        Ok(self.number::<i64>(name)?.map(|number| number != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded() {
        let deep = "<a>".repeat(200_000);
        assert_eq!(parse(&deep).unwrap_err().to_string(), "line 1: elements lie more than 64 deep");
        let wide = format!("<a>{}</a>", "<b/>".repeat(5000));
        assert!(parse(&wide).unwrap_err().to_string().contains("more than 4096"), "wide");
        assert!(parse(&format!("<a>{}</a>", "<b/>".repeat(100))).is_ok());
        assert!(parse(&format!("<!--{}--><a/>", "<b>".repeat(100))).is_ok());
    }

    #[test]
    fn no_entities() {
        let bomb = "<!DOCTYPE a [<!ENTITY x \"xxxx\">]><a>&x;</a>";
        assert!(parse(bomb).unwrap_err().to_string().starts_with("it is no well-formed XML"));
    }
}
