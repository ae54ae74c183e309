//! Predictions against published results that calibrated nothing: data/plan/points.tsv. The table of docs/plan.md is
//! this one; `UPDATE_PLAN_TABLE=1 cargo test -p busbw-hardware --test it plan_points` writes it anew.

use std::{collections::BTreeSet, fmt::Write, fs};

use busbw_core::Collective;
use busbw_hardware::limits::{Algorithm, Inside, Memory, RankPlacement};
use busbw_hardware::machine::{Machine, parse, ready};
use busbw_hardware::prediction::{CALIBRATION, Expected, Question, Span, points};
use busbw_hardware::tuning::Version;

const BEGIN: &str = "<!-- points -->\n";
const END: &str = "<!-- end of points -->\n";

/// What people multiply a limit with where they know no better.
const RULE_OF_THUMB: f64 = 0.92;

struct Row<'t> {
    cells: Vec<&'t str>,
}

impl Row<'_> {
    fn number(&self, column: usize) -> f64 {
        self.cells[column].parse().unwrap_or_else(|error| panic!("{:?}: {error}", self.cells))
    }

    fn machine(&self) -> Machine {
        let name = self.cells[1];
        let mut machine = ready(name).unwrap_or_else(|| {
            let file = format!("{}/tests/data/limits/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            parse(&fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}")))
                .unwrap()
        });
        machine.nodes = self.number(2) as usize;
        machine
    }

    fn placement(&self) -> RankPlacement {
        let inside = if self.cells[4] == "network" { Inside::Network } else { Inside::Best };
        let memory = if self.cells[5] == "host" { Memory::Host } else { Memory::Gpu };
        let (nodes, per_node) = (self.number(2) as usize, self.number(3) as usize);
        RankPlacement { inside, memory, ..RankPlacement::new(nodes, per_node) }
    }

    fn expect(&self, algorithm: Option<Algorithm>) -> Expected {
        let machine = self.machine();
        let question = Question {
            machine: &machine,
            placement: self.placement(),
            collective: Collective::from_name(self.cells[6]).unwrap(),
            version: Version::from_text(self.cells[8]).unwrap(),
            algorithm,
        };
        question.expect(self.number(9) as u64).unwrap_or_else(|e| panic!("{:?}: {e}", self.cells))
    }

    /// The column that the source speaks of.
    fn span(&self, expected: &Expected) -> Span {
        if self.cells[10] == "algbw" { expected.algbw } else { expected.busbw }
    }

    fn limit(&self, expected: &Expected) -> f64 {
        if self.cells[10] == "algbw" { expected.limit.algbw } else { expected.limit.busbw }
    }

    /// Whether all that was published is in a range, as far as its digits go.
    fn is_in(&self, span: Span) -> bool {
        let digits = self.cells[11].split('.').nth(1).map_or(0, str::len) as i32;
        let rounding = 0.5 * 10f64.powi(-digits);
        self.number(11) + rounding >= span.low && self.number(12) - rounding <= span.high
    }
}

fn rows() -> Vec<Row<'static>> {
    let text = include_str!("../data/plan/points.tsv").lines();
    let rows = text.filter(|line| !line.starts_with('#'));
    rows.map(|line| Row { cells: line.split('\t').collect() }).collect()
}

fn figure(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.1}"),
        1.0..100.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[derive(Default)]
struct Score {
    rows: usize,
    inside: usize,
    narrow: usize,
    errors: Vec<f64>,
    rule_errors: Vec<f64>,
}

impl Score {
    fn count(&mut self, row: &Row<'_>, expected: &Expected) -> (bool, f64) {
        let span = row.span(expected);
        let published = f64::midpoint(row.number(11), row.number(12));
        let off = span.middle / published - 1.0;
        let inside = row.is_in(span);
        self.rows += 1;
        self.inside += usize::from(inside);
        self.narrow += usize::from(span.half_width_percent() <= 15.0);
        self.errors.push(off.abs());
        self.rule_errors.push((row.limit(expected) * RULE_OF_THUMB / published - 1.0).abs());
        (inside, off)
    }

