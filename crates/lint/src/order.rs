//! The order of findings, each once.
//! Not the rules that find them.

use std::cmp::Reverse;

use busbw_core::finding::Finding;

/// Sorts by line, then the worst first. Settings that hold for many launches are judged at each,
/// so the same finding may come more than once; one is kept.
pub(super) fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.line(), Reverse(f.severity));
        // Down to the last field, so that equal findings stand side by side.
        let by_place = || a.rule.cmp(&b.rule).then_with(|| a.place.cmp(&b.place));
        let by_text = || a.cause.cmp(&b.cause).then_with(|| a.remedy.cmp(&b.remedy));
        key(a).cmp(&key(b)).then_with(by_place).then_with(by_text)
    });
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::{Place, Severity};

    use super::*;

    fn sample(line: u32, severity: Severity, value: &str) -> Finding {
        let place = Place::at(Some(line), "NCCL_IMEX_ENABLE");
        Finding::new("not-read", severity, "no NCCL release reads it")
            .place(Place { value: Some(value.to_owned()), ..place })
            .remedy("remove it")
    }

    #[test]
    fn lines_rise_the_worst_comes_first_and_each_comes_once() {
        let warning = sample(3, Severity::Warning, "1");
        let error = sample(3, Severity::Error, "1");
        let early = sample(1, Severity::Warning, "1");
        let all =
            vec![warning.clone(), error.clone(), warning.clone(), early.clone(), error.clone()];
        assert_eq!(in_order(all), [early, error, warning]);
    }

    #[test]
    fn equal_findings_come_once_even_with_another_value_between() {
        let [one, other] = ["1", "2"].map(|value| sample(3, Severity::Warning, value));
        assert_eq!(in_order(vec![one.clone(), other.clone(), one.clone()]), [one, other]);
    }
}
