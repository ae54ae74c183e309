//! Figures of `busbw plan` as people read them: bytes of buffers, rates, shares.
//! Not those of measured runs (`busbw_core::quantity`).

/// Decimal bytes with three or four digits: `1.35 MB`, `300 KB`, `172.8 MB`.
pub(super) fn buffer(bytes: f64) -> String {
    let (value, unit) = match bytes {
        1e9.. => (bytes / 1e9, "GB"),
        1e6..1e9 => (bytes / 1e6, "MB"),
        1e3..1e6 => (bytes / 1e3, "KB"),
        _ => (bytes, "B"),
    };
    format!("{} {unit}", short(value))
}

/// At most four digits, no zeros at the end.
pub(super) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Percent of a share, with the digits that it needs.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_write_up_has_them() {
        let all = [300e3, 38.4e6, 1.35e6, 172.8e6, 1.5e6, 192e6, 165.2e6, 84.0].map(buffer);
        assert_eq!(
            all,
            ["300 KB", "38.4 MB", "1.35 MB", "172.8 MB", "1.5 MB", "192 MB", "165.2 MB", "84 B"]
        );
        assert_eq!(percent(0.001), "0.1 %");
    }
}
