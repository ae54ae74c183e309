//! Times as people write them on the command line: a date, or how long ago.
//! Not clocks.

use jiff::{Span, Timestamp, Zoned, civil::DateTime, tz::TimeZone};

/// A time of the command line, on this machine's clock: a date, a date with a time (in a zone, if one is
/// named), or how long before `now`.
pub(super) fn before(text: &str, now: &Zoned) -> Option<DateTime> {
    let text = text.trim();
    let zone = || TimeZone::system();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.to_zoned(zone()).datetime());
    }
    // A date alone is its midnight. What ends with Z is of no zone but UTC, and was read above.
    if !text.ends_with(['Z', 'z'])
        && let Ok(time) = text.parse::<DateTime>()
    {
        return Some(time);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let span: Span = text.parse().ok()?;
    now.checked_sub(span).ok().map(|time| time.datetime())
}

/// Why a text is no time.
pub(super) fn not_a_time(option: &str, text: &str) -> String {
    format!(
        "{option} {text} is no time: give a date (2026-11-20), a date with a time (2026-11-20T10:00, or 2026-11-20T10:00Z for UTC), or how long ago (2d, 3h, 30m)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let now: Zoned = "2026-11-22T10:00:00[UTC]".parse().unwrap();
        for (text, meant) in [
            ("2026-11-20", "2026-11-20T00:00:00"),
            ("2026-11-20T10:00", "2026-11-20T10:00:00"),
            ("2026-11-20 10:00", "2026-11-20T10:00:00"),
            (" 2026-11-20 10:00:30 ", "2026-11-20T10:00:30"),
            ("2d", "2026-11-20T10:00:00"),
            ("3h", "2026-11-22T07:00:00"),
            ("1h30m", "2026-11-22T08:30:00"),
            ("2 weeks", "2026-11-08T10:00:00"),
        ] {
            assert_eq!(before(text, &now), Some(meant.parse().unwrap()), "{text}");
        }
        // The same moment in two zones, whatever this machine's is.
        let utc = before("2026-11-20T10:00Z", &now);
        assert!(utc.is_some());
        assert_eq!(utc, before("2026-11-20 12:00:00+02:00", &now));
        for nonsense in
            ["", "yesterdayish", "2026", "2026-13-01", "2026-11-20T25:00", "-2d", "2", "99999999y"]
        {
            assert_eq!(before(nonsense, &now), None, "{nonsense}");
        }
    }
}
