//! Real output of OSU 7.4, printed again from records that hold its figures, and read back.

use std::{collections::BTreeMap, ffi::OsString};

use busbw_core::{plan::{BackendChoice, GpuOptions}, record::{Clock, Figures, LatencyFigures, Machine, MemoryFigures, MessageFigures, SCHEMA, Spread}};
use busbw_logs::measurement::Figure;

use super::*;
use busbw_render::{OsuTable, Render, table};
use crate::options::{self, Command, Environment};
use crate::options::HostResources;
use busbw_logs::import;

const GOLDEN: &str = include_str!("../tests/golden/osu_7.4.txt");

fn plan(line: &str) -> Plan {
    let words = ["busbw"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words) else {
        panic!("{line} does not parse");
    };
    let host_resources = HostResources {
        cores: 8,
        cores_of_parent: 8,
        gpus: Err("none".to_owned()),
        mpi: Err("none".to_owned()),
        seed: 1,
    };
    let environment = Environment::default();
    options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
        .unwrap_or_else(|why| panic!("{line}: {why}"))
        .plan
}

fn run(plan: &Plan) -> Run {
    Run {
        schema: SCHEMA,
        id: String::new(),
        busbw: String::new(),
        started: String::new(),
        started_unix: 0,
        args: Vec::new(),
        environment: BTreeMap::new(),
        machine: Machine::default(),
        nccl: [0; 2],
        preamble: Vec::new(),
        plan: plan.clone(),
        devices: Vec::new(),
        reduced_max_bytes: None,
        memory: MemoryFigures::default(),
        clock: Clock { precision_ns: 1.0, overhead_ns: 1.0 },
        counted: None,
        waived: Vec::new(),
        remarks: Vec::new(),
    }
}

fn end(status: Status) -> End {
    End {
        schema: SCHEMA,
        status,
        exit: Exit::Ok,
        message: None,
        out_of_bounds: 0,
        average_busbw: f64::NAN,
        average_algbw: f64::NAN,
        min_bandwidth_held: None,
        finished: String::new(),
        peak_rank_bytes: 0,
        gpu_memory: None,
        warnings: Vec::new(),
    }
}

fn half(time_us: f64, algbw: f64) -> Half {
    Half {
        figures: Figures {
            time_us: Some(time_us),
            algbw: Some(algbw),
            ..Figures::default()
        },
        ..Half::default()
    }
}

fn row(plan: &Plan, datatype: DataType, message: u64, half: Half) -> Row {
    let element = datatype.bytes();
    let (size, count) = match plan.benchmark {
        Benchmark::Messages(_) | Benchmark::Pairs | Benchmark::Replay => (message, message / element as u64),
        Benchmark::Collective(collective) => {
            let counts = collective.counts_of_message(message as usize, element, plan.ranks());
            (counts.bytes(element) as u64, counts.param as u64)
        }
    };
    Row {
        schema: SCHEMA,
        index: 0,
        cycle: 0,
        launch: 0,
        shown: true,
        group: 0,
        ranks: plan.ranks(),
        benchmark: plan.benchmark,
        size,
        count,
        datatype,
        redop: String::new(),
        root: -1,
        finished: String::new(),
        variant: None,
        waived: None,
        out_of_place: Some(half),
        in_place: None,
        pairs: None,
        notes: Vec::new(),
        counters: Vec::new(),
            other_hosts: Vec::new(),
    }
}

