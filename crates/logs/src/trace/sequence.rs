//! The calls of one rank in their order, which is what a replay runs.
//! Not all ranks' calls (`call`), and not what they add up to (`classes`).

use super::call::{Call, Trace};

impl Trace {
    /// The calls of the rank that reported first, in the order in which it made them: by its clock where every call has a
    /// time, else as its source has them. Other ranks' own calls are not among them.
    pub fn sequence(&self) -> Vec<&Call> {
        let Some(first) = self.calls.first().map(|call| call.reporter) else { return Vec::new() };
        let mut calls: Vec<&Call> =
            self.calls.iter().filter(|call| call.reporter == first).collect();
        if calls.iter().all(|call| call.at_us.is_some()) {
            let at = |call: &Call| call.at_us.unwrap_or_default();
            calls.sort_by(|a, b| at(a).total_cmp(&at(b)));
        }
        calls
    }

    /// That rank's name in the source.
    pub fn sequence_of(&self) -> &str {
        let first = self.calls.first().and_then(|call| self.ranks.get(call.reporter));
        first.map_or("", |rank| rank.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::Reader;

    /// A recorder's dump: the time of each call in microseconds, and its elements.
    fn dump(calls: &[(u64, u64)]) -> String {
        let entries: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(number, (at, elements))| {
                serde_json::json!({
                    "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
                    "profiling_name": "nccl:all_reduce", "time_created_ns": 1000 * at,
                    "input_sizes": [[elements]], "input_dtypes": ["Float"],
                    "output_sizes": [[elements]], "output_dtypes": ["Float"],
                })
            })
            .collect();
        let group = serde_json::json!({"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}});
        serde_json::json!({"version": "2.10", "pg_config": group, "entries": entries}).to_string()
    }

    #[test]
    fn one_ranks_calls_by_its_clock() {
        let mut reader = Reader::default();
        // The second rank makes a call more.
        let (mine, other) = ([(5, 1), (9, 2), (7, 3)], [(1, 1), (2, 2), (3, 3), (4, 4)]);
        for (name, calls) in [("rank_0", &mine[..]), ("rank_1", &other[..])] {
            reader.read(&mut Cursor::new(dump(calls)), name).expect("a dump");
        }
        let trace = reader.finish().expect("calls");
        let bytes: Vec<u64> = trace.sequence().iter().map(|call| call.bytes).collect();
        assert_eq!((trace.calls.len(), bytes), (4, vec![4, 12, 8]));
        assert_eq!(trace.sequence_of(), "rank_0");
    }
}
