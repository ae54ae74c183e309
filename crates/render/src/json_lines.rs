//! `--json`: the record's own lines on stdout, as they arrive.
//! Not nccl-tests' JSON (`nccl_report`).

use std::io::{self, Write};

use busbw_core::record::{End, Line, Row, Run};

use super::Render;

/// JSON Lines on a writer.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<W: Write> JsonLines<W> {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.0.write_all(&busbw_store::line::to_text(line)?)?;
        self.0.flush()
    }
}

impl<W: Write> Render for JsonLines<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.line(&Line::Run(Box::new(run.clone())))
    }

    fn library(&mut self, said: &Line) -> io::Result<()> {
        self.line(said)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        self.line(&Line::Row(Box::new(row.clone())))
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        self.line(&Line::End(Box::new(end.clone())))
    }
}