    fn sentence(&self, of: &str) -> String {
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64 * 100.0;
        format!(
            "| {of} | {} | {} | {} | {:.1} % | {:.1} % |\n",
            self.rows,
            self.inside,
            self.narrow,
            mean(&self.errors),
            mean(&self.rule_errors)
        )
    }
}

/// The table and the scores, as the document has them.
fn document() -> (String, [Score; 3]) {
    let mut text = String::from(
        "| | what | published | algorithm | limit | predicted | range | ± | difference | inside | source |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut all, mut sound, mut free) = (Score::default(), Score::default(), Score::default());
    let mut other = Vec::new();
    for row in rows() {
        let fixed = Algorithm::from_name(row.cells[7]);
        let expected = row.expect(fixed);
        let span = row.span(&expected);
        let (inside, off) = all.count(&row, &expected);
        if row.cells[13] == "scored" {
            sound.count(&row, &expected);
        }
        // The same without being told the algorithm.
        let own = row.expect(None);
        if row.cells[13] == "scored" {
            free.count(&row, &own);
        }
        if own.algorithm != expected.algorithm {
            other.push(format!(
                "{} ({}, {} in {} to {})",
                row.cells[0],
                own.algorithm,
                row.cells[11],
                figure(row.span(&own).low),
                figure(row.span(&own).high)
            ));
        }
        let published = match row.cells[11] == row.cells[12] {
            true => row.cells[11].to_owned(),
            false => format!("{} to {}", row.cells[11], row.cells[12]),
        };
        let faulty = if row.cells[13] == "faulty" { " (faulty)" } else { "" };
        let known = if expected.known { "" } else { " (not known)" };
        let _ = writeln!(
            text,
            "| {} | {}{faulty} | {published} {} | {} | {} | {} | {} to {} | {:.1} %{known} | {:+.1} % | {} | {} |",
            row.cells[0],
            row.cells[14],
            row.cells[10],
            expected.algorithm,
            figure(row.limit(&expected)),
            figure(span.middle),
            figure(span.low),
            figure(span.high),
            span.half_width_percent(),
            off * 100.0,
            if inside { "yes" } else { "**no**" },
            row.cells[15],
        );
    }
    text.push_str("\n| points | number | inside | range of at most ±15 % | mean error | mean error of limit × 0.92 |\n|---|---|---|---|---|---|\n");
    text.push_str(&all.sentence("all"));
    text.push_str(&sound.sentence("without those that their source calls faulty"));
    text.push_str(&free.sentence("the same, where NCCL's cost model chooses the algorithm"));
    let _ = writeln!(
        text,
        "\nWithout being told the algorithm, the model chooses another one for points {}.",
        other.join(", ")
    );
    (text, [all, sound, free])
}

/// The bar: five of six points of machines in order are inside, and the mean error is below that of the rule of thumb.
#[test]
fn most_published_results_are_in_their_range() {
    let (_, [all, sound, _]) = document();
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(all.rows >= 12, "{} points", all.rows);
    assert!(sound.inside * 6 >= sound.rows * 5, "{} of {}", sound.inside, sound.rows);
    assert!(mean(&sound.errors) < mean(&sound.rule_errors));
}

#[test]
fn ranges_of_known_machines_are_narrow() {
    for row in rows() {
        let expected = row.expect(Algorithm::from_name(row.cells[7]));
        let width = row.span(&expected).half_width_percent();
        if expected.known && row.number(9) >= 1e9 {
            assert!(width <= 15.0, "{}: ±{width:.1} %", row.cells[0]);
        }
    }
}

#[test]
fn nothing_is_scored_that_calibrated() {
    let used: BTreeSet<String> = points().iter().map(|point| format!("{}", point.busbw)).collect();
    for row in rows() {
        assert!(!used.contains(&format!("{}", row.number(11))), "{:?}", row.cells);
        assert!(!CALIBRATION.contains(row.cells[15]), "{:?}", row.cells);
    }
}

#[test]
fn the_document_has_this_table() {
    super::document_has(BEGIN, END, &document().0);
}