#[derive(Clone, Default)]
struct Written(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn printed(plan: &Plan, rows: &[Row], status: Status) -> String {
    let out = Written::default();
    let mut table = table(plan, out.clone());
    table.run(&run(plan)).unwrap();
    rows.iter().for_each(|row| table.row(row).unwrap());
    table.end(&end(status)).unwrap();
    let bytes = out.0.borrow().clone();
    String::from_utf8(bytes).unwrap()
}

/// A command of the golden file and what it printed.
fn cases() -> Vec<(usize, String, String)> {
    let mut cases = Vec::new();
    for case in GOLDEN.split("$ ").skip(1) {
        let (command, output) = case.split_once('\n').unwrap();
        let (ranks, command) = command.split_once(' ').unwrap();
        let output = output.strip_suffix("[end]\n").unwrap();
        cases.push((ranks.parse().unwrap(), command.to_owned(), output.to_owned()));
    }
    assert_eq!(cases.len(), 20);
    cases
}

/// The figures of an output as rows of a record.
fn rows(plan: &Plan, output: &str) -> Vec<Row> {
    // A grid stands there twice; messages a second are the finer of the two.
    let output = output.split_once("# Message Rate Profile").map_or(output, |(_, rates)| rates);
    let mut datatype = plan.datatypes[0];
    let mut rows = Vec::new();
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("# Datatype: ") {
            datatype = match name {
                "MPI_CHAR." => DataType::Int8,
                "MPI_INT." => DataType::Int32,
                _ => DataType::Float,
            };
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        if cells.first().is_none_or(|cell| cell.parse::<f64>().is_err()) {
            continue;
        }
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        let size = if is_sized(plan) { cells[0].parse().unwrap() } else { 0 };
        if !plan.messaging.varied.is_empty() {
            for (at, window) in plan.messaging.varied.iter().enumerate() {
                let mut cell = half(f64::NAN, number(at + 1) * size as f64 / 1e9);
                cell.messages = Some(MessageFigures { window: *window, ..Default::default() });
                rows.push(row(plan, datatype, size, cell));
            }
            continue;
        }
        let mut at = usize::from(is_sized(plan));
        let mut made = match bandwidth(plan) {
            None => half(number(at), 1.0),
            Some(_) => half(f64::NAN, number(at) / 1e3),
        };
        at += 1;
        if bandwidth(plan) == Some(Messages::MultiBandwidth) && osu(plan).rate {
            made.figures.algbw = Some(number(at) * size as f64 / 1e9);
            at += 1;
        }
        let mut latency = LatencyFigures::default();
        if osu(plan).full {
            latency.fastest_rank_us = number(at);
            latency.slowest_rank_us = number(at + 1);
            at += 3;
        }
        if plan.check > 0 {
            made.figures.wrong = Some(u64::from(cells[at] == "Fail"));
            at += 1;
        }
        let percentiles = plan.messaging.percentiles.iter().zip(at..);
        let percentiles = percentiles.map(|(percent, at)| match bandwidth(plan) {
            None => (*percent, number(at)),
            Some(test) => (*percent, plan.pairs(test).len() as f64 * size as f64 / number(at)),
        });
        let percentiles: Vec<(u8, f64)> = percentiles.collect();
        if plan.benchmark.messages().is_some() {
            made.messages = Some(MessageFigures { percentiles, ..Default::default() });
        } else {
            made.latency = Some(LatencyFigures { percentiles, ..latency });
        }
        rows.push(row(plan, datatype, size, made));
    }
    rows
}

#[test]
fn as_the_original_prints_them() {
    for (ranks, command, output) in cases() {
        let words = ["busbw"].into_iter().chain(command.split(' ')).map(OsString::from);
        if let Command::Text(text) = options::parse(words).unwrap() {
            assert_eq!(text, output, "{command}");
            continue;
        }
        let plan = plan(&format!("{command} -g {ranks} --backend host"));
        let ours = printed(&plan, &rows(&plan, &output), Status::Complete);
        // What differs on purpose: docs/osu.md.
        let mut theirs = output.replace("# OSU MPI ", "# OSU HOST ").replace(
            "./osu_allreduce exited with status 1 ",
            "osu_allreduce exited with status 7 ",
        );
        if command.contains("-p 1") {
            theirs = theirs.replace("pairs: 2", "pairs: 1");
        }
        assert_eq!(ours, theirs, "{command}");
    }
}

#[test]
fn what_we_print_can_be_imported() {
    let mut read = 0;
    for (ranks, command, output) in cases() {
        // Grids are passed over.
        if command.ends_with("-v") || command.ends_with("-V") {
            continue;
        }
        let plan = plan(&format!("{command} -g {ranks} --backend host"));
        let rows = rows(&plan, &output);
        let text = printed(&plan, &rows, Status::Complete);
        let imported = import::read(text.as_bytes(), "log").unwrap().measurements;
        // A table for each type.
        assert_eq!(imported.len(), plan.datatypes.len(), "{command}");
        let name = format!("OSU HOST {}", program(&plan).unwrap().title);
        let figure = plan.benchmark.messages().map_or(Figure::Latency, Messages::figure);
        for one in &imported {
            assert_eq!(one.test.name.as_ref(), Some(&name), "{command}");
            assert_eq!(one.test.figure, figure, "{command}");
        }
        let there: Vec<_> = imported.iter().flat_map(|one| &one.rows).collect();
        assert_eq!(there.len(), rows.len(), "{command}");
        for (theirs, ours) in there.into_iter().zip(&rows) {
            let half = theirs.out_of_place.clone().unwrap();
            let made = ours.out_of_place.clone().unwrap().figures;
            assert_eq!(theirs.size, ours.message_bytes(), "{command}");
            match bandwidth(&plan) {
                None => assert_eq!(half.time_us, made.time_us, "{command}"),
                Some(_) => {
                    let off = half.algbw.unwrap() - made.algbw.unwrap();
                    assert!(off.abs() <= 0.000_005_1, "{command}: {off}");
                }
            }
            read += 1;
        }
    }
    assert!(read > 30, "{read}");
}

#[test]
fn xccl_has_a_title_and_says_where_buffers_are() {
    let plan = Plan {
        backend: BackendChoice::Nccl(GpuOptions::default()),
        osu: Some(Osu { on_gpus: [true; 2], ..Osu::default() }),
        ..plan("osu_xccl_latency -m 1:2 --backend host")
    };
    let made = row(&plan, DataType::Int8, 1, half(5.0, 1.0));
    let text = printed(&plan, &[made], Status::Complete);
    assert_eq!(
        text,
        "#Using NCCL\n\n# OSU NCCL-CUDA Latency Test v7.4\n# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n# Size          Latency (us)\n1                       5.00\n"
    );
    let imported = import::read(text.as_bytes(), "log").unwrap().measurements;
    let memory = imported[0].test.memory.as_ref().map(|memory| memory.value);
    assert_eq!(memory, Some(busbw_logs::measurement::Memory::Device));
    let collective = Plan {
        program: "osu_xccl_allreduce".to_owned(),
        benchmark: Collective::AllReduce.into(),
        ..plan
    };
    let text = printed(&collective, &[], Status::Complete);
    assert!(
        text.ends_with(
            "# OSU NCCL-CUDA Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n"
        ),
        "{text}"
    );
}

#[test]
fn what_is_left_of_a_run_is_printed() {
    // A grid that ends within a line, and no profile.
    let grid = plan("osu_mbw_mr -V -m 1:2 -g 4 --backend host");
    let cell = |algbw| row(&grid, DataType::Int8, 1, half(1.0, algbw));
    let text = printed(&grid, &[cell(0.001), cell(0.002)], Status::Interrupted);
    assert!(text.ends_with("\n1              1.00        2.00\n"), "{text}");
    // Types that are larger than all sizes have a header; a reason stands where a row would.
    let types = plan("osu_bcast -T all -m 1:2 -g 4 --backend host");
    let waived = Row {
        out_of_place: None,
        waived: Some("no such thing".to_owned()),
        ..row(&types, DataType::Int8, 1, half(1.0, 1.0))
    };
    let text = printed(&types, &[waived], Status::Complete);
    assert!(text.contains("\n# no such thing\n# Datatype: MPI_INT.\n"), "{text}");
    assert_eq!(text.matches("# Datatype: ").count(), 3);
}

/// A percentile of 100 has a label of three digits, which is one wider than its cell, as in OSU.
#[test]
fn labels_of_percentiles() {
    let latency = plan("osu_latency -z5,100 --backend host");
    assert!(
        head::columns(&latency, DataType::Int8)
            .ends_with("   P5 Tail Lat(us)  P100 Tail Lat(us)\n")
    );
    // High percentiles of bandwidth are those of short times.
    let bandwidth = plan("osu_bw -z99 --backend host");
    assert_eq!(bandwidth.messaging.percentiles, [1]);
    assert!(head::columns(&bandwidth, DataType::Int8).ends_with(" P99 Tail BW(MB/s)\n"));
}

/// OSU's `Max` is a mean of one rank, so that a stall disappears in it; ours stands in the record, and is
/// said.
#[test]
fn a_stall_is_said() {
    let plan = plan("osu_allreduce -f -g 4 --backend host");
    let mut made = half(12.0, 1.0);
    let spread = Spread { samples: 4000, p50: 2.0, max: 10_000.0, ..Spread::default() };
    made.latency = Some(LatencyFigures {
        fastest_rank_us: 2.0,
        slowest_rank_us: 12.0,
        spread,
        percentiles: Vec::new(),
    });
    let row = row(&plan, DataType::Int8, 4, made);
    let said = busbw_render::run_warnings(&run(&plan), &[row]).join("\n");
    assert!(said.contains("4 B out-of-place") && said.contains("100 times the median"), "{said}");
}

/// Sums of 8-bit integers that are wrong through MPI may be Open MPI's, and through anything else are not.
#[test]
fn sums_that_saturate_are_said() {
    let mut plan = plan("osu_allreduce -c -g 4 --backend host");
    let said = |plan: &Plan, datatype, wrong| {
        let mut half = half(12.0, 1.0);
        half.figures.wrong = Some(wrong);
        let row = Row { redop: "sum".to_owned(), ..row(plan, datatype, 64, half) };
        busbw_render::run_warnings(&run(plan), &[row]).join("\n").contains("OMPI_MCA_op")
    };
    assert!(!said(&plan, DataType::Int8, 1));
    plan.backend = BackendChoice::Mpi;
    assert!(said(&plan, DataType::Int8, 1) && said(&plan, DataType::Uint8, 1));
    assert!(!said(&plan, DataType::Int8, 0) && !said(&plan, DataType::Float, 1));
}
