//! Who sends how many bytes to whom in alltoallv: nccl-tests' generated pattern, or a matrix.
//! Not reading the matrix file from disk: this takes its text.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The traffic of alltoallv (nccl-tests src/alltoallv.cu:359-368 and its usage header).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Traffic {
    /// Bytes grow with the distance from sender to receiver; `spread` 0 is uniform, 1 is fully
    /// weighted by distance (a rank then sends nothing to itself).
    Generated {
        /// NCCL_TESTS_ALLTOALLV_SPREAD, 0 to 1.
        spread: f64,
    },
    /// Every rank as much to every rank, itself included, to the byte (osu_alltoallv).
    Even,
    /// Bytes from NCCL_TESTS_ALLTOALLV_MATRIX_FILE, already scaled and rounded down to 16.
    Matrix {
        /// `rows[i][j]` = bytes from rank i to rank j.
        rows: Vec<Vec<u64>>,
        /// NCCL_TESTS_ALLTOALLV_MATRIX_SCALE, for the summary line.
        scale: f64,
    },
}

/// Why a matrix was refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MatrixError {
    /// A cell is not a number of bytes.
    #[error("line {line}: '{cell}' is not a number of bytes")]
    NotANumber {
        /// Line, counted from 1.
        line: usize,
        /// The cell's text.
        cell: String,
    },
    /// Rows and columns differ.
    #[error(
        "line {line} has {columns} columns where the matrix has {rows} rows: it must be square"
    )]
    NotSquare {
        /// Line, counted from 1.
        line: usize,
        /// Cells in that line.
        columns: usize,
        /// Rows in the file.
        rows: usize,
    },
    /// No numbers at all.
    #[error("it holds no numbers")]
    Empty,
    /// More ranks than rows.
    #[error(
        "{ranks} ranks need a matrix of at least {ranks} × {ranks}, this one is {rows} × {rows}"
    )]
    TooSmall {
        /// Ranks of the run.
        ranks: usize,
        /// Rows of the matrix.
        rows: usize,
    },
    /// The buffers are smaller than the busiest rank's traffic.
    #[error(
        "the busiest rank moves {needed} bytes, more than -b and -e, which must be equal and at least that (now {min} and {max})"
    )]
    Buffers {
        /// Bytes of the largest row or column.
        needed: u64,
        /// minbytes.
        min: u64,
        /// maxbytes.
        max: u64,
    },
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic::Generated { spread: 1.0 }
    }
}

/// The most bytes that a double counts one by one. Shares of more are rounded, and those rounded up
/// could together exceed the buffer, so each is shortened by more than it can have gained.
const EXACT: usize = 1 << 53;
const SHORTENED: f64 = 1.0 - 8.0 * f64::EPSILON;

/// Rounds down to 16 bytes, as every chunk in nccl-tests.
const fn floor16(bytes: u64) -> u64 {
    bytes & !15
}

