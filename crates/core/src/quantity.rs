//! Formats quantities for sentences: bytes, rates, times, lists.
//! Not the columns of tables in other programs' formats (`render`).

/// Bytes, binary.
pub fn bytes(size: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if size >= unit {
            let value = size as f64 / unit as f64;
            return if size.is_multiple_of(unit) {
                format!("{value} {name}")
            } else {
                format!("{value:.1} {name}")
            };
        }
    }
    format!("{size} B")
}

/// Bytes, decimal, with three significant digits.
pub fn decimal_bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = bytes as f64;
    match units.iter().find(|(size, _)| value >= *size) {
        None => format!("{bytes} B"),
        Some((size, unit)) => {
            let value = value / size;
            let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            format!("{value:.decimals$} {unit}")
        }
    }
}

/// A rate in GB/s with the significant digits.
pub fn rate(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.1}"),
        0.1..100.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Microseconds.
pub fn time(us: f64) -> String {
    match us {
        1e6.. => format!("{:.2} s", us / 1e6),
        1e4..1e6 => format!("{:.1} ms", us / 1e3),
        100.0..1e4 => format!("{us:.0} us"),
        _ => format!("{us:.2} us"),
    }
}

/// `1 row`, `2 rows`.
pub fn count(number: impl Into<u64>, one: &str) -> String {
    match number.into() {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S], last: &str) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [before @ .., end] => format!("{} {last} {end}", before.join(", ")),
    }
}

/// Sizes in bytes: one or two by name, more as `12 sizes between 295 KiB and 1 MiB`.
pub fn sizes(sizes: &[u64]) -> String {
    match (sizes, sizes.iter().min(), sizes.iter().max()) {
        ([_, _, _, ..], Some(least), Some(most)) => {
            format!("{} sizes between {} and {}", sizes.len(), bytes(*least), bytes(*most))
        }
        _ => list(&sizes.iter().map(|size| bytes(*size)).collect::<Vec<_>>(), "and"),
    }
}

/// Joins names and shortens ranges: `GPU 0-7, mlx5_0-4, mlx5_6`.
pub fn ranged<S: AsRef<str>>(names: &[S]) -> String {
    let mut runs: Vec<(String, Option<(u64, u64)>)> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, number) = name.split_at(digits);
        // Leading zeros do not come back from a number.
        let number = number.parse::<u64>().ok().filter(|n| n.to_string() == number);
        match (runs.last_mut(), number) {
            (Some((same, Some((_, last)))), Some(n))
                if same == before && Some(n) == last.checked_add(1) =>
            {
                *last = n;
            }
            (_, Some(n)) => runs.push((before.to_owned(), Some((n, n)))),
            (_, None) => runs.push((name.to_owned(), None)),
        }
    }
    let shown = runs.into_iter().map(|(before, numbers)| match numbers {
        Some((first, last)) if first < last => format!("{before}{first}-{last}"),
        Some((only, _)) => format!("{before}{only}"),
        None => before,
    });
    shown.collect::<Vec<String>>().join(", ")
}

/// A size as nccl-tests' options take it: whole KiB, MiB or GiB, else bytes.
pub fn plain(size: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let whole = units.into_iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    whole.map_or(size.to_string(), |(unit, name)| format!("{}{name}", size / unit))
}

/// Percent, whole from 99.5 on, else with a digit where it is small.
pub fn percent(value: f64) -> String {
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::ranged;
    use proptest::prelude::*;

    #[test]
    fn rows_of_names() {
        assert_eq!(
            ranged(&["GPU 0", "GPU 1", "GPU 2", "mlx5_0", "mlx5_2", "mlx5_3"]),
            "GPU 0-2, mlx5_0, mlx5_2-3"
        );
        assert_eq!(ranged(&["node01", "node02", "ACS"]), "node01, node02, ACS");
        assert_eq!(ranged::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn any_names(names in prop::collection::vec("[a-c]{0,2}[0-9]{0,3}", 0..6)) {
            prop_assert!(ranged(&names).len() <= names.iter().map(|n| n.len() + 2).sum::<usize>());
        }
    }
}
