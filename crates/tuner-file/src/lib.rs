//! The file of a tuner: which algorithm, protocol and channels NCCL takes for a collective and a size.
//! Not reading it from a disk, and not a tuner (`nccl-tuner-busbw`).
//!
//! The format is that of NCCL's example tuner (plugins/tuner/example/plugin.c of NCCL 2.30.7), so that one file serves
//! both. docs/tuner.md has it, with what is refused here and why.
#![forbid(unsafe_code)]

mod choices;
mod entry;
mod reading;
mod reference;
mod words;

pub use self::{
    choices::{Choices, Range},
    entry::{Call, Entry, MOST_CHANNELS},
    reading::{LONGEST_LINE, MOST_BYTES, MOST_ENTRIES, Mistake, TunerFile, bounded},
    reference::{BadReference, Digest, Reference},
    words::{Algorithm, Collective, Protocol, offered},
};
