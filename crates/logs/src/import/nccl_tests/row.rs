//! A row: size, count, type, then what each placement says. Found anywhere in a line, so that
//! launchers' prefixes do not matter; rows that are cut, torn or have no figures are rows as well.
//! Not which run it belongs to.

use crate::measurement::Row;
use busbw_core::{DataType, record::Figures};

use super::Columns;

/// Tokens of a row that are looked at: two placements of nccl-tests with `-I`, and more.
const MAX_TOKENS: usize = 48;

/// A row as it stands in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct RowText<'a> {
    /// Of a row of another communicator than the first: `# Group  1 …`, as busbw prints them.
    group: Option<u64>,
    size: u64,
    count: u64,
    datatype: DataType,
    tail: Vec<&'a str>,
    /// What follows on the same line from the next row on.
    pub(in super::super) next: Option<&'a str>,
}

/// What became of a row's text.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Parsed {
    /// The row with what was there.
    pub row: Row,
    /// Something is missing that the layout has, or is no number.
    pub cut: bool,
    /// Nothing stands where figures belong: they may follow, behind lines of NCCL.
    pub open: bool,
    /// How many figures were there, a timestamp's parts among them.
    pub figures: usize,
}

/// The row in a line, if it has one.
pub(in super::super) fn find(line: &str) -> Option<RowText<'_>> {
    // Words that may be a type: a line is taken apart only around one that is.
    let begins = |pair: &[u8]| {
        matches!(pair, [b'\t'..=b' ', b'b' | b'c' | b'd' | b'f' | b'h' | b'i' | b'u'])
    };
    let mut pairs = line.as_bytes().windows(2).enumerate().filter(|(_, pair)| begins(pair));
    pairs.find_map(|(blank, _)| around(line, blank + 1))
}

/// The row of which the type begins at `at`.
fn around(line: &str, at: usize) -> Option<RowText<'_>> {
    let words = |text| str::split_ascii_whitespace(text).filter(|word| *word != "|");
    let (before, after) = line.split_at_checked(at)?;
    let mut after = words(after);
    let datatype = datatype(after.next()?)?;
    let mut before = words(before).rev();
    let (count, size) = (before.next()?, before.next()?);
    let (count, size) = (count.parse().ok()?, unprefixed(size)?);
    let group = before.next().and_then(|group| group.parse().ok());
    let group = group.filter(|_| before.next() == Some("Group"));
    let mut tail = Vec::with_capacity(16);
    tail.extend(after.take(MAX_TOKENS));
    let next = next_row(line, &tail).map(|(at, text)| {
        tail.truncate(at);
        text
    });
    Some(RowText { group, size, count, datatype, tail, next })
}

/// Where another row begins behind a row, of a table that lost its line ends.
fn next_row<'a>(line: &'a str, tail: &[&'a str]) -> Option<(usize, &'a str)> {
    let at = tail.windows(3).position(|three| match three {
        [size, count, name] => {
            name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
                && size.parse::<u64>().is_ok()
                && count.parse::<u64>().is_ok()
                && datatype(name).is_some()
        }
        _ => false,
    })?;
    let begins = tail.get(at)?.as_ptr() as usize - line.as_ptr() as usize;
    Some((at, line.get(begins..)?))
}

/// nccl-tests' names, and those of rccl-tests and of releases before 2.
fn datatype(name: &str) -> Option<DataType> {
    DataType::from_name(name).or(match name {
        "fp8_e4m3" => Some(DataType::F8e4m3),
        "fp8_e5m2" => Some(DataType::F8e5m2),
        "bf16" => Some(DataType::Bfloat16),
        "char" => Some(DataType::Int8),
        "int" => Some(DataType::Int32),
        _ => None,
    })
}

/// A number, with or without a launcher's `[1,0]<stdout>:` or a quote stuck to it.
fn unprefixed(token: &str) -> Option<u64> {
    let before = token.trim_end_matches(|c: char| c.is_ascii_digit());
    let stuck = match before.as_bytes() {
        [] => true,
        [.., b':' | b'>' | b'|' | b'"' | b')' | b']' | b'}' | b'=' | b';' | b'*' | b'`' | b'+'] => {
            true
        }
        // Between digits these part thousands.
        [.., last, b',' | b'\''] => !last.is_ascii_digit(),
        [b'\''] => true,
        _ => false,
    };
    token.get(before.len()..).filter(|_| stuck)?.parse().ok()
}

