//! Data: every collective, type and operator in every layout is right, and one wrong element is
//! found, wherever it comes from.
//! Not options that change how data is moved (`options`).

use busbw_core::{Collective, DataType, ReduceOp, collective::OpColumn, record::WrongPlace};

use super::shims::{run, well};
use crate::processes::{
    bench::Ended,
    cells::{all_passed, run_cells},
};

/// One process per GPU, and nccl-tests' layouts.
const LAYOUTS: [(&str, &str); 4] =
    [("", "-g 4"), ("_perf", "-t 4 -g 1"), ("_perf", "-t 1 -g 4"), ("_perf", "-t 2 -g 2")];

/// The smallest size rounds to no element at all wherever ranks share it.
const SIZES: &str = "-b 8 -e 8K -f 32 -n 1 -w 0 --batches 1";

#[test]
fn everything_in_every_layout() {
    let cells: Vec<(Collective, usize)> = Collective::ALL
        .into_iter()
        .filter(|collective| collective.spec().nccl_tests.is_some())
        .flat_map(|collective| (0..LAYOUTS.len()).map(move |layout| (collective, layout)))
        .collect();
    let words = |(collective, layout): (Collective, usize)| {
        let (suffix, layout) = LAYOUTS[layout];
        // Roots do not depend on types: all of them for one.
        let types = if collective.rooted() { "-r all" } else { "-d all -o all" };
        format!("{}{suffix} {layout} {types} {SIZES}", collective.name())
    };
    let outcomes = run_cells(&cells, 2, |cell| {
        let ended = well(&words(cell), &[]);
        let rows = ended.read_record().rows;
        // Three sizes: once for each root, or type, or type and operator.
        let times = match cell.0 {
            collective if collective.rooted() => 4,
            // sendrecv prints operators, too, and runs once for each.
            collective if collective.op_column() == OpColumn::Name => {
                DataType::ALL.len() * ReduceOp::ALL.len()
            }
            _ => DataType::ALL.len(),
        };
        assert_eq!(rows.len(), 3 * times, "{}", words(cell));
        let smallest = rows.iter().map(|row| row.size).min().unwrap();
        assert_eq!(smallest == 0, !ended.stdout.contains("\n           8 "));
    });
    all_passed(&outcomes, words);
}

#[test]
fn rooted_collectives_in_every_type() {
    for words in ["broadcast -d all", "reduce -d all -o all", "gather -d all", "scatter -d all"] {
        well(&format!("{words} -g 4 -r 2 {SIZES}"), &[]);
    }
}

/// Numbers of ranks that are no power of two: NCCL's averages of floats are within the tolerance.
#[test]
fn odd_numbers_of_ranks() {
    for ranks in [1_usize, 3, 5] {
        let theirs = |collective: &Collective| collective.spec().nccl_tests.is_some();
        for collective in Collective::ALL.into_iter().filter(theirs) {
            let name = collective.name();
            let ops = match collective.reduces() {
                true => &["sum", "prod", "max", "min", "avg", "mulsum"][..],
                false => &["sum"],
            };
            for op in ops {
                let layout = format!("{name}_perf -t {ranks} -g 1");
                let layout = if *op == "max" { format!("{name} -g {ranks}") } else { layout };
                let ended = well(&format!("{layout} -d all -o {op} {SIZES}"), &[]);
                let waived = !collective.allows(ranks);
                let rows = ended.read_record().rows;
                assert_eq!(rows.iter().all(|row| row.waived.is_some()), waived, "{name} {ranks}");
            }
        }
    }
}

/// Averages over more ranks than 1/n is a normal number for: nobody can say what is right, and
/// nobody pretends to.
#[test]
fn averages_that_cannot_be_known_are_not_judged() {
    for (datatype, proven) in [("f8e4m3", false), ("f8e5m2", true)] {
        let words = format!(
            "all_reduce_perf -t 65 -g 1 -d {datatype} -o avg -b 4K -e 4K -n 1 -w 0 --batches 1"
        );
        let ended = well(&words, &[("BUSBW_SHIM_GPUS", "65")]);
        for row in ended.read_record().rows {
            for half in row.out_of_place.iter().chain(&row.in_place) {
                assert_eq!(half.figures.wrong, proven.then_some(0), "{words}");
            }
        }
        assert_eq!(ended.stderr.contains("is not verified (N/A)"), !proven, "{words}");
    }
}

/// A library that flips a bit of what rank 1 receives.
#[test]
fn a_wrong_element_of_the_library_is_found() {
    for name in ["all_reduce", "all_gather", "alltoall", "sendrecv", "broadcast"] {
        for layout in ["-g 2", "-g 1 -t 2"] {
            let words = format!("{name} {layout} -b 1K -e 1K -n 2 -d half --batches 1");
            let ended = run(&words, &[("BUSBW_SHIM_CORRUPT", "1")]);
            ended.exits(7).says("rank 1 found 0x");
            let place = place(&ended);
            assert_eq!(place.rank, 1, "{words}");
            assert!((1..1024).contains(&place.element), "{words}: {place:?}");
        }
    }
}

/// One that we make: rank and element are those of the fault, for every width.
#[test]
fn a_wrong_element_of_ours_is_found() {
    for (layout, datatype) in [("-g 2", "int8"), ("-t 2 -g 1", "half"), ("-t 1 -g 2", "double")] {
        for element in [0, 77, 127] {
            let words = format!(
                "all_reduce_perf {layout} -b 1K -e 1K -d {datatype} -n 2 \
                 --fault rank=1,phase=timed,row=0,do=corrupt:{element}"
            );
            let ended = run(&words, &[]);
            ended.exits(7).says(&format!("in element {element} "));
            let place = place(&ended);
            assert_eq!((place.rank, place.element), (1, element), "{words}");
        }
    }
}

#[track_caller]
fn place(ended: &Ended) -> WrongPlace {
    let half = ended.read_record().rows.remove(0).out_of_place.unwrap();
    half.wrong_places.into_iter().next().unwrap()
}
