//! The time that has passed and that is left, for the progress line of a run and of a sweep.
//! Not the estimate.

/// Cells of the bar.
const BAR_CELLS: usize = 20;

/// The time that is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Seconds.
    pub seconds: f64,
    /// Whether it may be much more: what is left may be of another kind than what was measured.
    pub at_least: bool,
}

/// A bar, the seconds that have passed, and those that are left: `█████░░░░░░░░░░░░░░░ 25 %, 25 s, 1:15 left, `.
pub fn time_left(passed: f64, left: Option<Left>) -> String {
    let Some(left) = left else { return format!("{}, ", span(passed)) };
    if left.at_least {
        return format!("{}, at least {} left, ", span(passed), span(left.seconds));
    }
    let share = passed / (passed + left.seconds).max(1e-9);
    let full = ((share * BAR_CELLS as f64) as usize).min(BAR_CELLS);
    let bar = "█".repeat(full) + &"░".repeat(BAR_CELLS - full);
    format!("{bar} {:.0} %, {}, {} left, ", share * 100.0, span(passed), span(left.seconds))
}

/// `42 s`, `3:07`, `2:05:09`.
fn span(seconds: f64) -> String {
    let all = seconds.round() as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let left = |seconds, at_least| Some(Left { seconds, at_least });
        for (left, passed, line) in [
            (None, 3.2, "3 s, "),
            (left(130.4, true), 3.2, "3 s, at least 2:10 left, "),
            (left(75.0, false), 25.0, "█████░░░░░░░░░░░░░░░ 25 %, 25 s, 1:15 left, "),
            (left(0.0, false), 7509.0, "████████████████████ 100 %, 2:05:09, 0 s left, "),
        ] {
            assert_eq!(time_left(passed, left), line);
        }
    }
}
