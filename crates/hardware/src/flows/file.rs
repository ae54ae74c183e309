//! Flow files: links, flows with their paths, and what changes meanwhile, in TOML. Every refusal names the line.
//! Not a fabric (`fabric`), whose links and paths follow from its switches: here each is named. No reading of files.
//!
//! The format with an example: docs/fabric.md.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;

use super::{BYTES_PER_US, Change, Changed, Flow, Outcome, Share, merge, simulate_changing};

/// Why a text is no flow file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct BadFlowFile {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// The most bytes, and microseconds, of which sums stay exact to a byte: 2^53 is 9 × 10^15.
const MOST: f64 = 1e15;

/// The highest rate that is taken, Gb/s.
const MOST_GBPS: f64 = 1e6;

/// What a link carries for the payload of a full packet.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Bytes of data.
    pub payload: f64,
    /// Bytes that the link's rate counts.
    pub wire: f64,
}

/// What a flow file says.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowFile {
    /// Names of links.
    pub links: Vec<String>,
    /// Bytes per microsecond of each link.
    pub capacity: Vec<f64>,
    /// Names of flows.
    pub names: Vec<String>,
    /// The flows. A share's weight has the headers.
    pub flows: Vec<Flow>,
    /// What changes, in the order of time.
    pub changes: Vec<Change>,
    /// Headers, where the file says them.
    pub packet: Option<Packet>,
}