impl RowText<'_> {
    /// The row under a table's columns.
    pub(in super::super) fn parse(&self, columns: &Columns) -> Parsed {
        let RowText { group, size, count, datatype, ref tail, .. } = *self;
        let mut rest = tail.as_slice();
        let (count, datatype) = (Some(count), Some(datatype));
        let mut row = Row { size, group, count, datatype, ..Row::default() };
        if let [first, after @ ..] = rest
            && is_operator(first)
        {
            row.op = Some((*first).to_owned()).filter(|op| op != "none");
            rest = after;
        }
        if let [first, after @ ..] = rest
            && let Ok(root) = first.parse::<i64>()
            && has_root(root, after.len(), columns)
        {
            row.root = Some(root).filter(|root| *root >= 0);
            rest = after;
        }
        rest = rest.get(columns.lead..).unwrap_or_default();
        // `-1host:pid:tid`: NCCL spoke before the figures were flushed.
        if let [first, ..] = rest
            && first.contains(':')
        {
            rest = &[];
        }
        let width = columns.width_of(rest.len());
        let out = rest.get(..width).and_then(|half| half_of(half, columns));
        let inside = rest.get(width..width * 2).and_then(|half| half_of(half, columns));
        let open = rest.is_empty();
        let whole = rest.len() >= width * 2 || rest.len() == width;
        let read = |half: &Option<Cells>| matches!(half, Some(Cells::Read(_)));
        let cut = !whole || !read(&out) || (rest.len() > width && !read(&inside));
        row.out_of_place = out.and_then(Cells::half);
        row.in_place = inside.and_then(Cells::half);
        Parsed { row, cut, open, figures: rest.len() }
    }
}

/// One placement or both alone on a line: what was left of a row that NCCL's lines tore apart.
pub(in super::super) fn continuation(
    line: &str,
    columns: &Columns,
) -> Option<[Option<Figures>; 2]> {
    let width = columns.width;
    let mut tokens: Vec<&str> = line.split_ascii_whitespace().take(2 * width + 3).collect();
    if let [before @ .., _date, time] = &tokens[..]
        && time.contains(':')
    {
        tokens.truncate(before.len());
    }
    if !(tokens.len() == width || tokens.len() == 2 * width)
        || tokens.iter().any(|token| numeric(token).is_none())
    {
        return None;
    }
    let half = |part: &[&str]| half_of(part, columns).and_then(Cells::half);
    let mut halves = tokens.chunks(width).map(half);
    Some([Some(halves.next()??), halves.next().flatten()])
}

fn is_operator(token: &str) -> bool {
    token.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether an integer behind the operator is the root: `after` tokens follow it.
fn has_root(root: i64, after: usize, columns: &Columns) -> bool {
    if root == -1 {
        return true;
    }
    let width = columns.width;
    // A timestamp is two more.
    let fits = [width, width * 2, width + 2, width * 2 + 2].contains(&after);
    columns.root.unwrap_or(fits) && (0..1 << 20).contains(&root)
}

enum Cells {
    Read(Figures),
    /// Someone wrote XXX.XX over them.
    Hidden,
}

impl Cells {
    fn half(self) -> Option<Figures> {
        match self {
            Cells::Read(half) => Some(half),
            Cells::Hidden => None,
        }
    }
}

fn half_of(tokens: &[&str], columns: &Columns) -> Option<Cells> {
    let time = tokens.get(columns.time)?;
    let (algbw, busbw) = (tokens.get(columns.algbw)?, tokens.get(columns.busbw)?);
    if [time, algbw, busbw].iter().any(|token| is_hidden(token)) {
        return Some(Cells::Hidden);
    }
    let (time_us, algbw, busbw) = (numeric(time)?, numeric(algbw)?, numeric(busbw)?);
    let scale = if columns.milliseconds { 1e3 } else { 1.0 };
    Some(Cells::Read(Figures {
        time_us: time_us.map(|time| time * scale),
        rounding_us: rounding(time) * scale,
        algbw,
        busbw,
        wrong: columns.wrong.and_then(|at| wrong(tokens.get(at)?, columns.difference)),
        ..Figures::default()
    }))
}

fn is_hidden(token: &str) -> bool {
    token.len() > 1 && token.bytes().all(|byte| matches!(byte, b'X' | b'x' | b'*' | b'.'))
}

/// What stands where a figure belongs: none of what is no figure, and nothing of one without a value.
fn numeric(token: &str) -> Option<Option<f64>> {
    if token == "N/A" {
        return Some(None);
    }
    let value: f64 = token.trim_end_matches('*').parse().ok()?;
    Some(Some(value).filter(|value| value.is_finite()))
}

/// Half of the last digit that was printed: `12345.6` is within 0.05, `1.0e+07` within 5e+05.
fn rounding(token: &str) -> f64 {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, after)| after.len().min(300));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    0.5 * 10f64.powi(exponent.clamp(-300, 300) - decimals as i32)
}

