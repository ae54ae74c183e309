//! What a format of text is: three functions, and the words that its titles and headers have.
//! Not the formats (`import::FORMATS` lists them), and not nccl-tests' (`nccl_tests`).
//!
//! `sniff` makes the table that the other two read, so that a format has no state outside of its tables. A run
//! that ends takes its table with it, and no format resets another one. nccl-tests is no `Format`: its rows are
//! known without a title, lines of NCCL tear them apart, and its heads and feet belong to whatever run is open.

use crate::measurement::{Form, Measurement, Row};

/// A format whose tables begin with a title or a header. The value is a table that is open.
pub(super) trait Format: Sized + 'static {
    /// The form of its runs.
    const FORM: Form;
    /// Words of which every line that `sniff` takes has at least one: other lines are not shown to it.
    const WORDS: &'static [&'static str];

    /// The table that this line begins; none where it is no title and no header. The run before it ends, and
    /// `line` then reads the same line.
    fn sniff(line: &str) -> Option<Self>;

    /// Reads a line, of this table or not. What it says of the run goes into `run`.
    fn line(&mut self, line: &str, run: &mut Measurement) -> Line;

    /// The end of the run: the last that the table adds to it.
    fn finish(&mut self, _run: &mut Measurement) {}
}

/// What a table made of a line.
#[derive(Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "a row is moved once; boxed, each would be an allocation"
)]
pub(super) enum Line {
    /// It is not of this table.
    Other,
    /// The title: there was a run, even if no row follows.
    Title,
    /// A header, a remark or a foot.
    Known,
    /// A row.
    Row(Row),
    /// Behind rows: it begins the same test's next table, which is a run of its own. The table reads it again there.
    Next,
}

/// A format in the list.
pub(super) struct Listed {
    /// The form of its runs.
    pub form: Form,
    /// See [`Format::WORDS`].
    pub words: &'static [&'static str],
    /// See [`Format::sniff`].
    pub sniff: fn(&str) -> Option<Box<dyn Table>>,
}

impl Listed {
    pub(super) const fn of<F: Format>() -> Listed {
        Listed {
            form: F::FORM,
            words: F::WORDS,
            sniff: |line| F::sniff(line).map(|table| Box::new(table) as Box<dyn Table>),
        }
    }
}

/// An open table of any format.
pub(super) trait Table {
    /// See [`Format::line`].
    fn line(&mut self, line: &str, run: &mut Measurement) -> Line;
    /// See [`Format::finish`].
    fn finish(&mut self, run: &mut Measurement);
}

impl<F: Format> Table for F {
    fn line(&mut self, line: &str, run: &mut Measurement) -> Line {
        Format::line(self, line, run)
    }

    fn finish(&mut self, run: &mut Measurement) {
        Format::finish(self, run);
    }
}
