//! The environment variables that busbw itself reads, one documented field each.
//! Not NCCL's and UCX's own, but for two that make an option void and one that `--tuner` sets: those go to the libraries, to the record and to `busbw_lint`.

use busbw_core::environment::{BACKEND, NO_RECORD, RELAYED, TUNER, TUNER_BEFORE};
use busbw_job::launched::Launched;
use busbw_runner::backend::nccl::tuner::NCCL_TUNER_PLUGIN;

/// Our part of the environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Environment {
    /// NCCL_TESTS_DEVICE: first device of every process (default 0).
    pub device: Option<String>,
    /// NCCL_TESTS_SPLIT: "AND|OR|MOD|DIV value", which ranks form a communicator.
    pub split: Option<String>,
    /// NCCL_TESTS_SPLIT_MASK: hexadecimal; colour = rank & mask; wins over NCCL_TESTS_SPLIT.
    pub split_mask: Option<String>,
    /// NCCL_TESTS_MIN_BW: GB/s; fail with 7 when the average bus bandwidth is below 0.9 of it.
    pub min_bandwidth: Option<String>,
    /// NCCL_TESTS_ALLTOALLV_SPREAD: 0 to 1 (default 1).
    pub spread: Option<String>,
    /// NCCL_TESTS_ALLTOALLV_MATRIX_FILE: path of a traffic matrix.
    pub matrix_file: Option<String>,
    /// NCCL_TESTS_ALLTOALLV_MATRIX_SCALE: factor on its cells (default 1).
    pub matrix_scale: Option<String>,
    /// NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: 1 prints every rank's bytes and bandwidth.
    pub traffic_summary: Option<String>,
    /// Those of NCCL_ALGO and NCCL_PROTO that are set: NCCL then chooses by them alone.
    pub choosing: Vec<&'static str>,
    /// BUSBW_TUNER: the file by which busbw's tuner chooses, with its hash.
    pub tuner: Option<String>,
    /// BUSBW_TUNER_BEFORE: the library of the tuner that it asks elsewhere.
    pub tuner_before: Option<String>,
    /// NCCL_TUNER_PLUGIN: the tuner that NCCL loads.
    pub tuner_plugin: Option<String>,
    /// BUSBW_BACKEND: the backend where the options name none.
    pub backend: Option<String>,
    /// BUSBW_NO_RECORD: 1 writes no record.
    pub no_record: bool,
    /// BUSBW_RELAYED: 1 where stdout is read by the busbw whose launcher started this one: it gets the
    /// record's lines, and writes the table, the record and the report where the user is.
    pub relayed: bool,
    /// What a launcher says, where it started this process as one of several.
    pub launched: Option<Launched>,
    /// What a launcher says, where it started this process as the only one.
    pub alone: Option<String>,
}

impl Environment {
    /// Reads it through `lookup`, which is `std::env::var` outside of tests.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Environment {
        let is_set = |name| lookup(name).is_some_and(|value| !matches!(value.trim(), "" | "0"));
        Environment {
            device: lookup("NCCL_TESTS_DEVICE"),
            split: lookup("NCCL_TESTS_SPLIT"),
            split_mask: lookup("NCCL_TESTS_SPLIT_MASK"),
            min_bandwidth: lookup("NCCL_TESTS_MIN_BW"),
            spread: lookup("NCCL_TESTS_ALLTOALLV_SPREAD"),
            matrix_file: lookup("NCCL_TESTS_ALLTOALLV_MATRIX_FILE"),
            matrix_scale: lookup("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE"),
            traffic_summary: lookup("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"),
            choosing: ["NCCL_ALGO", "NCCL_PROTO"]
                .into_iter()
                .filter(|name| lookup(name).is_some_and(|value| !value.is_empty()))
                .collect(),
            tuner: lookup(TUNER).filter(|value| !value.is_empty()),
            tuner_before: lookup(TUNER_BEFORE).filter(|value| !value.is_empty()),
            tuner_plugin: lookup(NCCL_TUNER_PLUGIN).filter(|value| !value.is_empty()),
            backend: lookup(BACKEND).filter(|name| !name.trim().is_empty()),
            no_record: is_set(NO_RECORD),
            relayed: is_set(RELAYED),
            launched: Launched::read(&lookup),
            alone: Launched::sole_process(&lookup),
        }
    }
}
