//! Options of OSU's names alone: columns, placement, memory.
//! Not the loops (`messaging`) and not the printing.

use serde::{Deserialize, Serialize};

use crate::osu::Accelerator;

/// The options of a program of the OSU Micro-Benchmarks 7.4 that other benchmarks lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Osu {
    /// Columns for the fastest and the slowest rank and for iterations (`-f`).
    pub full: bool,
    /// Collectives work within one buffer (`-l`).
    pub in_place: bool,
    /// Messages a second in osu_mbw_mr (`-R`).
    pub rate: bool,
    /// Whether the buffers of the ranks that begin, and of those that answer, are on GPUs (`-d`, `D
    /// H`); in collectives the first holds for all.
    pub on_gpus: [bool; 2],
    /// The vendor of those GPUs, for the title.
    #[serde(default)]
    pub accelerator: Accelerator,
}

impl Default for Osu {
    fn default() -> Osu {
        Osu {
            full: false,
            in_place: false,
            rate: true,
            on_gpus: [false; 2],
            accelerator: Accelerator::default(),
        }
    }
}
