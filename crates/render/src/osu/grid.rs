//! osu_mbw_mr's grid of windows (`-V`): bandwidths line by line, then the same as messages a second
//! (c/mpi/pt2pt/standard/osu_mbw_mr.c: window_varied).
//! Not tables of one window.

use super::head;

/// The grid of a type, filled as rows arrive.
#[derive(Debug, Default)]
pub(super) struct Grid {
    /// Every size with its bandwidths, GB/s.
    lines: Vec<(u64, Vec<f64>)>,
    /// The column heading of a complete line.
    windows: Vec<u32>,
}

impl Grid {
    /// Adds a cell. Returns the line's text once it is complete.
    pub(super) fn cell(&mut self, size: u64, algbw: f64, windows: &[u32]) -> String {
        self.windows = windows.to_vec();
        match self.lines.last_mut() {
            Some((last, cells)) if *last == size && cells.len() < windows.len() => {
                cells.push(algbw)
            }
            _ => self.lines.push((size, vec![algbw])),
        }
        match self.lines.last() {
            Some((size, cells)) if cells.len() == windows.len() => line(*size, cells, 1e3),
            _ => String::new(),
        }
    }

    /// The lines that end the grid, which is empty afterwards.
    pub(super) fn close(&mut self, rate: bool) -> String {
        let mut text = self.cut();
        let lines = std::mem::take(&mut self.lines);
        if rate && !lines.is_empty() {
            text += "\n# Message Rate Profile\n";
            text += &head::windows(&self.windows);
            for (size, cells) in &lines {
                text += &line(*size, cells, 1e9 / *size as f64);
            }
        }
        text
    }

    /// The incomplete line of a run that ended in it.
    pub(super) fn cut(&self) -> String {
        match self.lines.last() {
            Some((size, cells)) if cells.len() < self.windows.len() => line(*size, cells, 1e3),
            _ => String::new(),
        }
    }
}

/// A size and its cells, in GB/s times `factor`.
fn line(size: u64, cells: &[f64], factor: f64) -> String {
    let cells: String = cells.iter().map(|algbw| format!("  {:>10.2}", algbw * factor)).collect();
    format!("{size:<7}{cells}\n")
}
