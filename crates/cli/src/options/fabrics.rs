//! Options of `busbw plan` for a collective on a fabric: its groups, its placement, what fails.
//! Not the fabric file (`fabric_source`), and not the computation (`busbw_hardware::forecast`).

use busbw_hardware::fabric::Failure;
use busbw_hardware::forecast::{Job, Placement, Target};
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
    /// What is to be kept, GB/s of busbw or a share of the whole fabric's: how many of each --fail may fail? [default: none]
    #[arg(long, value_name = "GB/s|SHARE", value_parser = target, requires = "fail", help_heading = OF_FABRICS)]
    pub target: Option<Target>,
    /// Print a fabric file to start from: clos-2tier, clos-3tier, rail-optimized, multi-plane, oversubscribed, nvl72 [default: none]
    #[arg(long, value_name = "NAME", value_parser = example, help_heading = OF_FABRICS)]
    pub example: Option<&'static str>,
}

/// `300` GB/s, or `90%`.
fn target(text: &str) -> Result<Target, String> {
    let wrong =
        || format!("'{text}' is no busbw above 0, such as 300, and no share to 100 %, such as 90%");
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    match text.trim().strip_suffix('%') {
        Some(percent) => match number(percent)? / 100.0 {
            share if share > 0.0 && share <= 1.0 => Ok(Target::Share(share)),
            _ => Err(wrong()),
        },
        None => match number(text)? {
            busbw if busbw > 0.0 && busbw.is_finite() => Ok(Target::Busbw(busbw)),
            _ => Err(wrong()),
        },
    }
}

/// The text of an example.
fn example(name: &str) -> Result<&'static str, String> {
    busbw_hardware::fabric::example(name).ok_or_else(|| {
        let known = busbw_hardware::fabric::ready::names().join(", ");
        format!("'{name}' is no example; there are {known}")
    })
}
