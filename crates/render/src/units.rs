//! The unit of bandwidths in tables: GB/s as nccl-tests prints them, or another that its header names.
//! Not of records, CSV and JSON, which have GB/s always.

/// A unit of bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Units {
    /// 1e9 bytes a second.
    #[default]
    Gigabytes,
    /// 2^30 bytes a second.
    Gibibytes,
    /// 1e9 bits a second, as links are sold.
    Gigabits,
}

impl Units {
    /// All of them.
    pub const ALL: [Units; 3] = [Units::Gigabytes, Units::Gibibytes, Units::Gigabits];

    /// As headers and `--units` write it.
    pub const fn name(self) -> &'static str {
        match self {
            Units::Gigabytes => "GB/s",
            Units::Gibibytes => "GiB/s",
            Units::Gigabits => "Gb/s",
        }
    }

    /// The unit of that name.
    pub fn from_name(name: &str) -> Option<Units> {
        Units::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// A bandwidth of `gigabytes` a second in this unit.
    pub fn of(self, gigabytes: f64) -> f64 {
        match self {
            Units::Gigabytes => gigabytes,
            Units::Gibibytes => gigabytes * 1e9 / f64::from(1 << 30),
            Units::Gigabits => gigabytes * 8.0,
        }
    }

    /// The width of a column whose header is the unit in parentheses, at least `width`.
    pub(super) fn width(self, width: usize) -> usize {
        width.max(self.name().len() + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_one_bandwidth() {
        assert_eq!(Units::ALL.map(|unit| unit.of(1.073741824)), [1.073741824, 1.0, 8.589934592]);
        assert_eq!(Units::ALL.map(|unit| Units::from_name(unit.name())), Units::ALL.map(Some));
        assert_eq!(Units::ALL.map(|unit| unit.width(6)), [6, 7, 6]);
    }
}
