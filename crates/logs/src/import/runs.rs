//! The runs of one text: the open one with its table, and where it ends and the next begins.
//! Not which line that is (`text`, `nccl_tests`, the formats).

use std::{collections::BTreeMap, mem};

use crate::measurement::Measurement;

use super::{
    Lines,
    format::{Line, Listed, Table},
    section::Section,
};

/// The runs of a text, of which the last is open.
pub(super) struct Runs<'e> {
    pub name: String,
    each: &'e mut dyn FnMut(Measurement),
    /// The open run.
    pub section: Section,
    /// The table that reads it; none of nccl-tests'.
    table: Option<Box<dyn Table>>,
    pub lines: Lines,
    /// Runs that are complete.
    pub complete: u64,
}

impl<'e> Runs<'e> {
    pub(super) fn new(name: &str, each: &'e mut dyn FnMut(Measurement)) -> Runs<'e> {
        Runs {
            name: name.to_owned(),
            each,
            section: Section::new(name, 1),
            table: None,
            lines: Lines::default(),
            complete: 0,
        }
    }

    /// Whether a table of a listed format is open.
    pub(super) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Begins a format's table, and its run, if this line does.
    pub(super) fn begin(&mut self, format: &Listed, line: &str) -> bool {
        let Some(table) = (format.sniff)(line) else { return false };
        // The command line above a table belongs to it.
        let before = &mut self.section.measurement;
        let command = before.command.take_if(|_| before.rows.is_empty());
        let settings = match before.rows.is_empty() {
            true => mem::take(&mut before.environment),
            false => BTreeMap::new(),
        };
        self.next_run();
        (self.section.measurement.command, self.section.measurement.environment) =
            (command, settings);
        self.section.measurement.source.form = format.form;
        self.table = Some(table);
        self.table_line(line)
    }

    /// Gives a line to the open table. Returns whether it was one of its lines.
    pub(super) fn table_line(&mut self, line: &str) -> bool {
        let Some(table) = &mut self.table else { return false };
        // Matched where it is returned: a row is too large to be moved more often than needed.
        match table.line(line, &mut self.section.measurement) {
            Line::Row(row) => {
                self.section.push(row);
                self.lines.rows += 1;
            }
            Line::Title => {
                self.section.begin();
                self.lines.known += 1;
            }
            Line::Known => self.lines.known += 1,
            Line::Other => return false,
            Line::Next => return self.next_of_test(line),
        }
        true
    }

    /// Begins the next run of the same test, of which this line is the first.
    fn next_of_test(&mut self, line: &str) -> bool {
        let this = &self.section.measurement;
        // A table that asks for a run before it has rows would ask forever.
        if this.rows.is_empty() {
            return false;
        }
        let (test, form) = (this.test.clone(), this.source.form);
        let table = self.end_table();
        self.next_run();
        self.section.measurement.source.form = form;
        self.section.measurement.test = test;
        self.table = table;
        self.table_line(line)
    }

    /// Ends the run of an open table: a line of nccl-tests' table follows.
    pub(super) fn leave_table(&mut self) {
        if self.has_table() {
            self.next_run();
        }
    }

    /// Ends the open run; the next one begins on this line.
    pub(super) fn next_run(&mut self) {
        self.end_table();
        let next = Section::new(&self.name, self.lines.all);
        self.change(next);
    }

    /// Ends the open run of nccl-tests; the next one has the same head.
    pub(super) fn next_table(&mut self) {
        let next = self.section.next_with_same_head(self.lines.all);
        self.change(next);
    }

    fn end_table(&mut self) -> Option<Box<dyn Table>> {
        let mut table = self.table.take()?;
        table.finish(&mut self.section.measurement);
        Some(table)
    }

    fn change(&mut self, next: Section) {
        let (measurement, cut) = mem::replace(&mut self.section, next).finish();
        self.lines.cut += cut;
        if let Some(measurement) = measurement {
            self.complete += 1;
            (self.each)(measurement);
        }
    }
}
