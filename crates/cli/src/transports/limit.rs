//! What the hardware allows over a transport: the question that `transports` asks for each size.
//! Not the answer, which needs the machine's topology.

use super::{here::Here, profile::Way};

/// Answers for a job, the way its bytes go, and a size (the size column): the limit of busbw in GB/s, or why
/// there is none.
pub type Limit<'a> = dyn Fn(&Here, &Way, u64) -> Result<f64, String> + 'a;

/// Where nothing knows limits.
///
/// # Errors
/// Always: that nothing does.
pub fn unknown(_: &Here, _: &Way, _: u64) -> Result<f64, String> {
    Err("this busbw does not compute limits".to_owned())
}
