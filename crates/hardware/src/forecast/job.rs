//! The parallelism of a job as people write it: `tp8,pp8,dp16`, `ep64`.
//! Not where its ranks run (`groups`).

use std::fmt;
use std::str::FromStr;

/// One dimension of a job: ranks that differ in it alone are a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Its name, such as `tp`.
    pub name: String,
    /// Ranks of a group.
    pub size: usize,
}

/// Dimensions, the one whose ranks are neighbours first. Megatron-LM's usual order is tp, cp, ep, dp, pp (its
/// `--use-tp-pp-dp-mapping` is tp, pp, dp).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Dimensions, from neighbours to the farthest apart.
    pub dimensions: Vec<Dimension>,
}

/// Why a text is no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job `{text}`: {why}")]
pub struct BadJob {
    /// The text.
    pub text: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

/// Most dimensions that a job has.
const MAX_DIMENSIONS: usize = 8;

impl FromStr for Job {
    type Err = BadJob;

    /// Reads `tp8,pp8,dp16`. The size of one dimension may be left out (`tp8,pp8,dp`): `fill` gives it the GPUs that are left.
    fn from_str(text: &str) -> Result<Job, BadJob> {
        let bad = |why: String| BadJob { text: text.to_owned(), why };
        let mut dimensions: Vec<Dimension> = Vec::new();
        for word in text.split(',') {
            let word = word.trim();
            let digits =
                word.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(word.len());
            let (name, size) = word.split_at(digits);
            let size = match size {
                "" => 0,
                size => match size.parse::<usize>() {
                    Ok(size) if (1..=10_000_000).contains(&size) => size,
                    _ => {
                        return Err(bad(format!(
                            "`{size}` is no number of ranks from 1 to 10000000"
                        )));
                    }
                },
            };
            if name.is_empty() || name.len() > 16 {
                return Err(bad("say names and sizes, such as `tp8,pp8,dp16`".to_owned()));
            }
            if dimensions.iter().any(|known| known.name == name) {
                return Err(bad(format!("`{name}` is said twice")));
            }
            if size == 0 && dimensions.iter().any(|known| known.size == 0) {
                return Err(
                    bad("the size of one dimension may be left out, not of two".to_owned()),
                );
            }
            dimensions.push(Dimension { name: name.to_owned(), size });
        }
        if dimensions.len() > MAX_DIMENSIONS {
            return Err(bad(format!("at most {MAX_DIMENSIONS} dimensions")));
        }
        Ok(Job { dimensions })
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match dimension.size {
                0 => write!(f, "{comma}{}", dimension.name)?,
                size => write!(f, "{comma}{}{size}", dimension.name)?,
            }
        }
        Ok(())
    }
}

impl Job {
    /// All GPUs in one group.
    pub fn all(gpus: usize) -> Job {
        Job { dimensions: vec![Dimension { name: "all".to_owned(), size: gpus }] }
    }

    /// Gives the dimension without a size the GPUs that are left; with all sizes said, the product must divide the GPUs, and
    /// the job is repeated.
    ///
    /// # Errors
    /// Sizes that do not divide the GPUs.
    pub fn fill(&self, gpus: usize) -> Result<Job, BadJob> {
        let bad = |why: String| BadJob { text: self.to_string(), why };
        let sizes = self.dimensions.iter().map(|dimension| dimension.size.max(1));
        let product = sizes.fold(1usize, |product, size| product.saturating_mul(size));
        if product == 0 || gpus == 0 || !gpus.is_multiple_of(product) {
            let below = gpus / product.max(1) * product;
            let hint = if below > 0 { format!("; {below} would do") } else { String::new() };
            return Err(bad(format!("{product} ranks do not divide {gpus} GPUs{hint}")));
        }
        let mut filled = self.clone();
        for dimension in &mut filled.dimensions {
            if dimension.size == 0 {
                dimension.size = gpus / product;
            }
        }
        Ok(filled)
    }

    /// Ranks of a group of a dimension, for every group: those whose numbers differ in it alone.
    pub fn groups(&self, dimension: usize, gpus: usize) -> Vec<Vec<usize>> {
        let size = self.dimensions[dimension].size.max(1);
        let stride: usize =
            self.dimensions[..dimension].iter().map(|one| one.size.max(1)).product();
        let firsts = (0..gpus).filter(|rank| (rank / stride).is_multiple_of(size));
        firsts.map(|first| (0..size).map(|at| first + at * stride).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_their_groups() {
        let job: Job = "tp2,pp2,dp".parse().expect("a job");
        let job = job.fill(12).expect("divides");
        assert_eq!(job.to_string(), "tp2,pp2,dp3");
        assert_eq!(job.groups(0, 12)[..2], [vec![0, 1], vec![2, 3]]);
        assert_eq!(job.groups(1, 12)[..2], [vec![0, 2], vec![1, 3]]);
        assert_eq!(job.groups(2, 12), [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]);
        let job: Job = "ep64".parse().expect("a job");
        assert_eq!(job.fill(128).expect("divides").groups(0, 128).len(), 2);
        assert!(job.fill(100).expect_err("refused").to_string().contains("64 would do"));
        for text in ["", "8", "tp8,tp8", "tp,dp", "tp8;dp2", "tp0", "tp99999999", "tp8,"] {
            assert!(text.parse::<Job>().is_err(), "{text}");
        }
    }
}
