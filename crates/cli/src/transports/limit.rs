//! Percent of what the hardware allows: the question that is asked for each transport.
//! Not the answer, which is the model's.

use model::Collective;

use super::profile::Way;

/// Which limit is meant.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The collective.
    pub collective: Collective,
    /// The size column, bytes.
    pub size: u64,
    /// Ranks.
    pub ranks: usize,
    /// Nodes that they are dealt out to.
    pub nodes: usize,
    /// By which way.
    pub way: &'a Way,
}

/// Answers with the limit of busbw in GB/s, or why there is none.
pub type Limit<'a> = dyn Fn(&Question<'_>) -> Result<f64, String> + 'a;

/// Where nothing computes limits.
///
/// # Errors
/// Always: that nothing does.
pub fn unknown(_: &Question<'_>) -> Result<f64, String> {
    Err("limits are not computed by this busbw".to_owned())
}
