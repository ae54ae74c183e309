//! The table of linkbench, a program that does not exist: it proves the recipe in CONTRIBUTING.md.
//! Not a format that anyone writes.
//!
//! ```text
//! linkbench 0.1: 2 ranks
//! bytes     usec
//! 8         1.50
//! done
//! ```

use crate::measurement::{Figure, Form, Half, Known, Measurement, Row};

use super::format::{Format, Line};

/// A table of linkbench.
#[derive(Debug, Default)]
pub(super) struct Table {
    titled: bool,
    done: bool,
}

impl Format for Table {
    const FORM: Form = Form::Linkbench;
    const WORDS: &'static [&'static str] = &["linkbench "];

    fn sniff(line: &str) -> Option<Table> {
        title(line).map(|_| Table::default())
    }

    fn line(&mut self, line: &str, run: &mut Measurement) -> Line {
        if let Some((version, ranks)) = title(line).filter(|_| !self.titled) {
            self.titled = true;
            run.test.name = Some("linkbench".to_owned());
            run.test.figure = Figure::Latency;
            run.source.version = Some(version);
            run.ranks = Some(Known::stated(ranks));
            return Line::Title;
        }
        if line == "done" {
            self.done = true;
            return Line::Known;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["bytes", "usec"] => Line::Known,
            [size, time] => match (size.parse(), time.parse()) {
                (Ok(size), Ok(time)) => {
                    let half = Half { time_us: Some(time), rounding_us: 0.005, ..Half::default() };
                    Line::Row(Row { size, out_of_place: Some(half), ..Row::default() })
                }
                _ => Line::Other,
            },
            _ => Line::Other,
        }
    }

    fn finish(&mut self, run: &mut Measurement) {
        if !self.done {
            run.errors.push("the table has no end".to_owned());
        }
    }
}

/// The version and the ranks in a title.
fn title(line: &str) -> Option<(String, usize)> {
    let (version, ranks) = line.strip_prefix("linkbench ")?.split_once(": ")?;
    Some((version.to_owned(), ranks.strip_suffix(" ranks")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use crate::{import, measurement::Form};

    #[test]
    fn tables_between_others() {
        let text = "linkbench 0.1: 2 ranks\nbytes     usec\n8   1.50\n16   1.75\ndone\nnoise\n\
                    # OSU MPI Latency Test v7.4\n# Size          Latency (us)\n8 1.26\n\
                    linkbench 0.2: 4 ranks\nbytes     usec\n8   2.50\n\
                    8 2 float sum -1 4.00 0.01 0.01 0 4.00 0.01 0.01 0\n";
        let read = import::read(text.as_bytes(), "log").unwrap_or_else(|e| panic!("{e}"));
        let runs = &read.measurements;
        let found: Vec<_> = runs
            .iter()
            .map(|run| (run.source.form, run.rows.len(), run.rank_count(), run.errors.len()))
            .collect();
        assert_eq!(
            found,
            [
                (Form::Linkbench, 2, Some(2), 0),
                (Form::Osu, 1, Some(2), 0),
                (Form::Linkbench, 1, Some(4), 1),
                (Form::NcclTests, 1, None, 0),
            ]
        );
        assert_eq!(runs[0].rows[1].out_of_place.as_ref().and_then(|half| half.time_us), Some(1.75));
        assert_eq!(runs[2].source.version.as_deref(), Some("0.2"));
        assert!(import::subject(&runs[0]).ends_with("2 ranks, linkbench 0.1"));
        let json = serde_json::to_string(&runs[0]).expect("a run is JSON");
        assert!(json.contains("\"form\":\"linkbench\""), "{json}");
        assert_eq!((read.lines.unrecognised, read.lines.rows), (1, 5));
    }
}
