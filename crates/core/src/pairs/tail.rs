//! How unlikely a standardised difference is where nothing differs: Student's t.
//! Not a test: what is done about it is the caller's.

/// From this many degrees of freedom on the difference to the normal distribution is negligible.
const NORMAL_FROM_DEGREES: f64 = 400.0;

/// The probability of more than `t` under Student's distribution with `freedom` degrees, rounded
/// down to whole ones and at least 1 (Abramowitz and Stegun, 26.7.3 and 26.7.4). Exact to 1e-15; below
/// that it is 0.
pub(super) fn above(t: f64, freedom: f64) -> f64 {
    let degrees = freedom.clamp(1.0, NORMAL_FROM_DEGREES).floor() as u32;
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    // Powers of the cosine from 1 or 0 on to degrees - 2, each with the product of its fractions.
    let (mut term, mut sum) = (if odd { cosine } else { 1.0 }, 0.0);
    let mut power = u32::from(odd);
    while power + 2 <= degrees {
        sum += term;
        power += 2;
        term *= cosine * cosine * f64::from(power - 1) / f64::from(power);
    }
    let both = if odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum };
    ((1.0 - both) / 2.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::above;

    #[test]
    fn known_quantiles() {
        // The 97.5 % and 99.9 % quantiles as tables print them.
        for (freedom, t, p) in [
            (1.0, 12.706_204_7, 0.025),
            (2.0, 4.302_652_7, 0.025),
            (3.0, 10.214_531_9, 0.001),
            (10.0, 2.228_138_9, 0.025),
            (31.0, 3.374_899, 0.001),
        ] {
            assert!((above(t, freedom) - p).abs() < 1e-6, "{freedom}: {}", above(t, freedom));
            assert!((above(-t, freedom) + p - 1.0).abs() < 1e-6);
        }
        assert_eq!(above(0.0, 7.0), 0.5);
        assert!(above(40.0, 1e9) < 1e-12);
    }
}
