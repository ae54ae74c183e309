//! OpenMetrics text: families of gauges with their series, as scrapers and textfile collectors read it.
//! Not which metrics there are (docs/metrics.md).
//!
//! Format: OpenMetrics 1.0, prometheus.io/docs/specs/om/open_metrics_spec. All series of a family stand together, none occurs
//! twice, and `# EOF` ends the text.

/// The text as it grows.
#[derive(Debug, Default)]
pub struct OpenMetrics {
    text: String,
}

/// A family of series. A unit is the end of its name, as the format wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name: `busbw_bus_bandwidth_bytes_per_second`.
    pub name: &'static str,
    /// Its unit: `bytes_per_second`; empty where there is none.
    pub unit: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
}

impl OpenMetrics {
    /// Adds a family with its series, each with its labels in braces (see [`labels`]). Without series nothing is written.
    pub fn family(&mut self, family: &Family, series: &[(String, f64)]) {
        let Family { name, unit, help } = family;
        if series.is_empty() {
            return;
        }
        self.text.push_str(&format!("# TYPE {name} gauge\n"));
        if !unit.is_empty() {
            self.text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        self.text.push_str(&format!("# HELP {name} {help}\n"));
        for (labels, value) in series {
            self.text.push_str(&format!("{name}{labels} {}\n", number(*value)));
        }
    }

    /// The whole text.
    #[must_use]
    pub fn end(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

fn number(value: f64) -> String {
    // A whole number needs no exponent, which some readers do not take.
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.6}")
    }
}

/// `{check="pairs",subject="a"}`. Labels without a value are left out, as an empty label is no label.
pub fn labels(all: &[(&str, &str)]) -> String {
    let all: Vec<String> = all
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other if other.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_without_series_is_not_there() {
        let mut text = OpenMetrics::default();
        let family = |name| Family { name, unit: "seconds", help: "A time." };
        text.family(&family("busbw_a_seconds"), &[]);
        text.family(&family("busbw_b_seconds"), &[(labels(&[("host", "a\"b"), ("gpu", "")]), 1.5)]);
        let expected = "# TYPE busbw_b_seconds gauge\n# UNIT busbw_b_seconds seconds\n# HELP busbw_b_seconds A time.\nbusbw_b_seconds{host=\"a\\\"b\"} 1.500000\n# EOF\n";
        assert_eq!(text.end(), expected);
    }
}
