//! The matrix of pairs: a row for each sender, a column for each receiver, and who is slow.
//! Not the verdict itself (`busbw_core::pairs`), and not the report's picture of it.

mod limits;

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use busbw_core::{
    messages::Messages,
    pairs::{Pairs, Unit, assessment::Basis, what},
    plan::{PairSelection, Plan},
    record::{End, Line, Row, Run, Status, VerbsFacts, add_port},
};
use busbw_stats::median;

use super::{Render, footer, number::fixed, table::devices};
use crate::answer::wants_colour;

/// Up to this many ranks the whole matrix is printed; with more, one line a rank.
const MAX_MATRIX_RANKS: usize = 32;
/// With more ranks, the number of slowest pairs that are named.
const MAX_SLOWEST_PAIRS: usize = 10;

/// The matrices on a writer.
#[derive(Debug)]
pub struct PairsTable<W> {
    out: W,
    colour: bool,
    run: Option<Run>,
    /// What was printed, for the limits: processes report their devices last.
    matrices: Vec<Pairs>,
    /// The RDMA devices of ranks, where there are any.
    ports: Vec<VerbsFacts>,
}

impl<W: Write> PairsTable<W> {
    /// Matrices on `out`, with colours where stdout is a terminal that shows them.
    pub fn new(out: W) -> PairsTable<W> {
        PairsTable {
            out,
            colour: wants_colour(),
            run: None,
            matrices: Vec::new(),
            ports: Vec::new(),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for PairsTable<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text: String = run.preamble.iter().map(|line| format!("{line}\n")).collect();
        text += &format!("# busbw {} pairs: {}\n", run.busbw, about(&run.plan));
        text += &devices(run);
        if let Some(reduced) = run.reduced_max_bytes {
            text += &format!("#\n# -e is lowered to {reduced}: memory\n");
        }
        self.run = Some(run.clone());
        self.write(&text)
    }

    fn library(&mut self, said: &Line) -> io::Result<()> {
        if let Line::Verbs(facts) = said {
            add_port(&mut self.ports, facts);
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(run) = self.run.as_ref().filter(|_| row.shown) else { return Ok(()) };
        let text = match (&row.waived, Pairs::of_row(run, &self.ports, row), &row.pairs) {
            (Some(reason), ..) => format!("#\n# {} B  waived: {reason}\n", row.size),
            (None, Some(matrix), Some(pairs)) => {
                let mut text = head(row, pairs.test);
                text += &if matrix.labels.len() > MAX_MATRIX_RANKS {
                    by_rank(&matrix)
                } else {
                    whole(&matrix, self.colour)
                };
                text += &verdict(&matrix, self.colour);
                self.matrices.push(matrix);
                text + &row.notes.iter().map(|note| format!("{note}\n")).collect::<String>()
            }
            _ => String::new(),
        };
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let Some(run) = self.run.as_ref().filter(|_| end.status == Status::Complete) else {
            return Ok(());
        };
        let hosts: Vec<&str> = run.devices.iter().map(|device| device.host.as_str()).collect();
        let limits = self.matrices.iter().map(|all| limits::lines(all, &hosts, &self.ports));
        let limits: String = limits.collect();
        let text = format!("#\n{limits}{}", footer::checks(end));
        self.write(&text)
    }
}

/// The pairs that were measured.
fn about(plan: &Plan) -> String {
    let ranks = plan.ranks();
    let which = match plan.pairing.as_ref().map(|pairing| pairing.selection) {
        Some(PairSelection::Rails) => "ranks of the same place in different hosts".to_owned(),
        Some(PairSelection::Sample(peers)) if peers + 1 < ranks => {
            format!("{peers} peers for each of {ranks} ranks")
        }
        _ => format!("every pair of {ranks} ranks"),
    };
    format!("{which}, both ways, as many at once as there are")
}

/// The unit of the figures, and the number of passes and messages behind them.
fn head(row: &Row, test: Messages) -> String {
    let unit = Unit::of(test).name();
    let mut text = format!("#\n# {} of {} B ({unit}), from row to column", what(test), row.size);
    let half = row.out_of_place.as_ref();
    let retest = row.pairs.as_ref().and_then(|pairs| pairs.retest.as_ref());
    if let Some(half) = half {
        let passes = half.batches_us.len() + retest.map_or(0, |again| again.batches_us.len());
        let window = half.messages.as_ref().map_or(1, |figures| figures.window);
        let made = if test.is_latency() { String::new() } else { format!(", {window} at once") };
        text += &format!("; medians of {passes} passes{made}");
    }
    if half.is_some_and(|half| half.fewer_iterations.is_some()) {
        text += ", fewer messages for want of speed";
    }
    text + "\n"
}

/// Every cell. Cells of a slow subject are red.
fn whole(matrix: &Pairs, colour: bool) -> String {
    let slow = slow_cells(matrix);
    let ranks = matrix.labels.len();
    let cells = |from: usize| {
        (0..ranks).map(move |to| {
            let value = matrix.values.get(from).and_then(|row| row.get(to).copied().flatten());
            (to, value.map_or_else(|| if from == to { "-" } else { "." }.to_owned(), figure))
        })
    };
    let width = (0..ranks).flat_map(cells).map(|(_, cell)| cell.len()).max().unwrap_or(1).max(4);
    let mut text = format!("# {:>4}", "");
    text.extend((0..ranks).map(|to| format!("  {to:>width$}")));
    text.push('\n');
    for from in 0..ranks {
        text += &format!("  {from:>4}");
        for (to, cell) in cells(from) {
            let cell = format!("{cell:>width$}");
            match colour && slow.contains(&(from, to)) {
                true => text += &format!("  {}", red(&cell)),
                false => text += &format!("  {cell}"),
            }
        }
        text.push('\n');
    }
    text
}

/// Cells that a named subject slows.
fn slow_cells(matrix: &Pairs) -> BTreeSet<(usize, usize)> {
    let Some(verdict) = &matrix.verdict else { return BTreeSet::new() };
    let ranks = 0..matrix.labels.len();
    let all = ranks.clone().flat_map(|from| ranks.clone().map(move |to| (from, to)));
    let slow = |(from, to): &(usize, usize)| {
        let subjects = verdict.slow.iter().map(|slow| slow.subject);
        from != to && subjects.into_iter().any(|s| s.slows(*from, *to, &verdict.hosts))
    };
    all.filter(slow).collect()
}

/// The median of each rank as sender and as receiver, then the slowest pairs.
fn by_rank(matrix: &Pairs) -> String {
    let ranks = matrix.labels.len();
    let middle = |values: Vec<f64>| median(&values).map_or("-".to_owned(), figure);
    let mut text = format!("# {:>4}  {:>10}  {:>10}\n", "rank", "sends", "receives");
    for rank in 0..ranks {
        let row = matrix.values.get(rank).into_iter().flatten().flatten().copied();
        let column = matrix.values.iter().filter_map(|row| row.get(rank).copied().flatten());
        let (sends, receives) = (middle(row.collect()), middle(column.collect()));
        let label = matrix.label(rank);
        text += &format!("  {rank:>4}  {sends:>10}  {receives:>10}  {label}\n");
    }
    text += "# slowest pairs\n";
    for pair in matrix.worst_first().iter().take(MAX_SLOWEST_PAIRS) {
        let (from, to) = (pair.from, pair.to);
        text += &format!("  {from:>4} to {to:>4}  {:>10}\n", figure(pair.value));
    }
    text
}

/// The verdict in sentences.
fn verdict(matrix: &Pairs, colour: bool) -> String {
    let Some(verdict) = &matrix.verdict else { return String::new() };
    let suspicion = verdict.basis == Basis::FirstLook && !verdict.slow.is_empty();
    let sentences = verdict.sentences(&matrix.labels);
    let named = verdict.slow.len();
    let mut text = String::new();
    for (at, sentence) in sentences.iter().enumerate() {
        let sentence = if suspicion && at < named {
            format!("{sentence} (one look; not measured again)")
        } else {
            sentence.clone()
        };
        match colour && at < named {
            true => text += &format!("# {}\n", red(&sentence)),
            false => text += &format!("# {sentence}\n"),
        }
    }
    text
}

fn red(text: &str) -> String {
    format!("\x1b[31m{text}\x1b[0m")
}

/// At least three digits.
pub(super) fn figure(value: f64) -> String {
    let decimals = match value {
        10.0.. => 1,
        // Of a network that is slow.
        0.000_01..0.01 => 5,
        0.01..0.1 => 4,
        _ => 2,
    };
    fixed(value, decimals)
}
