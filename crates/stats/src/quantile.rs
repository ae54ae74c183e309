//! Medians, quantiles and the median absolute deviation of a list of samples.
//! Not a place for intervals or verdicts: these are descriptions of the samples alone.
//!
//! Two definitions of a quantile are in use here, and they differ on purpose:
//!
//! * *nearest rank* ([`nearest_rank`], [`upper_median`]) returns one of the samples and is what
//!   nccl-tests prints, so it serves figures that stand beside nccl-tests;
//! * *linear interpolation* ([`quantile`], [`median`]) is type 7 of Hyndman and Fan, "Sample
//!   Quantiles in Statistical Packages", The American Statistician 50 (1996), the default of R
//!   and NumPy; it serves our own figures, because its median treats both middle samples alike.

/// The samples in ascending order, or `None` when there are none or one is NaN or infinite.
///
/// The unit is that of the samples.
#[must_use]
pub fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || !samples.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// The median: the middle sample, or the mean of the two middle samples.
///
/// The unit is that of the samples. `None` for an empty slice or a non-finite sample.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples)?)
}

/// [`median`] of samples that are already in ascending order; `None` for an empty slice.
#[must_use]
pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    // `midpoint` cannot overflow where the sum of two large samples would.
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

/// The quantile at `p` in `[0, 1]`, interpolated linearly between neighbours (type 7).
///
/// With `h = (n - 1) * p`, this is `x[floor(h)] + (h - floor(h)) * (x[floor(h) + 1] -
/// x[floor(h)])` over the sorted samples, counted from 0. The unit is that of the samples.
/// `None` for an empty slice, a non-finite sample, or a `p` outside `[0, 1]`.
#[must_use]
pub fn quantile(samples: &[f64], p: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(samples)?, p)
}

/// [`quantile`] of samples that are already in ascending order.
#[must_use]
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&p) {
        return None;
    }
    let last = sorted.len() - 1;
    let position = last as f64 * p;
    let below = (position.floor() as usize).min(last);
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    let weight = position - below as f64;
    // The weighted form does not overflow; the bounds take back its rounding.
    let value = low * (1.0 - weight) + high * weight;
    Some(value.max(low).min(high))
}

/// The percentile of sorted samples by nearest rank, as nccl-tests 2.19.6 computes it.
///
/// The sample at index `min(n - 1, (n * percent + 99) / 100 - 1)` in integer arithmetic
/// (`percentileIndex` in its src/util.cu). The unit is that of the samples. `None` for an empty
/// slice; a `percent` of 0 gives the smallest sample.
#[must_use]
pub fn nearest_rank(sorted: &[f64], percent: u32) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = sorted.len().saturating_mul(percent as usize).div_ceil(100).max(1);
    Some(sorted[(rank - 1).min(last)])
}

/// The p50 of sorted samples as nccl-tests 2.19.6 computes it: `sorted[n / 2]`.
///
/// For an even count this is the upper of the two middle samples, not their mean, and so it can
/// be larger than [`median`]. The unit is that of the samples. `None` for an empty slice.
#[must_use]
pub fn upper_median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// The median absolute deviation: the median of `|x - median(x)|`, not rescaled.
///
/// The unit is that of the samples. For normal noise it is 0.6745 standard deviations. `None`
/// for an empty slice, a non-finite sample, or deviations too large for an `f64`.
#[must_use]
pub fn mad(samples: &[f64]) -> Option<f64> {
    let centre = median(samples)?;
    let deviations: Vec<f64> = samples.iter().map(|x| (x - centre).abs()).collect();
    median(&deviations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_two_medians_differ_on_an_even_count() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&samples), Some(2.5));
        assert_eq!(upper_median(&sorted(&samples).unwrap()), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn quantiles_follow_type_seven() {
        let samples = [10.0, 20.0, 30.0, 40.0];
        assert_eq!(quantile(&samples, 0.0), Some(10.0));
        assert_eq!(quantile(&samples, 0.25), Some(17.5));
        assert_eq!(quantile(&samples, 1.0), Some(40.0));
        assert_eq!(quantile(&samples, 1.5), None);
        assert_eq!(quantile(&samples, f64::NAN), None);
    }

    #[test]
    fn nearest_rank_matches_the_integer_formula_of_nccl_tests() {
        for n in 1..300_usize {
            let sorted: Vec<f64> = (0..n).map(|i| i as f64).collect();
            for percent in 1..=100_u32 {
                let rounded_up = n * percent as usize + 99;
                let index = (n - 1).min(rounded_up / 100 - 1);
                assert_eq!(nearest_rank(&sorted, percent), Some(index as f64));
            }
        }
        assert_eq!(nearest_rank(&[1.0, 2.0], 0), Some(1.0));
        assert_eq!(nearest_rank(&[1.0, 2.0], u32::MAX), Some(2.0));
        assert_eq!(nearest_rank(&[], 50), None);
    }

    #[test]
    fn mad_is_not_moved_by_one_wild_sample() {
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(1.0));
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 1e9]), Some(1.0));
        assert_eq!(mad(&[7.0]), Some(0.0));
    }

    #[test]
    fn bad_samples_give_no_figure() {
        for bad in [&[][..], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(median(bad), None);
            assert_eq!(quantile(bad, 0.5), None);
            assert_eq!(mad(bad), None);
        }
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut samples in prop::collection::vec(-1e6..1e6_f64, 1..60)) {
            let before = (median(&samples), quantile(&samples, 0.9), mad(&samples));
            samples.reverse();
            prop_assert_eq!(before, (median(&samples), quantile(&samples, 0.9), mad(&samples)));
        }

        #[test]
        fn a_change_of_unit_scales_the_figures(
            samples in prop::collection::vec(1e-3..1e6_f64, 1..60), power in -20..20_i32,
        ) {
            // Powers of two scale without rounding, so equality can be exact.
            let unit = 2.0_f64.powi(power);
            let scaled: Vec<f64> = samples.iter().map(|x| x * unit).collect();
            prop_assert_eq!(median(&scaled), median(&samples).map(|x| x * unit));
            prop_assert_eq!(quantile(&scaled, 0.3), quantile(&samples, 0.3).map(|x| x * unit));
            prop_assert_eq!(mad(&scaled), mad(&samples).map(|x| x * unit));
        }

        #[test]
        fn any_input_is_answered(samples in prop::collection::vec(any::<f64>(), 0..20), p: f64) {
            let _ = (median(&samples), quantile(&samples, p), mad(&samples));
            let _ = (nearest_rank(&samples, 99), upper_median(&samples));
        }
    }
}
