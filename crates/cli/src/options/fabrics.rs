//! Options of `busbw plan` for a collective on a fabric: its groups, its placement, what fails.
//! Not the fabric file (`fabric_source`), and not the computation (`busbw_hardware::forecast`).

use busbw_hardware::fabric::Failure;
use busbw_hardware::forecast::{Job, Placement};
use clap::Args;

/// Heading of these options.
const OF_FABRICS: &str = "Options for a fabric";

/// What is asked of a fabric beside the collective.
#[derive(Debug, Clone, Default, Args)]
pub struct FabricArguments {
    /// Groups that run it at once, neighbours first: tp8,pp8,dp16 or ep64 [default: one of all GPUs]
    #[arg(long, value_name = "DIMENSIONS", help_heading = OF_FABRICS)]
    pub job: Option<Job>,
    /// Where ranks run: packed, scattered[:SEED], rail [default: packed]
    #[arg(long, value_name = "HOW", help_heading = OF_FABRICS)]
    pub placement: Option<Placement>,
    /// What is lost or slow, such as link, switch:spine*2, plane, link:leaf@0.5; again for more [default: nothing]
    #[arg(long, value_name = "PART", help_heading = OF_FABRICS)]
    pub fail: Vec<Failure>,
    /// Print a fabric file to start from: clos-2tier, clos-3tier, rail-optimized, multi-plane, oversubscribed [default: none]
    #[arg(long, value_name = "NAME", value_parser = example, help_heading = OF_FABRICS)]
    pub example: Option<&'static str>,
}

/// The text of an example.
fn example(name: &str) -> Result<&'static str, String> {
    busbw_hardware::fabric::example(name).ok_or_else(|| {
        let known = busbw_hardware::fabric::ready::names().join(", ");
        format!("'{name}' is no example; there are {known}")
    })
}