impl FlowFile {
    /// When each flow arrives.
    pub fn simulate(&self) -> Outcome {
        simulate_changing(&self.capacity, &self.flows, &self.changes, 0.0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    packet: Option<Spanned<Packet>>,
    links: Vec<FileLink>,
    flows: Vec<FileFlow>,
    #[serde(default)]
    changes: Vec<Spanned<FileChange>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    name: Spanned<String>,
    rate: Spanned<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFlow {
    name: Spanned<String>,
    bytes: Spanned<f64>,
    path: Spanned<Vec<Spanned<String>>>,
    start_us: Option<Spanned<f64>>,
    latency_us: Option<Spanned<f64>>,
    #[serde(default)]
    after: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileChange {
    at_us: Spanned<f64>,
    link: Option<Spanned<String>>,
    rate: Option<Spanned<f64>>,
    flow: Option<Spanned<String>>,
    path: Option<Spanned<Vec<Spanned<String>>>>,
}

/// Where in the text, and why.
type Fault = (usize, String);

/// Reads a flow file.
///
/// # Errors
/// The line at fault, and what is wrong.
pub fn parse(text: &str) -> Result<FlowFile, BadFlowFile> {
    let line = |offset: usize| {
        let line = text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1;
        line.min(text.split('\n').count().max(1))
    };
    let file: File = toml::from_str(text).map_err(|error| BadFlowFile {
        line: line(error.span().map_or(0, |span| span.start)),
        message: error.message().trim_end().replace('\n', "; "),
    })?;
    build(&file).map_err(|(offset, message)| BadFlowFile { line: line(offset), message })
}

fn build(file: &File) -> Result<FlowFile, Fault> {
    let weight = match &file.packet {
        None => 1.0,
        Some(packet) => {
            let Packet { payload, wire } = *packet.get_ref();
            if !(payload > 0.0 && wire >= payload && wire <= 1e6) {
                let why = format!("a packet of {wire} B cannot carry {payload} B of payload");
                return Err((packet.span().start, why));
            }
            wire / payload
        }
    };
    let links = numbered(file.links.iter().map(|link| &link.name), "links")?;
    let path_of = |path: &Spanned<Vec<Spanned<String>>>| path_of(path, &links, weight);
    let flows = numbered(file.flows.iter().map(|flow| &flow.name), "flows")?;
    let mut built = Vec::new();
    for (at, flow) in file.flows.iter().enumerate() {
        let mut after = Vec::new();
        for name in &flow.after {
            // Only flows that stand before it, so that none waits for itself.
            match flows.get(name.get_ref().as_str()) {
                Some(&before) if (before as usize) < at => after.push(before),
                Some(_) => {
                    let why = format!("flow `{}` is not named before this one", name.get_ref());
                    return Err((name.span().start, why));
                }
                None => return Err(unknown(name, "flow")),
            }
        }
        built.push(Flow {
            bytes: within(&flow.bytes, MOST, "bytes")?,
            path: path_of(&flow.path)?,
            latency_us: moment(flow.latency_us.as_ref())?,
            start_us: moment(flow.start_us.as_ref())?,
            after,
        });
    }
    let mut changes = Vec::new();
    for change in &file.changes {
        let what = match change.get_ref() {
            FileChange { link: Some(link), rate: Some(rate), flow: None, path: None, .. } => {
                let number = links.get(link.get_ref().as_str());
                let number = *number.ok_or_else(|| unknown(link, "link"))?;
                Changed::Capacity { link: number, capacity: rate_of(rate)? }
            }
            FileChange { flow: Some(flow), path: Some(path), link: None, rate: None, .. } => {
                let number = flows.get(flow.get_ref().as_str());
                let number = *number.ok_or_else(|| unknown(flow, "flow"))?;
                Changed::Path { flow: number, path: path_of(path)? }
            }
            _ => {
                let why = "a change has `link` and `rate`, or `flow` and `path`".to_owned();
                return Err((change.span().start, why));
            }
        };
        changes.push(Change { at_us: moment(Some(&change.get_ref().at_us))?, what });
    }
    changes.sort_by(|a, b| a.at_us.total_cmp(&b.at_us));
    let rates = file.links.iter().map(|link| rate_of(&link.rate));
    Ok(FlowFile {
        capacity: rates.collect::<Result<_, _>>()?,
        links: file.links.iter().map(|link| link.name.get_ref().clone()).collect(),
        names: file.flows.iter().map(|flow| flow.name.get_ref().clone()).collect(),
        flows: built,
        changes,
        packet: file.packet.as_ref().map(|packet| *packet.get_ref()),
    })
}

/// The number of each name.
fn numbered<'f>(
    names: impl Iterator<Item = &'f Spanned<String>>,
    what: &str,
) -> Result<HashMap<&'f str, u32>, Fault> {
    let mut numbers = HashMap::new();
    for (at, name) in names.enumerate() {
        if numbers.insert(name.get_ref().as_str(), at as u32).is_some() {
            return Err((name.span().start, format!("two {what} are called `{}`", name.get_ref())));
        }
    }
    match numbers.is_empty() {
        true => Err((0, format!("there are no {what}"))),
        false => Ok(numbers),
    }
}

fn path_of(
    path: &Spanned<Vec<Spanned<String>>>,
    links: &HashMap<&str, u32>,
    weight: f64,
) -> Result<Vec<Share>, Fault> {
    if path.get_ref().is_empty() {
        return Err((path.span().start, "a path has one link at least".to_owned()));
    }
    let share = |name: &Spanned<String>| {
        let link = links.get(name.get_ref().as_str());
        link.map(|&link| Share { link, weight }).ok_or_else(|| unknown(name, "link"))
    };
    let mut path: Vec<Share> = path.get_ref().iter().map(share).collect::<Result<_, _>>()?;
    merge(&mut path);
    Ok(path)
}

fn unknown(name: &Spanned<String>, what: &str) -> Fault {
    (name.span().start, format!("no {what} is called `{}`", name.get_ref()))
}

/// Bytes per microsecond of a rate in Gb/s; 0 is a link that carries nothing.
fn rate_of(rate: &Spanned<f64>) -> Result<f64, Fault> {
    Ok(within(rate, MOST_GBPS, "a rate in Gb/s")? / 8.0 * BYTES_PER_US)
}

fn moment(value: Option<&Spanned<f64>>) -> Result<f64, Fault> {
    value.map_or(Ok(0.0), |value| within(value, MOST, "microseconds"))
}

fn within(value: &Spanned<f64>, most: f64, what: &str) -> Result<f64, Fault> {
    match *value.get_ref() {
        number if (0.0..=most).contains(&number) => Ok(number),
        number => Err((value.span().start, format!("{number} is not {what}: 0 to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
[packet]
payload = 1000
wire = 1250
[[links]]
name = 'a'
rate = 0.8
[[links]]
name = 'b'
rate = 0.8
[[flows]]
name = 'one'
bytes = 1000
path = ['a']
[[flows]]
name = 'two'
bytes = 1000
path = ['a', 'b']
";

    /// 0.8 Gb/s are 100 B/us, 80 of data: both flows have 40 until 25 us.
    #[test]
    fn headers_count() {
        let outcome = parse(TWO).expect("file").simulate();
        for at in &outcome.arrival_us {
            assert!((at - 25.0).abs() < 1e-9, "{outcome:?}");
        }
    }

    /// At 5 us, with 800 B left each, flow two leaves link a: 80 each. At 10 us, with 400 left each, link b is halved: 40.
    #[test]
    fn changes_in_order_of_time() {
        let text = format!(
            "{TWO}
[[changes]]
at_us = 10
link = 'b'
rate = 0.4
[[changes]]
at_us = 5
flow = 'two'
path = ['b']
"
        );
        let outcome = parse(&text).expect("file").simulate();
        for (at, expected) in outcome.arrival_us.iter().zip([15.0, 20.0]) {
            assert!((at - expected).abs() < 1e-9, "{outcome:?}");
        }
        assert_eq!(outcome.held_by, [Some(0), Some(1)]);
    }

    #[test]
    fn a_link_that_comes_back() {
        let text = TWO.replace("name = 'b'\nrate = 0.8", "name = 'b'\nrate = 0");
        let never = parse(&text).expect("file").simulate();
        assert!(never.arrival_us[1].is_infinite());
        let text = format!("{text}\n[[changes]]\nat_us = 1000\nlink = 'b'\nrate = 0.8\n");
        let outcome = parse(&text).expect("file").simulate();
        // Link b is full at 0 before it comes back; flow one has link a for itself.
        assert!((outcome.arrival_us[0] - 12.5).abs() < 1e-9, "{outcome:?}");
        assert!((outcome.arrival_us[1] - 1012.5).abs() < 1e-9, "{outcome:?}");
    }

    #[test]
    fn nonsense_names_its_line() {
        let change = |what: &str| format!("{TWO}[[changes]]\nat_us = 1\n{what}\n");
        for (text, line, said) in [
            (TWO.replace("wire = 1250", "wire = 999"), 2, "cannot carry"),
            (TWO.replace("rate = 0.8", "rate = -1"), 7, "rate in Gb/s"),
            (TWO.replace("name = 'b'", "name = 'a'"), 9, "two links"),
            (TWO.replace("path = ['a']", "path = []"), 14, "one link at least"),
            (TWO.replace("path = ['a']", "path = ['c']"), 14, "no link is called `c`"),
            (TWO.replace("bytes = 1000", "bytes = nan"), 13, "is not bytes"),
            (TWO.replace("path = ['a']", "path = ['a']\nafter = ['two']"), 15, "not named before"),
            (change("link = 'x'\nrate = 1"), 21, "no link is called `x`"),
            (change("link = 'a'"), 19, "`link` and `rate`"),
            (change("flow = 'one'\nrate = 1"), 19, "`link` and `rate`"),
            (TWO.replace("path = ['a']", "path = ['a']\ncolour = 1"), 15, "unknown field"),
            (String::new(), 1, "missing field"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert_eq!(error.line, line, "{error}");
            assert!(error.message.contains(said), "{error}");
        }
    }
}
