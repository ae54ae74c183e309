//! The variants of a run, which differ in what calls were given: each is a run of its own.
//! Not what they were given: a row has their label.

use busbw_core::record::Figures;

use super::{Measurement, Row};

impl Measurement {
    /// A run for each variant, in the order of their rows; the run itself where it had none.
    pub fn variants(self) -> Vec<Measurement> {
        let mut labels: Vec<Option<String>> = Vec::new();
        for row in &self.rows {
            if !labels.contains(&row.variant) {
                labels.push(row.variant.clone());
            }
        }
        match labels.as_slice() {
            [] | [_] => vec![self],
            labels => labels.iter().map(|label| self.only_variant(label.as_ref())).collect(),
        }
    }

    fn only_variant(&self, label: Option<&String>) -> Measurement {
        let own = |row: &&Row| row.variant.as_ref() == label;
        let rows: Vec<Row> = self.rows.iter().filter(own).cloned().collect();
        let wrong = |row: &Row| row.both().any(|half: &Figures| half.wrong.is_some_and(|n| n > 0));
        // The count is of all variants.
        let blamed = rows.iter().any(wrong) || !self.rows.iter().any(wrong);
        let out_of_bounds = self.out_of_bounds.filter(|count| blamed || *count == 0);
        let this = Measurement { rows: Vec::new(), ..self.clone() };
        Measurement { rows, out_of_bounds, ..this }
    }

    /// The label of this variant, where the run had several or one.
    pub fn variant(&self) -> Option<&str> {
        self.rows.first()?.variant.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_is_a_run() {
        let row = |size, variant: &str, wrong| Row {
            size,
            variant: Some(variant.to_owned()),
            out_of_place: Some(Figures { wrong: Some(wrong), ..Figures::default() }),
            ..Row::default()
        };
        let rows = vec![row(8, "auto", 0), row(8, "RING_LL", 3), row(16, "auto", 0)];
        let run = Measurement { rows, out_of_bounds: Some(1), ..Measurement::default() };
        let each = run.variants();
        let of = |run: &Measurement| {
            (run.variant().map(str::to_owned), run.rows.len(), run.out_of_bounds)
        };
        assert_eq!(
            each.iter().map(of).collect::<Vec<_>>(),
            [(Some("auto".to_owned()), 2, None), (Some("RING_LL".to_owned()), 1, Some(1))]
        );
        assert_eq!(Measurement::default().variants().len(), 1);
    }
}
