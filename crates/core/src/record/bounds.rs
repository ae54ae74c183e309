//! What the numbers of a record may be: it comes from outside, and its readers make lists as long as it says.
//! Not whether they agree with each other.

use super::{Folded, Row, Run};

/// The most ranks of a run.
pub const MAX_RANKS: usize = 4096;
/// More bytes or elements than any memory has: sums and products of a row's columns stay within 64 bits.
pub const MOST_BYTES: u64 = 1 << 48;
/// The most wrong elements, calls or counted events of one line: sums over all lines stay within 64 bits.
pub const MOST_EVENTS: u64 = 1 << 52;

/// Refuses a number by its field's name.
///
/// # Errors
/// It is not between `least` and `most`.
pub fn within(field: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{field} is {value}, and {least} to {most} is possible"))
}

impl Folded {
    /// Whether every line is possible.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), String> {
        self.run.check()?;
        self.rows.iter().try_for_each(Row::check)?;
        self.end.iter().try_for_each(|end| {
            within("out_of_bounds", end.out_of_bounds, 0, MOST_EVENTS)?;
            let memory = end.gpu_memory.unwrap_or_default();
            within("gpu_memory.initialization", memory.initialization, 0, MOST_BYTES)?;
            within("gpu_memory.allocated", memory.allocated, 0, MOST_BYTES)?;
            within("gpu_memory.collective", memory.collective, 0, MOST_BYTES)
        })
    }
}

impl Run {
    fn check(&self) -> Result<(), String> {
        let plan = &self.plan;
        let ranks = MAX_RANKS as u64;
        let counts = [
            ("plan.threads", plan.threads),
            ("plan.devices", plan.devices),
            ("plan.launched", plan.launched),
            ("plan.virtual_nodes", plan.virtual_nodes),
        ];
        for (field, value) in counts {
            within(field, value as u64, 1, ranks)?;
        }
        // Each is small enough for the product.
        within("plan.launched × plan.threads × plan.devices", plan.ranks() as u64, 1, ranks)?;
        within("plan.messaging.pairs", plan.messaging.pairs.unwrap_or(0) as u64, 0, ranks)?;
        within("plan.max_bytes", plan.max_bytes, 0, MOST_BYTES)?;
        within("plan.min_bytes", plan.min_bytes, 0, plan.max_bytes)?;
        for device in &self.devices {
            within("devices.rank", device.rank as u64, 0, ranks - 1)?;
        }
        Ok(())
    }
}

impl Row {
    fn check(&self) -> Result<(), String> {
        let ranks = MAX_RANKS as u64;
        within("row.ranks", self.ranks as u64, 1, ranks)?;
        within("row.size", self.size, 0, MOST_BYTES)?;
        within("row.count", self.count, 0, MOST_BYTES)?;
        let pairs = self.pairs.iter().filter_map(|pairs| pairs.retest.as_ref());
        for half in self.out_of_place.iter().chain(&self.in_place).chain(pairs) {
            within("row.wrong", half.figures.wrong.unwrap_or(0), 0, MOST_EVENTS)?;
            for pair in half.messages.iter().flat_map(|messages| &messages.pairs) {
                within("row.messages.pairs.from", pair.from as u64, 0, ranks - 1)?;
                within("row.messages.pairs.to", pair.to as u64, 0, ranks - 1)?;
            }
        }
        Ok(())
    }
}
