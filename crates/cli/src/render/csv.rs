//! `--csv`: one line a row and placement, so that every line has the same columns.
//! Not the record: samples stay there.

use std::io::{self, Write};

use model::record::{End, Half, Row, Run};

use super::Render;

/// The columns.
const HEADER: &str = "collective,group,ranks,cycle,size_bytes,count,type,redop,root,place,time_us,low_us,high_us,algbw_gbps,busbw_gbps,wrong,batches,noisy,finished,waived";

/// CSV on a writer.
#[derive(Debug)]
pub struct Csv<W>(pub W);

impl<W: Write> Csv<W> {
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())?;
        self.0.flush()
    }
}

impl<W: Write> Render for Csv<W> {
    fn run(&mut self, _: &Run) -> io::Result<()> {
        self.write(&format!("{HEADER}\n"))
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if !row.shown {
            return Ok(());
        }
        let lead = format!(
            "{},{},{},{},{},{},{},{},{}",
            row.collective.name(),
            row.group,
            row.ranks,
            row.cycle,
            row.size,
            row.count,
            row.datatype.name(),
            row.redop,
            row.root
        );
        let mut text = String::new();
        for (place, half) in [("out-of-place", &row.out_of_place), ("in-place", &row.in_place)] {
            if let Some(half) = half {
                text += &format!("{lead},{place},{},{},\n", measured(half), row.finished);
            }
        }
        if let Some(reason) = &row.waived {
            text += &format!("{lead},,,,,,,,,,{},{}\n", row.finished, quoted(reason));
        }
        self.write(&text)
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        Ok(())
    }
}

fn measured(half: &Half) -> String {
    let summary = half.summary.as_ref();
    let interval = summary.and_then(|s| s.interval);
    let (low, high) =
        interval.map_or((String::new(), String::new()), |i| (figure(i.low), figure(i.high)));
    format!(
        "{},{low},{high},{},{},{},{},{}",
        figure(half.time_us),
        figure(half.algbw),
        figure(half.busbw),
        half.wrong.map_or(String::new(), |w| w.to_string()),
        half.batches_us.len(),
        summary.is_some_and(|s| s.noisy)
    )
}

/// Enough digits to compute with; empty where there is no figure.
fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { String::new() }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