impl Traffic {
    /// Reads a whitespace-separated square matrix of bytes, each cell times `scale`, rounded down
    /// to 16 bytes. Blank lines and `#` comments are skipped.
    ///
    /// # Errors
    /// [`MatrixError`] with the line at fault.
    pub fn from_matrix(text: &str, scale: f64) -> Result<Traffic, MatrixError> {
        let mut rows = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            let cells: Result<Vec<u64>, MatrixError> = line
                .split_whitespace()
                .map(|cell| match cell.parse::<f64>() {
                    Ok(v) if v >= 0.0 && v * scale < 2f64.powi(62) => {
                        Ok(floor16((v * scale) as u64))
                    }
                    _ => Err(MatrixError::NotANumber { line: at + 1, cell: cell.to_owned() }),
                })
                .collect();
            let cells = cells?;
            if !cells.is_empty() {
                rows.push((at + 1, cells));
            }
        }
        if rows.is_empty() {
            return Err(MatrixError::Empty);
        }
        let count = rows.len();
        if let Some((line, cells)) = rows.iter().find(|(_, cells)| cells.len() != count) {
            return Err(MatrixError::NotSquare { line: *line, columns: cells.len(), rows: count });
        }
        Ok(Traffic::Matrix { rows: rows.into_iter().map(|(_, cells)| cells).collect(), scale })
    }

    /// Whether the traffic comes from a matrix file.
    pub(crate) const fn is_matrix(&self) -> bool {
        matches!(self, Traffic::Matrix { .. })
    }

    /// Refuses a matrix that does not fit the run.
    ///
    /// # Errors
    /// Too few rows, or buffers that are too small (src/alltoallv.cu:300-340).
    pub fn check(&self, ranks: usize, min: u64, max: u64) -> Result<(), MatrixError> {
        let Traffic::Matrix { rows, .. } = self else { return Ok(()) };
        if rows.len() < ranks {
            return Err(MatrixError::TooSmall { ranks, rows: rows.len() });
        }
        let (send, recv) = self.largest_totals(ranks, 0, 1);
        let needed = send.max(recv) as u64;
        if min != max || needed > max {
            return Err(MatrixError::Buffers { needed, min, max });
        }
        Ok(())
    }

    /// Bytes from rank `from` to rank `to`, when the ranks together would move `total` bytes each.
    pub fn bytes(&self, from: usize, to: usize, ranks: usize, total: usize) -> usize {
        match self {
            Traffic::Matrix { rows, .. } => {
                rows.get(from).and_then(|row| row.get(to)).map_or(0, |b| *b as usize)
            }
            Traffic::Even => total / ranks.max(1),
            Traffic::Generated { spread } => {
                if ranks == 1 {
                    return floor16(total as u64) as usize;
                }
                let distance = (to + ranks - from) % ranks;
                let distances = (ranks * (ranks - 1) / 2) as f64;
                let uniform = total as f64 / ranks as f64;
                let weighted = distance as f64 * total as f64 / distances;
                let share = (1.0 - spread) * uniform + spread * weighted;
                let share = if total > EXACT { share * SHORTENED } else { share };
                floor16(share as u64) as usize
            }
        }
    }

    /// Elements from one rank to another.
    pub fn elements(
        &self,
        from: usize,
        to: usize,
        ranks: usize,
        total: usize,
        element_bytes: usize,
    ) -> usize {
        self.bytes(from, to, ranks, total) / element_bytes
    }

    /// The largest send and receive totals of any rank, in elements.
    pub(crate) fn largest_totals(
        &self,
        ranks: usize,
        total: usize,
        element_bytes: usize,
    ) -> (usize, usize) {
        let sum = |rank: usize, sends: bool| {
            (0..ranks)
                .map(|peer| {
                    let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
                    self.elements(from, to, ranks, total, element_bytes)
                })
                // Four cells just below 2^62 are more than 64 bits hold.
                .fold(0, usize::saturating_add)
        };
        match self {
            // Every rank's row is the same list rotated.
            Traffic::Generated { .. } | Traffic::Even => (sum(0, true), sum(0, true)),
            Traffic::Matrix { .. } => (
                (0..ranks).map(|r| sum(r, true)).max().unwrap_or(0),
                (0..ranks).map(|r| sum(r, false)).max().unwrap_or(0),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_oneself_at_full_spread() {
        let traffic = Traffic::default();
        assert_eq!(traffic.bytes(1, 1, 4, 4096), 0);
        assert_eq!(traffic.bytes(0, 3, 4, 6000), 3000 & !15);
        assert_eq!(Traffic::Generated { spread: 0.0 }.bytes(0, 3, 4, 6000), 1500 & !15);
    }

    #[test]
    fn matrix_is_scaled_and_checked() {
        let traffic = Traffic::from_matrix("0 100\n# a comment\n33 0\n", 2.0).unwrap();
        assert_eq!(traffic.bytes(0, 1, 2, 0), 192);
        assert_eq!(traffic.bytes(1, 0, 2, 0), 64);
        assert_eq!(traffic.largest_totals(2, 0, 4), (48, 48));
        assert!(traffic.check(2, 256, 256).is_ok());
        assert!(traffic.check(3, 256, 256).is_err());
        assert!(traffic.check(2, 64, 256).is_err());
        assert!(traffic.check(2, 64, 64).is_err());
    }

    /// A size of 2^62 over ten ranks gave 80 bytes more than the buffers have.
    #[test]
    fn shares_never_exceed_the_total() {
        for spread in [0.0, 0.1, 0.5, 1.0] {
            let traffic = Traffic::Generated { spread };
            for ranks in 1..40 {
                for total in [1 << 62, (1 << 62) - 16, (1 << 53) + 48, 1 << 53, 160, 16] {
                    let (send, _) = traffic.largest_totals(ranks, total, 1);
                    assert!(send <= total, "{spread} {ranks}: {send} of {total}");
                }
            }
        }
    }

    #[test]
    fn a_row_beyond_64_bits_is_refused() {
        let row = "4611686018427387000 ".repeat(5);
        let traffic = Traffic::from_matrix(&format!("{row}\n").repeat(5), 1.0).unwrap();
        let refused = traffic.check(5, 1 << 62, 1 << 62);
        assert!(
            matches!(refused, Err(MatrixError::Buffers { needed: u64::MAX, .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn bad_matrices_name_the_line() {
        assert_eq!(Traffic::from_matrix("", 1.0), Err(MatrixError::Empty));
        assert_eq!(
            Traffic::from_matrix("1 2\n3\n", 1.0),
            Err(MatrixError::NotSquare { line: 2, columns: 1, rows: 2 })
        );
        assert!(matches!(
            Traffic::from_matrix("1 x\n", 1.0),
            Err(MatrixError::NotANumber { line: 1, .. })
        ));
    }
}
