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
