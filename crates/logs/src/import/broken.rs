//! Joins a row that a terminal, a mail, a page or a line of NCCL broke into several lines, if exactly one way
//! of joining gives the columns of the header and figures that agree with each other.
//! Not placements that follow later (`section`).

use crate::measurement::Row;
use busbw_core::record::Figures;

use super::nccl_tests::{self, Columns, Parsed};

/// Maximum of lines that a row may be broken into.
const MAX_LINES_OF_A_ROW: usize = 8;
/// Maximum of ways of joining that are tried at once.
const MAX_READINGS: usize = 32;

/// A row of which the rest may follow.
#[derive(Debug)]
pub(super) struct Broken {
    /// The row in the first line.
    pub first: Parsed,
    /// Whether the first line contains a message of NCCL.
    pub torn: bool,
    /// Lines that followed, as they are.
    pub lines: Vec<String>,
    /// The possible joined lines.
    readings: Vec<String>,
}

/// The result of one more line.
pub(super) enum Joined {
    /// A row.
    Whole(Box<Parsed>),
    /// Still a part.
    More,
    /// The line belongs to something else.
    No,
}

impl Broken {
    /// The row, if its columns are not all there.
    pub(super) fn begins(
        line: &str,
        parsed: &Parsed,
        columns: &Columns,
        torn: bool,
    ) -> Option<Broken> {
        let whole = columns.width * columns.placements.unwrap_or(2);
        (parsed.figures < whole).then(|| Broken {
            first: parsed.clone(),
            torn,
            lines: Vec::new(),
            readings: vec![line.to_owned()],
        })
    }

    /// Takes a further line.
    pub(super) fn add(&mut self, line: &str, columns: &Columns) -> Joined {
        // Quoted in a mail, every line has the mark.
        let quoted = self.readings.first().is_some_and(|text| text.starts_with('>'));
        let piece = if quoted { line.trim_start_matches(['>', ' ']) } else { line };
        if self.lines.len() + 2 > MAX_LINES_OF_A_ROW
            || !is_piece(piece)
            || nccl_tests::find(piece).is_some()
        {
            return Joined::No;
        }
        let wanted = columns.width * columns.placements.unwrap_or(2);
        let mut readings = Vec::new();
        let mut whole: Option<Parsed> = None;
        for reading in self.readings.iter().flat_map(|text| joints(text, piece)) {
            let Some(parsed) = nccl_tests::find(&reading).map(|row| row.parse(columns)) else {
                continue;
            };
            let fits = parsed.figures == wanted || parsed.figures == wanted + 2;
            if fits && !parsed.cut && agrees(&parsed.row, wanted / columns.width) {
                if whole.is_some() {
                    return Joined::No;
                }
                whole = Some(parsed);
            } else if parsed.figures < wanted + 2 && readings.len() < MAX_READINGS {
                readings.push(reading);
            }
        }
        match whole {
            Some(parsed) => Joined::Whole(Box::new(parsed)),
            None if readings.is_empty() => Joined::No,
            None => {
                self.lines.push(line.to_owned());
                self.readings = readings;
                Joined::More
            }
        }
    }
}

