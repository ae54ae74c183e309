//! Symmetric positive matrices: Cholesky factor, solution, inverse.
//! Not a general library of linear algebra: sizes are a few hundred.

/// The lower triangle `L` of a matrix `A = L Lᵀ`, row by row.
#[derive(Debug, Clone)]
pub(crate) struct Cholesky {
    n: usize,
    rows: Vec<f64>,
}

impl Cholesky {
    /// Factors the matrix whose lower triangle stands in `rows` (n × n, row by row).
    ///
    /// A pivot that rounding has made smaller than 1e-12 becomes 1e-12: kernels here have noise on the diagonal, so
    /// that it only happens to the small matrices of one variable.
    pub(crate) fn of(n: usize, mut rows: Vec<f64>) -> Self {
        for i in 0..n {
            let (above, from_i) = rows.split_at_mut(i * n);
            let row = &mut from_i[..n];
            for j in 0..i {
                let other = &above[j * n..j * n + j + 1];
                let dot: f64 = row[..j].iter().zip(other).map(|(a, b)| a * b).sum();
                row[j] = (row[j] - dot) / other[j];
            }
            let square: f64 = row[..i].iter().map(|a| a * a).sum();
            row[i] = (row[i] - square).max(1e-12).sqrt();
            row[i + 1..].fill(0.0);
        }
        Self { n, rows }
    }

    /// Rows of the matrix.
    pub(crate) fn size(&self) -> usize {
        self.n
    }

    /// `L⁻¹ b`.
    pub(crate) fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in 0..self.n {
            let row = &self.rows[i * self.n..i * self.n + i + 1];
            let dot: f64 = row[..i].iter().zip(&x).map(|(a, b)| a * b).sum();
            x[i] = (x[i] - dot) / row[i];
        }
        x
    }

    /// `A⁻¹ b`.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.forward(b);
        for i in (0..self.n).rev() {
            let row = &self.rows[i * self.n..i * self.n + i + 1];
            x[i] /= row[i];
            let value = x[i];
            x[..i].iter_mut().zip(row).for_each(|(x, a)| *x -= a * value);
        }
        x
    }

    /// `A⁻¹`: its lower triangle, row by row.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        let n = self.n;
        // First L⁻¹: column j of it begins at row j.
        let mut inverse = vec![0.0; n * n];
        for i in 0..n {
            let row = &self.rows[i * n..i * n + i + 1];
            let (above, from_i) = inverse.split_at_mut(i * n);
            let target = &mut from_i[..n];
            for (k, factor) in row[..i].iter().enumerate() {
                let source = &above[k * n..k * n + k + 1];
                target.iter_mut().zip(source).for_each(|(t, s)| *t -= factor * s);
            }
            target[..i].iter_mut().for_each(|t| *t /= row[i]);
            target[i] = 1.0 / row[i];
        }
        // Then L⁻ᵀ L⁻¹, as a sum over rows of L⁻¹.
        let mut result = vec![0.0; n * n];
        for k in 0..n {
            let row = &inverse[k * n..k * n + k + 1];
            for i in 0..=k {
                let factor = row[i];
                let target = &mut result[i * n..i * n + i + 1];
                target.iter_mut().zip(row).for_each(|(t, s)| *t += factor * s);
            }
        }
        result
    }

    /// `L z`: a sample with covariance `A` where `z` is standard normal.
    pub(crate) fn times(&self, z: &[f64]) -> Vec<f64> {
        let row = |i: usize| &self.rows[i * self.n..i * self.n + i + 1];
        (0..self.n).map(|i| row(i).iter().zip(z).map(|(a, b)| a * b).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_matrix_is_inverted() {
        let a = [4.0, 2.0, 0.6, 2.0, 3.0, 0.4, 0.6, 0.4, 2.0];
        let factor = Cholesky::of(3, a.to_vec());
        let x = factor.solve(&[1.0, 2.0, 3.0]);
        for i in 0..3 {
            let back: f64 = (0..3).map(|j| a[i * 3 + j] * x[j]).sum();
            assert!((back - (i + 1) as f64).abs() < 1e-12);
        }
        let inverse = factor.inverse();
        let at = |i: usize, j: usize| inverse[i.max(j) * 3 + i.min(j)];
        for i in 0..3 {
            for j in 0..3 {
                let one: f64 = (0..3).map(|k| a[i * 3 + k] * at(k, j)).sum();
                assert!((one - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        assert!((factor.times(&[1.0, 0.0, 0.0])[1] - 1.0).abs() < 1e-12);
    }
}
