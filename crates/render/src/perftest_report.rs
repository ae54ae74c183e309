//! `-J` of the `verbs` backend, and perftest's `--out_json`: its keys of test and results (perftest 6.29,
//! perftest_parameters.c: write_test_info_to_file, REPORT_FMT_JSON, REPORT_FMT_LAT_JSON; perftest_parameters.h:224-250).
//! Not its bytes. Where several sizes were measured `results` is a list: perftest's file has the last size alone.

use std::io::{self, Write};

use busbw_core::{
    messages::Messages,
    plan::{Plan, Verb},
    record::{End, Half, Line, Row, Run, VerbsFacts},
};
use serde_json::{Map, Value, json};

use super::Render;

/// Bytes of perftest's MiB/sec.
const MIB: f64 = 1_048_576.0;

/// The report on a file, which is written when the run ends.
#[derive(Debug)]
pub struct PerftestReport<W> {
    out: W,
    plan: Option<Plan>,
    facts: Option<VerbsFacts>,
    results: Vec<Value>,
}

impl<W: Write> PerftestReport<W> {
    /// A report on `out`.
    pub fn new(out: W) -> PerftestReport<W> {
        PerftestReport { out, plan: None, facts: None, results: Vec::new() }
    }

    fn info(&self, plan: &Plan) -> Map<String, Value> {
        let options = plan.backend.verbs_options().copied().unwrap_or_default();
        let test = plan.benchmark.messages().unwrap_or(Messages::Bandwidth);
        let verb = match options.verb {
            Verb::Write => "RDMA_Write",
            Verb::Read => "RDMA_Read",
            Verb::Send => "Send",
        };
        let way = if test == Messages::BiBandwidth { "Bidirectional_" } else { "" };
        let kind = if test.is_latency() { "Latency" } else { "BW" };
        let mut info = Map::new();
        info.insert("test".to_owned(), json!(format!("{verb}_{way}{kind}_Test")));
        if let Some(facts) = &self.facts {
            info.insert("Device".to_owned(), json!(facts.device));
            info.insert("Mtu".to_owned(), json!(facts.mtu));
            let link = if facts.protocol == "InfiniBand" { "IB" } else { "Ethernet" };
            info.insert("Link_type".to_owned(), json!(link));
            info.insert("GID_index".to_owned(), json!(facts.gid_index));
            info.insert("Max_inline_data".to_owned(), json!(facts.inline_bytes));
        }
        info.insert("Number_of_qps".to_owned(), json!(options.queue_pairs));
        info.insert("Transport_type".to_owned(), json!("IB"));
        info.insert("Connection_type".to_owned(), json!(options.connection.name()));
        info.insert("TX_depth".to_owned(), json!(options.send_depth));
        info.insert("Post_List".to_owned(), json!(options.listed));
        if options.verb == Verb::Send {
            info.insert("RX_depth".to_owned(), json!(options.receive_depth));
        }
        info.insert("CQ_Moderation".to_owned(), json!(options.signal_every));
        info
    }
}

/// One size. perftest's peak is that of any two completions; here it is the fastest batch.
fn result(plan: &Plan, bytes: u64, half: &Half) -> Option<Value> {
    let test = plan.benchmark.messages()?;
    let messages = half.messages.as_ref()?;
    let spread = &messages.spread;
    let time_us = half.figures.time_us?;
    if test.is_latency() {
        return Some(json!({
            "MsgSize": bytes, "n_iterations": spread.samples, "t_min": spread.min, "t_max": spread.max,
            "t_typical": spread.p50, "t_avg": time_us, "percentile_99": spread.p99, "percentile_99.9": spread.p999,
        }));
    }
    let fastest = half.batches_us.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let rate = |us: f64| bytes as f64 / us * 1e6 / MIB;
    let sent = spread.samples.saturating_mul(plan.messages_each(test, messages.window));
    Some(json!({
        "MsgSize": bytes, "n_iterations": sent, "BW_peak": rate(fastest), "BW_average": rate(time_us),
        "MsgRate": messages.rate / 1e6,
    }))
}

impl<W: Write> Render for PerftestReport<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.plan = Some(run.plan.clone());
        Ok(())
    }

    fn library(&mut self, said: &Line) -> io::Result<()> {
        if let Line::Verbs(facts) = said
            && facts.rank == 0
        {
            self.facts = Some((**facts).clone());
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let half = row.out_of_place.as_ref().filter(|_| row.shown);
        let result =
            self.plan.as_ref().zip(half).and_then(|(plan, half)| result(plan, row.size, half));
        self.results.extend(result);
        Ok(())
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let results = match self.results.as_slice() {
            [one] => one.clone(),
            all => Value::Array(all.to_vec()),
        };
        let report = json!({ "test_info": self.info(plan), "results": results });
        serde_json::to_writer_pretty(&mut self.out, &report)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::{
        plan::{BackendChoice, VerbsOptions},
        record::{Figures, MessageFigures},
    };

    use super::*;

    #[test]
    fn keys_are_perftests() {
        let plan = Plan {
            benchmark: Messages::Bandwidth.into(),
            backend: BackendChoice::Verbs(VerbsOptions::default()),
            ..Plan::example()
        };
        let report = PerftestReport::new(Vec::new());
        let info = report.info(&plan);
        assert_eq!(info["test"], "RDMA_Write_BW_Test");
        assert_eq!((&info["Connection_type"], &info["TX_depth"]), (&json!("RC"), &json!(128)));
        let messages = MessageFigures { window: 64, rate: 2e6, ..MessageFigures::default() };
        let half = Half {
            figures: Figures { time_us: Some(1.0), ..Figures::default() },
            batches_us: vec![vec![1.0], vec![0.5]],
            messages: Some(messages),
            ..Half::default()
        };
        // A MiB in a microsecond is a million MiB a second; the faster batch had twice that.
        let one = result(&plan, 1 << 20, &half).unwrap();
        assert_eq!((&one["BW_average"], &one["BW_peak"]), (&json!(1e6), &json!(2e6)));
        assert_eq!((&one["MsgSize"], &one["MsgRate"]), (&json!(1 << 20), &json!(2.0)));
        let read = VerbsOptions { verb: Verb::Read, ..VerbsOptions::default() };
        let latency = Plan {
            benchmark: Messages::Latency.into(),
            backend: BackendChoice::Verbs(read),
            ..plan
        };
        assert_eq!(report.info(&latency)["test"], "RDMA_Read_Latency_Test");
        let one = result(&latency, 2, &half).unwrap();
        assert_eq!((&one["t_avg"], one.get("BW_average")), (&json!(1.0), None));
        assert_eq!(result(&latency, 2, &Half::default()), None);
    }
}
