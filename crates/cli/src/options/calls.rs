//! The options of what NCCL's calls are given, as typed: algorithm, CTAs.
//! Not which variants they make (`planning`).

use clap::Args;

use busbw_core::plan::AUTO;

use super::integer;

/// `--algorithm`, `--min-ctas`, `--max-ctas`.
#[derive(Debug, Clone, Default, Args)]
pub struct CallArguments {
    /// Algorithms of NCCL's calls, a row each: auto,RING_SIMPLE,TREE_LL
    ///
    /// Algorithm and protocol of NCCL's calls, such as RING_SIMPLE or TREE_LL; auto is NCCL's own choice.
    /// Several make a row each, measured in turns in one communicator; what NCCL cannot honour is a row that says so.
    /// Needs NCCL 2.31; from 2.22 on busbw's tuner asks for it
    #[arg(long, value_name = "NAMES", help_heading = "Libraries and devices")]
    pub algorithm: Option<String>,
    /// Least CTAs (channels) of a call, 1 to 64, a row each; needs NCCL 2.31
    #[arg(long = "min-ctas", value_name = "NUMBERS", help_heading = "Libraries and devices")]
    pub min_ctas: Option<String>,
    /// Most CTAs (channels) of a call, 1 to 64, a row each; needs NCCL 2.31, with Ring and Tree 2.22
    #[arg(long = "max-ctas", value_name = "NUMBERS", help_heading = "Libraries and devices")]
    pub max_ctas: Option<String>,
}

/// One of `-x`: a number, or `auto` for -1, which leaves the policy to NCCL.
pub(super) fn policy(text: &str) -> Result<i64, String> {
    if text.trim().eq_ignore_ascii_case(AUTO) { Ok(-1) } else { integer::parse(text) }
}
