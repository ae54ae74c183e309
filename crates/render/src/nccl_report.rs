//! `-J`: nccl-tests' JSON report, version 3, with its keys, order and types (src/util.cu:310-640).
//! Corrected where it was wrong: every rank is a device, and the environment is limited to
//! variables that change results, with secrets masked.
//! Not the record.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use busbw_core::{
    plan::{Blocking, Step},
    record::{End, Half, IterationReport, Row, Run, Status},
};
use busbw_stats::iteration_stats;

use super::{Render, report_json::Text};
use busbw_store::masked;

/// Version of the report's layout.
const REPORT_VERSION: i32 = 3;

/// The most numbered file names that are tried.
const MAX_NUMBERED_NAMES: u32 = 10_000;

/// Creates FILE, or FILE.0, FILE.1 … if it exists: a report is never overwritten.
///
/// # Errors
/// None of them can be created.
pub fn open(path: &Path) -> Result<(File, PathBuf)> {
    let numbered = (0..MAX_NUMBERED_NAMES).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    for candidate in std::iter::once(path.to_owned()).chain(numbered) {
        match OpenOptions::new().write(true).create_new(true).open(&candidate) {
            Ok(file) => return Ok((file, candidate)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(e).with_context(|| {
                    format!("cannot write the report {} (-J)", candidate.display())
                });
            }
        }
    }
    anyhow::bail!(
        "cannot write the report {} (-J): it and its {MAX_NUMBERED_NAMES} numbered names exist",
        path.display()
    )
}

/// The report on a file.
#[derive(Debug)]
pub struct NcclReport<W> {
    out: W,
    text: Text,
    /// Colour of the communicator whose rows are reported, and its placements.
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    group: u64,
    cpu_time: bool,
    iterations: u32,
    checked_gate: bool,
}

