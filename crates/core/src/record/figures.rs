//! The figures of one placement of a row, by whoever measured it: busbw's record, another program's text.
//! Not what a record has behind them: batches, checks, iterations (`Half`).

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

use busbw_stats::Interval;

/// The figures of one placement (in place or out of place) of a row, as far as its source states them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// One operation's time, microseconds; of messages, one message's. busbw's is the median over batches
    /// (over launches, when the row combines several).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// Half of the last printed digit of the time, microseconds: how far it may be from the measured time.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub rounding_us: f64,
    /// Algorithm bandwidth, or the bandwidth of a program that knows one only, GB/s; of messages, of all
    /// pairs together, in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algbw: Option<f64>,
    /// Bus bandwidth, GB/s; messages have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busbw: Option<f64>,
    /// Wrong elements over all ranks; none without a check, or where a check is meaningless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<u64>,
    /// The algorithm that ran, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// The samples behind the time, microseconds: medians of launches where there are several,
    /// else batches. Empty where only one figure was written, where their interval stands for them, and in a
    /// record, which has every batch beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_us: Vec<f64>,
    /// Whether the samples are launches; else they are batches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub launches: bool,
    /// The 95 % interval of the time, microseconds, where it stands for the samples, as on a report's page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<Interval>,
}

impl Figures {
    /// As a record holds them: a figure that there is not, or that is no number, is null.
    pub(super) fn in_record<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(algorithm) = &self.algorithm {
            map.serialize_entry("algorithm", algorithm)?;
        }
        map.serialize_entry("time_us", &self.time_us)?;
        map.serialize_entry("algbw", &self.algbw)?;
        map.serialize_entry("busbw", &self.busbw)?;
        map.serialize_entry("wrong", &self.wrong)?;
        map.end()
    }
}

fn is_nothing(value: &f64) -> bool {
    *value == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Half;
    use serde_json::Value;

    /// Readers of records rely on the keys; of a log only what it says is written.
    #[test]
    fn a_record_has_a_key_for_every_figure() {
        let algbw = Some(f64::INFINITY);
        let figures = Figures { time_us: Some(1.5), algbw, ..Figures::default() };
        let json = serde_json::to_value(Half { figures, ..Half::default() }).unwrap();
        assert_eq!(json["time_us"], 1.5);
        for key in ["algbw", "busbw", "wrong", "cpu_time_us"] {
            assert_eq!(json.get(key), Some(&Value::Null), "{key} of {json}");
        }
        let back: Half = serde_json::from_value(json).unwrap();
        assert_eq!(back.figures, Figures { time_us: Some(1.5), ..Figures::default() });
        assert_eq!(serde_json::to_string(&Figures::default()).unwrap(), "{}");
    }
}
