//! The text of `nvidia-smi topo -m`, as it is pasted: tabs or blanks, colours, prompts, legends, columns
//! grown together, Markdown tables, several in one text. Not other tools' tables that look like it.

mod lookalike;

use super::{Endpoint, Matrix, Refused, Word};

/// Maximum of rows and columns of a matrix; the largest real ones have about 40.
const MAX_ENDPOINTS: usize = 512;

/// Every matrix of a text, with the NICs' names of its legend.
///
/// # Errors
/// Why there is none, in one line.
pub fn matrices(text: &str) -> Result<Vec<Matrix>, Refused> {
    let plain = without_colours(text);
    let mut found: Vec<Matrix> = Vec::new();
    let mut header: Option<Header> = None;
    for (number, line) in plain.lines().enumerate() {
        if let Some(next) = Header::parse(line) {
            if next.names.len() > MAX_ENDPOINTS {
                return Err(Refused(format!(
                    "line {}: more than {MAX_ENDPOINTS} columns",
                    number + 1
                )));
            }
            found.push(next.matrix());
            header = Some(next);
        } else if let (Some(header), Some(matrix)) = (&header, found.last_mut())
            && !header.row(line, matrix)
        {
            legend(line, matrix);
        }
    }
    found.retain(says_something);
    found.iter_mut().for_each(fill_rows);
    match found.is_empty() {
        false => Ok(found),
        true => Err(Refused(lookalike::reason(&plain))),
    }
}

/// Terminal colours are escapes up to their final letter (ECMA-48, 5.4).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let length = after.find(|c: char| ('@'..='~').contains(&c));
        rest = length.map_or("", |length| &after[length + 1..]);
    }
    plain + rest
}

/// The first line of a matrix.
struct Header {
    /// Devices, from left to right.
    names: Vec<String>,
    /// In a Markdown table: what each cell of a line is.
    cells: Option<Vec<Cell>>,
}

/// A column of a Markdown table.
#[derive(PartialEq)]
enum Cell {
    /// A device, by its index.
    Device(usize),
    /// The names of rows.
    Names,
    Cores,
    Numa,
    Other,
}

impl Header {
    /// A line that names at least one GPU, and then only devices and the columns about affinity.
    fn parse(line: &str) -> Option<Header> {
        if line.trim_start().starts_with('|') {
            return Header::markdown(line);
        }
        let end = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];
        let end = end.iter().filter_map(|column| line.find(column)).min().unwrap_or(line.len());
        let mut names = Vec::new();
        for token in line[..end].split_whitespace() {
            names.extend(names_in(token)?);
        }
        names.first().filter(|name| is_gpu(name))?;
        // "GPU0 X" is a row, and "GPU0" alone can be one that was cut.
        let alone = names.len() == 1 && end == line.len() && !line.starts_with([' ', '\t']);
        (!alone).then_some(Header { names, cells: None })
    }

    fn markdown(line: &str) -> Option<Header> {
        let mut names = Vec::new();
        let cells: Vec<Cell> = markdown_cells(line)
            .map(|cell| match cell {
                "" => Cell::Names,
                "CPU Affinity" => Cell::Cores,
                "NUMA Affinity" => Cell::Numa,
                name if names_in(name).is_some_and(|names| names.len() == 1) => {
                    names.push(name.to_owned());
                    Cell::Device(names.len() - 1)
                }
                _ => Cell::Other,
            })
            .collect();
        let whole = cells.contains(&Cell::Names) && names.iter().any(|name| is_gpu(name));
        whole.then_some(Header { names, cells: Some(cells) })
    }

    /// A matrix without a word in it.
    fn matrix(&self) -> Matrix {
        let named = |name: &String| Endpoint { name: name.clone(), ..Endpoint::default() };
        let endpoints: Vec<Endpoint> = self.names.iter().map(named).collect();
        let cells = vec![vec![None; endpoints.len()]; endpoints.len()];
        Matrix { endpoints, cells }
    }

    /// Takes a row of the matrix; false where the line is none.
    fn row(&self, line: &str, matrix: &mut Matrix) -> bool {
        let Some((name, words, cores, numa)) = (match &self.cells {
            None => self.plain_row(line),
            Some(cells) => markdown_row(cells, self.names.len(), line),
        }) else {
            return false;
        };
        let known = matrix.endpoints.iter().position(|endpoint| endpoint.name == name);
        // A row without a column: a text whose columns were cut.
        let at = known.unwrap_or_else(|| {
            matrix.endpoints.push(Endpoint { name, ..Endpoint::default() });
            matrix.cells.push(Vec::new());
            matrix.endpoints.len() - 1
        });
        let (Some(row), Some(endpoint)) = (matrix.cells.get_mut(at), matrix.endpoints.get_mut(at))
        else {
            return false;
        };
        *row = words;
        endpoint.cores = cores;
        endpoint.numa = numa;
        true
    }

    /// "GPU0  X  NV8  PIX  0-31,64-95  0  N/A".
    fn plain_row(&self, line: &str) -> Option<Row> {
        // Rows by tabs have no blanks between cells, and empty cells.
        let (name, rest) = line.trim_start().split_once(char::is_whitespace)?;
        let [name] = &names_in(name)?[..] else { return None };
        if name.len() > 64 {
            return None;
        }
        let mut words = Vec::new();
        let mut after = rest;
        while words.len() < self.names.len() {
            let Some((word, rest)) = first_word(after.trim_start()) else { break };
            words.push(word);
            after = rest;
        }
        let mut columns = after.split_whitespace();
        let column = |text: &str| (text != "N/A").then(|| text.to_owned());
        let (cores, numa) = (columns.next().and_then(column), columns.next().and_then(column));
        words.iter().any(Option::is_some).then(|| (name.clone(), words, cores, numa))
    }
}

