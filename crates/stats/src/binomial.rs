//! The upper tail of the binomial distribution.
//! Not a test of its own: the caller says which probability is small.

/// The probability of `successes` or more of `trials`, each with probability `p`.
///
/// Summed from `successes` upwards by the ratio of neighbouring terms, the first by logarithms of factorials; exact to about
/// 1e-9 of itself for up to some millions of trials.
///
/// ```
/// let p = busbw_stats::binomial_tail(10, 9, 0.5);
/// assert!((p - 11.0 / 1024.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn binomial_tail(trials: usize, successes: usize, p: f64) -> f64 {
    if successes == 0 || p >= 1.0 {
        return 1.0;
    }
    if successes > trials || p <= 0.0 {
        return 0.0;
    }
    let (n, k) = (trials as f64, successes as f64);
    // The coefficient as a product: n - k + 1 to n over 1 to k, of the shorter side.
    let short = successes.min(trials - successes);
    let coefficient: f64 =
        (1..=short).map(|i| ((n - short as f64 + i as f64) / i as f64).ln()).sum();
    let mut term = (coefficient + k * p.ln() + (n - k) * (1.0 - p).ln()).exp();
    let mut sum = 0.0;
    let mut at = k;
    while at <= n && (term > sum * 1e-17 || at * (1.0 - p) < (n - at) * p) {
        sum += term;
        term *= (n - at) / (at + 1.0) * p / (1.0 - p);
        at += 1.0;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_are_exact() {
        for (trials, successes, p, expected) in [
            (3, 0, 0.2, 1.0),
            (3, 1, 0.5, 0.875),
            (3, 3, 0.5, 0.125),
            (4, 2, 0.25, 1.0 - 0.75_f64.powi(4) - 4.0 * 0.25 * 0.75_f64.powi(3)),
            (5, 6, 0.5, 0.0),
            (5, 5, 1.0, 1.0),
            (5, 1, 0.0, 0.0),
        ] {
            let got = binomial_tail(trials, successes, p);
            assert!((got - expected).abs() < 1e-12, "{trials} {successes} {p}: {got}");
        }
    }

    #[test]
    fn half_of_many_is_half() {
        // P(X >= n/2) = 1/2 + P(X = n/2)/2, and P(X = n/2) is nearly sqrt(2 / (pi n)).
        let n = 100_000;
        let expected = 0.5 + 0.5 * (2.0 / (std::f64::consts::PI * n as f64)).sqrt();
        assert!((binomial_tail(n, n / 2, 0.5) - expected).abs() < 1e-6);
        assert!(binomial_tail(n, n * 9 / 10, 0.5) < 1e-300);
    }
}
