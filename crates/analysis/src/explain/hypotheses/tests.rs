use busbw_core::{Collective, record::Figures};
use busbw_logs::measurement::{Device, Known, Row};

use super::*;
use crate::explain::{Explanation, Hardware, explain};

fn run(ranks: usize, hosts: Option<usize>, gpu: Option<&str>, busbw: f64) -> Measurement {
    let figures = Figures { busbw: Some(busbw), algbw: Some(busbw / 1.75), ..Figures::default() };
    let row = |size| Row { size, out_of_place: Some(figures.clone()), ..Row::default() };
    let mut run = Measurement {
        ranks: Some(Known::stated(ranks)),
        hosts,
        rows: vec![row(4 << 30), row(8 << 30)],
        ..Measurement::default()
    };
    run.test.collective = Some(Known::stated(Collective::AllReduce));
    run.devices = gpu
        .map(|name| {
            (0..ranks).map(|rank| Device { rank, name: name.to_owned(), ..Device::default() })
        })
        .into_iter()
        .flatten()
        .collect();
    run
}

fn told(run: Measurement) -> Explanation {
    explain(vec![run], &Hardware::default()).remove(0)
}

#[test]
fn a_bare_table_excludes_what_is_slower() {
    let explanation = told(run(8, None, None, 480.0));
    let found = explanation.hypotheses.unwrap();
    let of = |all: &[Hypothesis], gpu: &str| {
        all.iter().any(|one| one.gpus.iter().any(|name| name == gpu))
    };
    assert!(of(&found.possible, "H100 SXM") && of(&found.possible, "H200 SXM"), "{found:?}");
    assert!(of(&found.excluded, "A100 SXM") && !of(&found.possible, "A100 SXM"), "{found:?}");
    assert!(found.possible.windows(2).all(|pair| pair[0].percent >= pair[1].percent));
    assert!(found.decides.contains("list of devices"));
    assert!(found.measured.iter().any(|one| one.reference == "8x-h200-nvlink"), "{found:?}");
    assert_eq!((explanation.limit, explanation.percent), (None, None));
}

#[test]
fn hosts_of_a_known_gpu_are_told_by_their_nics() {
    let found = told(run(16, Some(2), Some("NVIDIA H100 80GB HBM3"), 388.7)).hypotheses.unwrap();
    assert!(
        found.brief(388.7).contains("8 × 400 Gb/s NICs a host, 388.7 GB/s would be 97"),
        "{found:?}"
    );
    assert!(found.excluded.iter().any(|one| one.machines == ["a3-megagpu-8g"]), "{found:?}");
    assert!(found.decides.contains("NET/IB"));
}

#[test]
fn boards_are_tried_in_narrow_slots_and_racks_without_mnnvl() {
    let tried = |run| told(run).hypotheses.unwrap();
    let slots = tried(run(4, Some(1), Some("NVIDIA GeForce RTX 4090"), 11.9));
    let by: Vec<&str> = slots.possible.iter().map(|one| one.limited_by.as_str()).collect();
    assert_eq!(by, ["PCIe 4.0 x8", "PCIe 4.0 x16"]);
    let racks = tried(run(8, Some(2), Some("NVIDIA GB200"), 84.8));
    assert!(racks.possible[0].name().contains("NVLink ends at the host"), "{racks:?}");
    let bridge = tried(run(2, Some(1), Some("NVIDIA H100 PCIe"), 41.5));
    assert!(bridge.decides.contains("bridge"), "{bridge:?}");
}

#[test]
fn where_more_is_known_there_is_none() {
    let named = Hardware::read(Some("dgx-h100"), None).unwrap();
    let h100 = || run(8, Some(1), Some("NVIDIA H100 80GB HBM3"), 480.0);
    assert_eq!(explain(vec![h100()], &named).remove(0).hypotheses, None);
    assert_eq!(told(h100()).hypotheses, None);
    assert_eq!(told(run(8, Some(1), Some("A new GPU"), 480.0)).hypotheses, None);
    assert_eq!(told(run(1, None, None, 480.0)).hypotheses, None);
    assert_eq!(told(run(8, None, None, 50_000.0)).hypotheses, None);
}