/// Name, words, cores, NUMA nodes.
type Row = (String, Vec<Option<Word>>, Option<String>, Option<String>);

fn markdown_cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim().trim_matches('|').split('|').map(str::trim)
}

fn markdown_row(cells: &[Cell], devices: usize, line: &str) -> Option<Row> {
    if !line.trim_start().starts_with('|') {
        return None;
    }
    let (mut name, mut cores, mut numa) = (None, None, None);
    let mut words = vec![None; devices];
    for (cell, text) in cells.iter().zip(markdown_cells(line)) {
        let said = (!text.is_empty()).then(|| text.to_owned());
        match cell {
            Cell::Names => name = said.filter(|name| names_in(name).is_some()),
            Cell::Cores => cores = said,
            Cell::Numa => numa = said,
            Cell::Device(at) => {
                if let Some(word) = words.get_mut(*at) {
                    *word = text.parse().ok();
                }
            }
            Cell::Other => {}
        }
    }
    words.iter().any(Option::is_some).then_some(())?;
    Some((name?, words, cores, numa))
}

/// The word at the beginning of a text, and the rest: words may have grown together, as in PXBSYS. None
/// within stands for a word of a newer driver, and ends with the next blank.
fn first_word(text: &str) -> Option<(Option<Word>, &str)> {
    for fixed in ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "X"] {
        if let Some(rest) = text.strip_prefix(fixed) {
            return Some((fixed.parse().ok(), rest));
        }
    }
    if let Some(digits) = text.strip_prefix("NV") {
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if end > 0 {
            return Some((digits[..end].parse().ok().map(Word::NvLink), &digits[end..]));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let unknown = &text[..end];
    // A list of cores is not one: the row is shorter than the header.
    let is_word = unknown == "N/A" || unknown.starts_with(|c: char| c.is_ascii_uppercase());
    (is_word && !unknown.is_empty()).then(|| (None, &text[end..]))
}

fn is_gpu(name: &str) -> bool {
    Endpoint { name: name.to_owned(), ..Endpoint::default() }.is_gpu()
}

/// Devices that a word names; several where columns have grown together, as in NIC7NIC8. None for a word
/// that is no device's name: letters, then a number, possibly with more of both (mlx5_0, rocep4s0f1).
fn names_in(word: &str) -> Option<Vec<String>> {
    let numbered = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        (digits > 0).then_some(digits)
    };
    let mut names = Vec::new();
    let mut rest = word;
    while let Some(after) = rest.strip_prefix("GPU").or_else(|| rest.strip_prefix("NIC")) {
        let digits = numbered(after)?;
        names.push(rest[..3 + digits].to_owned());
        rest = &after[digits..];
    }
    if rest.is_empty() {
        return (!names.is_empty()).then_some(names);
    }
    let plain = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let device = plain
        && rest.starts_with(|c: char| c.is_ascii_lowercase())
        && rest.ends_with(|c: char| c.is_ascii_digit());
    device.then(|| {
        names.push(rest.to_owned());
        names
    })
}

/// "  NIC0: mlx5_0" below a matrix.
fn legend(line: &str, matrix: &mut Matrix) {
    let Some((number, device)) = line.split_once(':') else { return };
    let (number, device) = (number.trim(), device.trim());
    let named = matrix.endpoints.iter_mut().find(|endpoint| endpoint.name == number);
    if let Some(endpoint) = named.filter(|_| !device.is_empty() && !device.contains(' ')) {
        endpoint.device = Some(device.to_owned());
    }
}

/// Whether it contains a path; the X of a device to itself is one only where the device is alone.
fn says_something(matrix: &Matrix) -> bool {
    let mut words = matrix.cells.iter().flatten().flatten();
    words.any(|word| *word != Word::Itself || matrix.endpoints.len() == 1)
}

/// Makes all rows as long as there are endpoints.
fn fill_rows(matrix: &mut Matrix) {
    let columns = matrix.endpoints.len();
    matrix.cells.iter_mut().for_each(|row| row.resize(columns, None));
}

#[cfg(test)]
mod tests;