/// Wrong elements. rccl-tests marks some with an asterisk; `1e+06` is a number of elements, but
/// `2e-07` a largest difference, which is normal for sums, and tells only when it is 0.
fn wrong(token: &str, difference: bool) -> Option<u64> {
    let value = numeric(token)?.filter(|value| *value >= 0.0)?;
    let difference = difference || token.contains("e-") || token == "0e+00";
    (!difference || value == 0.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Parsed> {
        find(line).map(|row| row.parse(&Columns::default()))
    }

    fn busbw(half: &Option<Figures>) -> Option<f64> {
        half.as_ref().and_then(|half| half.busbw)
    }

    #[test]
    fn rows_of_every_layout_behind_every_prefix() {
        for (row, op, root, places) in [
            (
                "8589934592    2147483648     float     sum      -1    41145  208.77  391.45      0    41008  209.47  392.76      0",
                true,
                None,
                2,
            ),
            (
                "8589934592    2147483648     float     sum      -1    41145  208.77  391.45       0    41008  209.47  392.76    N/A 2026-01-02 03:04:05",
                true,
                None,
                2,
            ),
            (
                "8589934592    2147483648  bfloat16    none       3    41145  208.77  391.45    N/A    41008  209.47  392.76    N/A",
                false,
                Some(3),
                2,
            ),
            (
                "8589934592    2147483648   float    41145  208.77  391.45    N/A    41008  209.47  392.76    N/A",
                false,
                None,
                2,
            ),
            (
                "8589934592    2147483648   float     sum    41145  208.77  391.45  2e-07    41008  209.47  392.76  2e-07",
                true,
                None,
                2,
            ),
            (
                "8589934592    2147483648   float     sum       0  41145  208.77  391.45    N/A",
                true,
                Some(0),
                1,
            ),
            (
                "8589934592    2147483648   float     sum    41145  208.77  391.45    N/A",
                true,
                None,
                1,
            ),
        ] {
            for prefix in [
                "",
                "   ",
                "0: ",
                "[1,0]<stdout>:",
                "[1,0]<stdout>: ",
                "(RayWorker pid=7, ip=10.0.0.2) ",
                "2026-05-05T06:16:47.123Z stdout F ",
                "| ",
                "#  ",
                "run(), common.cu:1083, ",
            ] {
                let line = format!("{prefix}{row}");
                let Some(Parsed { row, cut, open, .. }) = parse(&line) else { panic!("{line}") };
                assert_eq!((row.size, row.count), (8_589_934_592, Some(2_147_483_648)), "{line}");
                assert_eq!(
                    (row.op.is_some(), row.root, cut, open),
                    (op, root, false, false),
                    "{line}"
                );
                assert_eq!(busbw(&row.out_of_place), Some(391.45), "{line}");
                assert_eq!(busbw(&row.in_place), (places == 2).then_some(392.76), "{line}");
            }
        }
    }

    #[test]
    fn cut_torn_and_hidden_rows() {
        let whole = "1024 256 float sum -1 41145 208.77 391.45 0 41008 209.47 392.76 0";
        let tokens: Vec<&str> = whole.split(' ').collect();
        for kept in 3..tokens.len() {
            let Some(parsed) = parse(&tokens[..kept].join(" ")) else { panic!("{kept}") };
            assert_eq!(parsed.row.out_of_place.is_some(), kept >= 9, "{kept}");
            assert!(parsed.row.in_place.is_none(), "{kept}");
            assert_eq!(parsed.cut, kept != 9, "{kept}");
            assert_eq!(parsed.open, kept <= 5, "{kept}");
        }
        let torn = parse("8388608       2097152     float     sum      -1mew0:65704:65704 [1] NCCL INFO AllReduce: opCount 0").map(|p| p.open);
        assert_eq!(torn, Some(true));
        let hidden =
            parse("268435456 4194304 float none -1 XXXXX XXX.XX XXX.XX N/A XXXXXX XXX.XX XXX.XX 0");
        assert!(hidden.is_some_and(|p| p.cut && p.row.out_of_place.is_none() && !p.open));
        let placements = |line: &str| {
            continuation(line, &Columns::default()).map(|halves| halves.iter().flatten().count())
        };
        assert_eq!(placements("    310.8   26.99   26.99      0"), Some(1));
        assert_eq!(placements("310.8 26.99 26.99 0 310.9 26.98 26.98 0"), Some(2));
        assert_eq!(
            placements("310.8 26.99 26.99 0 310.9 26.98 26.98 0 2026-01-02 03:04:05"),
            Some(2)
        );
        assert_eq!(placements("310.8 26.99 26.99 0 310.9"), None);
        assert_eq!(placements("26.99 0 310.8 26.99 26.99 0"), None);
    }

    #[test]
    fn what_only_looks_like_a_row() {
        for line in [
            "Name                        float",
            "1 2 floating",
            "12 errors, 3 of float type",
            "rx_bytes 1 2 3 4 5 6 7 8",
            "2026-01-16 15:40:46,024 - INFO - Avg bus bandwidth is 230.167",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }

    #[test]
    fn rounding_is_half_of_the_last_digit() {
        for (token, expected) in
            [("29.35", 0.005), ("41145", 0.5), ("154.7", 0.05), ("1.0e+07", 5e5)]
        {
            assert!((rounding(token) / expected - 1.0).abs() < 1e-9, "{token}");
        }
    }
}
