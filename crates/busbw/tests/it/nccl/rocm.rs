//! HIP and RCCL, as far as a shim goes: names and calls. No AMD machine has run this.
//! Not what both vendors share (`data`, `options`).

use super::shims::{LIMIT, folder, on};
use crate::processes::bench::Ended;

fn run(words: &str, variables: &[(&str, &str)]) -> Ended {
    on(&folder().join("rocm"), words, variables).start().end(LIMIT)
}

#[test]
fn collectives_are_verified_on_the_host() {
    for name in ["all_reduce", "alltoall", "broadcast", "sendrecv", "reduce_scatter"] {
        for layout in ["-g 2", "-t 2 -g 2"] {
            let ended = run(&format!("{name}_perf {layout} -b 1K -e 64K -f 4 -n 2"), &[]);
            ended.exits(0);
            let rows = ended.read_record().rows;
            assert!(
                rows.iter().all(|row| row.out_of_place.as_ref().unwrap().figures.wrong == Some(0))
            );
            assert_eq!(ended.read_record().run.nccl[1], 22203);
            assert!(ended.stdout.contains("] Shim MI300X"), "{}", ended.stdout);
        }
    }
}

#[test]
fn a_wrong_element_is_found() {
    for name in ["all_reduce", "all_reduce_perf"] {
        let words = format!("{name} -g 2 -b 1K -e 1K -n 2 -c 1");
        run(&words, &[("BUSBW_SHIM_CORRUPT", "1")]).exits(7).says("rank 1 found 0x");
        let fault = "--fault rank=0,phase=timed,row=0,do=corrupt:17";
        run(&format!("{words} {fault}"), &[]).exits(7).says("in element 17 ");
    }
}

/// A wrong driver is a wrong driver: NVIDIA's NCCL beside HIP alone is no pair.
#[test]
fn libraries_of_one_vendor_belong_together() {
    let mixed = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("rocm/libamdhip64.so.6"), mixed.path().join("libamdhip64.so.6"))
        .unwrap();
    std::fs::copy(folder().join("libnccl.so.2"), mixed.path().join("libnccl.so.2")).unwrap();
    let words = "all_reduce -g 2 -b 1K -e 1K --backend nccl";
    let ended = on(&mixed.path().to_owned(), words, &[]).start().end(LIMIT);
    ended.exits(5).says("there is no CUDA driver");
}
