//! Options that only GPUs have, or that GPUs do in their own way: all of them leave data right.
//! Not what is refused (`refusal`).

use busbw_core::Collective;

use super::shims::well;
use crate::processes::cells::{all_passed, run_cells};

const SIZES: &str = "-b 1K -e 4K -f 2 -n 3 -w 1";

/// OSU's stops its clock before the answer is there, and its windows are no groups (osu_xccl_bw.c).
#[test]
fn windows_of_osu_are_groups_and_end_with_the_answer() {
    // Every operation takes so long on the GPU.
    let slow = [("BUSBW_SHIM_OPERATION_US", "20000")];
    let bw = well("osu_xccl_bw -m 4:4 -i 3 -x 0 -W 2", &slow).read_record();
    let message = bw.rows[0].out_of_place.as_ref().unwrap().figures.time_us.unwrap();
    assert!(2.0 * message >= 3.0 * 20_000.0, "two messages and an answer: {message} us each");
    // Both ends receive first: one by one they would wait for each other.
    let both = well("osu_xccl_bibw -m 4:8 -i 3 -x 0 -W 4", &[]).read_record();
    assert_eq!(both.rows.len(), 2);
}

/// Graphs, launched once and often, in both places, by threads and by processes.
#[test]
fn graphs_of_every_collective() {
    let cells: Vec<(Collective, &str)> = Collective::ALL
        .into_iter()
        .filter(|collective| collective.spec().nccl_tests.is_some())
        .flat_map(|collective| [(collective, "-G 1"), (collective, "-G 20")])
        .collect();
    let words = |(collective, graphs): (Collective, &str)| {
        format!("{}_perf -t 2 -g 2 {graphs} {SIZES}", collective.name())
    };
    let outcomes = run_cells(&cells, 2, |cell| {
        let threads = well(&words(cell), &[]);
        let processes = words(cell).replace("_perf -t 2 -g 2", " --batches 2 -g 2");
        well(&processes, &[]);
        let times = cell.1.trim_start_matches("-G ");
        assert!(threads.stdout.contains(&format!(" graph: {times} ")), "{}", threads.stdout);
        for row in threads.read_record().rows {
            let halves = [row.out_of_place, row.in_place].map(|half| half.unwrap().figures.wrong);
            assert_eq!(halves[0], Some(0), "{}", words(cell));
            let meant = cell.0.in_place_is_valid();
            // A reduction in place that is launched again reduces its own result: nothing to prove.
            let proven = meant && !(cell.0.reduces() && times != "1");
            assert!(!proven || halves[1] == Some(0), "{}: {halves:?}", words(cell));
        }
    });
    all_passed(&outcomes, words);
}

#[test]
fn single_options() {
    for options in [
        "-R 1",
        "-R 2",
        "-x -1",
        "-x 0",
        "-x 1",
        "-x 2",
        "-z 1",
        "-z 2",
        "-z 3",
        "-C 1",
        "-m 4",
        "-m 4 -G 2",
        "-M 1",
        "-y 1",
        "-u 1 -d all",
        "-u 3 -d all",
        "-p 1",
        "-N 3",
        "-S 1",
        "-T 20",
        "-I 1",
        "-I 1 -K 1",
        "-I 1 -K 1 -m 3 -z 3",
        "-R 2 -G 2",
        "-c 0",
        "-c 3",
    ] {
        for run in ["all_reduce_perf -t 2 -g 2", "alltoall -g 2 --batches 2"] {
            let ended = well(&format!("{run} {SIZES} {options}"), &[]);
            let rows = if options == "-N 3" { 9 } else { 3 };
            let rows = if options.contains("-d all") { 3 * 12 } else { rows };
            assert_eq!(ended.read_record().rows.len(), rows, "{run} {options}");
        }
    }
}

/// Unaligned buffers where every rank has its own part of one.
#[test]
fn unaligned_parts() {
    for name in ["all_gather", "reduce_scatter", "gather", "scatter", "alltoallv", "hypercube"] {
        for unaligned in [1, 3] {
            well(&format!("{name}_perf -t 2 -g 2 {SIZES} -u {unaligned} -d half"), &[]);
        }
    }
}

#[test]
fn a_report_of_iterations_has_them_all() {
    let ended = well(&format!("all_reduce_perf -t 2 -g 2 {SIZES} -I 1 -K 1"), &[]);
    for row in ended.read_record().rows {
        let times = row.out_of_place.unwrap().iterations.unwrap();
        assert_eq!((times.skipped, times.times_us.len()), (1, 3));
        assert!(times.times_us.iter().all(|us| *us > 0.0), "{times:?}");
    }
}

#[test]
fn the_json_report_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let words = format!("all_reduce_perf -g 2 {SIZES} -J {}", path.display());
    let mut bench = super::shims::bench(&words, &[]);
    bench.also_writes = Some(folder.path().to_owned());
    bench.start().end(super::shims::LIMIT).exits(0);
    let text = std::fs::read_to_string(path).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["results"].as_array().unwrap().len(), 3, "{text}");
}

/// What must be compiled against NCCL's headers is waived, said and recorded.
#[test]
fn device_kernels_are_waived() {
    let ended = well(&format!("all_reduce_perf -g 2 {SIZES} -R 2 -D 1 -V 8"), &[]);
    ended.says("-D 1 is waived: kernels on NCCL's device API must be compiled");
    let waived = ended.read_record().run.waived;
    assert_eq!(waived.len(), 2, "{waived:?}");
}

/// nccl-tests' programs ask for NVLink-centric scheduling, and only they (src/common.cu:205).
#[test]
fn communicators_are_configured_by_name() {
    for (name, centric) in [("all_reduce_perf", true), ("all_reduce", false)] {
        let ended = well(&format!("{name} -g 2 {SIZES}"), &[]);
        let text = std::fs::read_to_string(&ended.record).unwrap();
        assert!(text.contains(r#""kind":"library""#), "{text}");
        assert_eq!(text.contains(r#""nvlinkCentricSched":{"1":"#), centric, "{text}");
    }
}
