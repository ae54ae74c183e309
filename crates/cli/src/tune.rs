//! `busbw tune`: what to set.
//! Not the search itself (`busbw-tune`).

pub(crate) mod show_choices;