/// Whether a line may be a part of a row: figures and an operator.
fn is_piece(line: &str) -> bool {
    let words = line.split_ascii_whitespace().take(24);
    let fits = |word: &str| {
        word.len() < 16
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-./*:=\\".contains(&b))
    };
    line.bytes().any(|byte| byte.is_ascii_digit() || byte == b'A') && words.into_iter().all(fits)
}

/// The ways to join a piece: within a figure, and behind one.
fn joints(text: &str, piece: &str) -> Vec<String> {
    // Marks of a break: quoted-printable mails, shells.
    if let Some(text) = text.strip_suffix(['=', '\\']) {
        return vec![format!("{text}{piece}")];
    }
    if text.ends_with(' ') || piece.starts_with(' ') {
        return vec![format!("{text} {piece}")];
    }
    vec![format!("{text}{piece}"), format!("{text} {piece}")]
}

/// Whether size, time and both bandwidths agree within the rounding of their digits.
fn agrees(row: &Row, placements: usize) -> bool {
    let halves: Vec<&Figures> = row.both().collect();
    // Some releases' algbw is of all ranks: the same multiple in both placements.
    let of_time = |half: &&Figures| Some((row.size as f64 / half.time_us? / 1e3, half.algbw?));
    let of_algbw = |half: &&Figures| Some((half.algbw?, half.busbw?));
    let steady = |pairs: Vec<(f64, f64)>| {
        let ratios: Vec<(f64, f64)> = pairs
            .into_iter()
            .filter(|(from, to)| *from > 0.0 && *to > 0.0)
            .map(|(from, to)| (to / from, 0.006 / to + 0.006 / from + 0.002))
            .collect();
        ratios.iter().all(|(ratio, slack)| {
            ratios.iter().all(|(other, more)| (ratio / other - 1.0).abs() <= slack + more)
        })
    };
    let near = |pairs: &[(f64, f64)]| {
        pairs.iter().all(|(computed, written)| {
            let multiple = (written / computed.max(1e-9)).round().max(1.0);
            (computed * multiple - written).abs() <= 0.006 + 0.03 * written
        })
    };
    let speeds: Vec<(f64, f64)> = halves.iter().filter_map(of_time).collect();
    halves.len() == placements
        && near(&speeds)
        && steady(speeds)
        && steady(halves.iter().filter_map(of_algbw).collect())
}

/// A header that was broken: its columns, once the rest of it follows.
pub(super) fn header(first: &str, rest: &str) -> Option<Columns> {
    let joined = |text: String| {
        Columns::read(&text)
            .filter(|columns| columns.placements == Some(2) && columns.wrong.is_some())
    };
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" #>_%".contains(&byte)) {
        return None;
    }
    let rest = if first.starts_with('>') { rest.trim_start_matches(['>', ' ']) } else { rest };
    let alike = |columns: &Columns, text: &str| {
        let names: Vec<&str> = text.split_ascii_whitespace().collect();
        let second = names.len().checked_sub(columns.width).and_then(|at| names.get(at..));
        let before = names.len().checked_sub(2 * columns.width);
        second.is_some() && before.and_then(|at| names.get(at..at + columns.width)) == second
    };
    joints(first, rest)
        .into_iter()
        .find_map(|text| joined(text.clone()).filter(|columns| alike(columns, &text)))
}

/// Whether a line begins a header and may lack its end.
pub(super) fn begins_header(line: &str) -> bool {
    line.trim_start().starts_with(['#', '>'])
        && ["size", "count", "type"].iter().all(|name| line.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "  1073741824     268435456     float     sum      -1   5200.4  206.47  387.14      0   5199.4  206.51  387.21      0";

    fn joined(pieces: &[&str]) -> Option<Row> {
        let columns = Columns { placements: Some(2), ..Columns::default() };
        let [first, rest @ ..] = pieces else { return None };
        let parsed = nccl_tests::find(first)?.parse(&columns);
        let mut broken = Broken::begins(first, &parsed, &columns, false)?;
        for piece in rest {
            match broken.add(piece, &columns) {
                Joined::Whole(parsed) => return Some(parsed.row),
                Joined::More => {}
                Joined::No => return None,
            }
        }
        None
    }

    #[test]
    fn rows_broken_anywhere_are_whole_or_none() {
        let whole = nccl_tests::find(ROW).map(|row| row.parse(&Columns::default()).row);
        for at in 38..ROW.len() {
            let (first, rest) = ROW.split_at(at);
            let found = joined(&[first, rest]);
            assert!(found == whole, "{at}: {found:?}");
            // Mail programs drop blanks at a line's end.
            let found = joined(&[first.trim_end(), rest.trim_start()]);
            assert!(found == whole, "{at}: {found:?}");
        }
        for width in [40, 60, 72] {
            let pieces: Vec<&str> = (0..ROW.len().div_ceil(width))
                .filter_map(|at| ROW.get(at * width..ROW.len().min((at + 1) * width)))
                .collect();
            assert_eq!(joined(&pieces), whole, "{width}");
        }
    }

    #[test]
    fn what_does_not_agree_is_not_joined() {
        let (first, rest) = ROW.split_at(80);
        for other in
            [rest.replace("387.21", "400.21"), rest.replace("206.51", "99.51"), format!("{rest} 7")]
        {
            assert_eq!(joined(&[first, &other]), None, "{other}");
        }
        assert_eq!(joined(&[first, "words follow"]), None);
        assert_eq!(joined(&[first, ROW]), None);
    }

    #[test]
    fn a_header_is_joined() {
        let text = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong";
        for at in 40..text.len() {
            let (first, rest) = text.split_at(at);
            assert!(begins_header(first), "{first}");
            assert_eq!(header(first, rest), Columns::read(text), "{at}");
        }
        assert_eq!(header(text, "# (B) (elements)"), None);
    }
}