impl<W: Write> NcclReport<W> {
    /// A report on `out`.
    pub fn new(out: W) -> NcclReport<W> {
        NcclReport { out, text: Text::default(), shown: None }
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = self.text.take();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn config(&mut self, run: &Run) {
        let (j, plan) = (&mut self.text, &run.plan);
        j.key("config").open('{');
        j.key("nthreads").integer(plan.threads as i128);
        j.key("ngpus").integer(plan.devices as i128);
        j.key("minimum_bytes").integer(plan.min_bytes);
        j.key("maximum_bytes").integer(plan.max_bytes);
        match plan.step {
            Step::Factor(factor) => j.key("step_factor").integer(factor),
            Step::Bytes(bytes) => j.key("step_bytes").integer(bytes),
        }
        j.key("warmup_iters").integer(plan.warmup);
        j.key("iterations").integer(plan.iterations);
        j.key("aggregated_iterations").integer(plan.aggregated);
        j.key("validation").integer(plan.check);
        j.key("graph").integer(plan.graph);
        j.key("blocking_collectives").truth(plan.blocking != Blocking::None);
        j.key("per_iter_timing").truth(plan.per_iteration);
        j.key("per_iter_skip").integer(plan.per_iteration_skip);
        j.key("parallel_init").truth(plan.parallel_init);
        j.key("devices").open('[');
        for device in &run.devices {
            j.open('{');
            j.key("rank").integer(device.rank as i128);
            j.key("group").integer(device.group);
            j.key("pid").integer(device.pid);
            j.key("hostname").string(&device.host);
            j.key("device").integer(device.device as i128);
            j.key("device_hex").string(&device.address);
            j.key("device_info").string(&device.name);
            j.close('}');
        }
        j.close(']');
        j.close('}');
    }

    fn half(&mut self, name: &str, half: &Half, cpu_time: bool) {
        let j = &mut self.text;
        j.key(name).open('{');
        if cpu_time {
            j.key("cpu_time").double(half.cpu_time_us);
        } else {
            j.key("time").double(half.figures.time_us);
        }
        j.key("alg_bw").double(half.figures.algbw);
        j.key("bus_bw").double(half.figures.busbw);
        match half.figures.wrong {
            Some(wrong) => j.key("nwrong").double(wrong as f64),
            None => j.key("nwrong").null(),
        }
        j.close('}');
        if let Some(report) = &half.iterations {
            self.iterations(&format!("{name}_per_iter"), report);
        }
    }

    fn iterations(&mut self, name: &str, report: &IterationReport) {
        let j = &mut self.text;
        let stats = iteration_stats(report.times_us.get(report.skipped..).unwrap_or_default());
        j.key(name).open('{');
        j.key("skipped_iterations").integer(report.skipped as i128);
        j.key("min_us").double(stats.map(|s| s.min));
        j.key("max_us").double(stats.map(|s| s.max));
        j.key("avg_us").double(stats.map(|s| s.avg));
        j.key("p50_us").double(stats.map(|s| s.p50));
        j.key("p95_us").double(stats.map(|s| s.p95));
        j.key("p99_us").double(stats.map(|s| s.p99));
        j.key("stdev_us").double(stats.map(|s| s.stdev));
        j.key("cv_pct").double(stats.map(|s| s.cv_percent));
        j.key("times_us").open('[');
        report.times_us.iter().for_each(|time| j.double(*time));
        j.close(']');
        if !report.per_process_us.is_empty() {
            j.key("per_process_max_times_us").open('[');
            for process in &report.per_process_us {
                j.open('[');
                process.iter().for_each(|time| j.double(*time));
                j.close(']');
            }
            j.close(']');
        }
        j.close('}');
    }
}

impl<W: Write> Render for NcclReport<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let j = &mut self.text;
        j.open('{');
        j.key("version").integer(REPORT_VERSION);
        j.key("start_time").string(&run.started);
        j.key("args").open('[');
        run.args.iter().for_each(|arg| j.string(&masked(arg)));
        j.close(']');
        j.key("env").open('[');
        run.environment.iter().for_each(|(name, value)| j.string(&format!("{name}={value}")));
        j.close(']');
        j.key("nccl_version").integer(run.nccl[1]);
        self.config(run);
        self.text.key("results").open('[');
        self.shown = Some(Shown {
            group: run.devices.first().map_or(0, |device| device.group),
            cpu_time: run.plan.cpu_time,
            iterations: run.plan.iterations,
            checked_gate: run.plan.min_bandwidth.is_some(),
        });
        self.flush()
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(shown) = &self.shown else { return Ok(()) };
        if !row.shown || row.waived.is_some() || row.group != shown.group {
            return Ok(());
        }
        let (cpu_time, iterations) = (shown.cpu_time, shown.iterations);
        let j = &mut self.text;
        j.open('{');
        j.key("size").integer(row.size);
        j.key("count").integer(row.count);
        j.key("type").string(row.datatype.name());
        j.key("redop").string(&row.redop);
        j.key("root").string(&format!("{:6}", row.root));
        if let Some(variant) = &row.variant {
            j.key("variant").string(&variant.given.to_string());
        }
        for (name, half) in [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)] {
            if let Some(half) = half {
                self.half(name, half, cpu_time);
            }
        }
        let j = &mut self.text;
        j.key("actual_iterations").integer(iterations);
        j.key("experiment_name").string("");
        j.close('}');
        self.flush()
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let Some(shown) = &self.shown else { return Ok(()) };
        let j = &mut self.text;
        j.close(']');
        if end.status == Status::Complete {
            j.key("out_of_bounds").open('{');
            j.key("count").integer(end.out_of_bounds);
            j.key("okay").truth(end.out_of_bounds == 0);
            j.close('}');
            j.key("average_bus_bandwidth").open('{');
            j.key("bandwidth").double(end.average_busbw);
            match end.min_bandwidth_held {
                Some(held) if shown.checked_gate => j.key("okay").truth(held),
                _ => j.key("okay").string("unchecked"),
            }
            j.close('}');
        }
        j.key("errors").open('[');
        j.string(end.message.as_deref().unwrap_or(""));
        j.close(']');
        j.key("end_time").string(&end.finished);
        j.close('}');
        self.flush()
    }
}
