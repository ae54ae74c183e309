//! From the lines of a check to the decision whether a job starts.
//! Not the lines, and not the exit code's number.

use super::report::{CheckLine, Decision, Verdict};

/// A decision and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// One sentence.
    pub reason: String,
}

/// Decides. A fault that was seen twice blocks, whatever else cannot be told. What cannot be told lets the job start, and
/// with `fail_closed` it does not.
pub fn decide(lines: &[CheckLine], fail_closed: bool, interrupted: bool) -> Decided {
    let those = |is: &dyn Fn(&CheckLine) -> bool| -> Vec<&CheckLine> {
        lines.iter().filter(|line| is(line)).collect()
    };
    let blocking = those(&CheckLine::blocks);
    let untold = those(&|line| line.verdict == Verdict::CannotTell);
    let judged = lines.iter().any(|line| matches!(line.verdict, Verdict::Pass | Verdict::Fail));
    let decided = |decision, reason| Decided { decision, reason };
    if let Some(first) = blocking.first() {
        return decided(Decision::Blocked, with_more(first, blocking.len()));
    }
    if interrupted {
        return decided(Decision::Interrupted, "the check was interrupted".to_owned());
    }
    let untold_reason = match untold.first() {
        Some(first) => with_more(first, untold.len()),
        None if !judged => "nothing was checked".to_owned(),
        None => {
            return decided(Decision::Pass, "no check found a fault".to_owned());
        }
    };
    let decision = if fail_closed { Decision::BlockedUntold } else { Decision::LetThrough };
    decided(decision, untold_reason)
}

/// The first line's fault, and how many others there are.
fn with_more(first: &CheckLine, all: usize) -> String {
    let more = match all - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let subject = first.subject.as_ref().map_or(String::new(), |who| format!("{who}: "));
    format!("{}: {subject}{}{more}", first.check.name(), first.text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::report::{Check, Subject};

    fn line(verdict: Verdict, measured: u32) -> CheckLine {
        CheckLine { measured, ..CheckLine::new(Check::Pairs, verdict, "it is slow") }
    }

    #[test]
    fn each_case() {
        let of = |lines: &[CheckLine], closed| decide(lines, closed, false).decision;
        assert_eq!(of(&[line(Verdict::Pass, 0)], true), Decision::Pass);
        assert_eq!(of(&[line(Verdict::Pass, 0), line(Verdict::Waived, 0)], true), Decision::Pass);
        let untold = [line(Verdict::Pass, 0), line(Verdict::CannotTell, 1)];
        assert_eq!(of(&untold, false), Decision::LetThrough);
        assert_eq!(of(&untold, true), Decision::BlockedUntold);
        assert_eq!(of(&[], false), Decision::LetThrough);
        assert_eq!(of(&[line(Verdict::Waived, 0)], true), Decision::BlockedUntold);
        assert_eq!(of(&[line(Verdict::Fail, 2)], false), Decision::Blocked);
    }

    #[test]
    fn the_reason_names_who() {
        let fault = CheckLine::fault(Check::Settings, 2, "MTU 1500 where 3 others have 9000")
            .of(Some(Subject::host("c")));
        let said = decide(&[fault.clone(), fault], false, false).reason;
        assert_eq!(said, "settings: c: MTU 1500 where 3 others have 9000, and 1 more");
    }

    #[test]
    fn a_fault_that_is_known_outlives_an_interruption() {
        assert_eq!(decide(&[line(Verdict::Fail, 2)], false, true).decision, Decision::Blocked);
        assert_eq!(decide(&[line(Verdict::Pass, 0)], false, true).decision, Decision::Interrupted);
    }

    proptest! {
        /// Whatever the lines, a job is blocked without `--fail-closed` only by a fault that was seen twice.
        #[test]
        fn only_what_was_seen_twice_blocks(
            lines in prop::collection::vec((0..4_usize, 0..4_u32), 0..12),
            closed: bool,
        ) {
            let verdicts = [Verdict::Pass, Verdict::Fail, Verdict::CannotTell, Verdict::Waived];
            let lines: Vec<CheckLine> =
                lines.into_iter().map(|(at, measured)| line(verdicts[at], measured)).collect();
            let twice = lines.iter().any(|l| l.verdict == Verdict::Fail && l.measured >= 2);
            let decision = decide(&lines, closed, false).decision;
            prop_assert_eq!(decision == Decision::Blocked, twice);
            prop_assert!(closed || decision.lets_start() != twice);
        }

        #[test]
        fn a_fault_seen_once_is_never_a_failure(measured in 0..5_u32) {
            let line = CheckLine::fault(Check::Doctor, measured, "x");
            prop_assert_eq!(line.verdict == Verdict::Fail, measured >= 2);
        }
    }
}
