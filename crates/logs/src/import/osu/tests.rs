//! Titles and rows of every release, behind every prefix.

use super::*;

#[test]
fn titles() {
    for (line, figure, memory, pair) in [
        ("# OSU MPI Latency Test v7.4", Figure::Latency, Some(Memory::Host), true),
        ("# OSU MPI-CUDA Bandwidth Test v5.9", Figure::PointToPoint, None, true),
        (
            "# OSU MPI-CUDA Allreduce Latency Test v5.9",
            Figure::Latency,
            Some(Memory::Device),
            false,
        ),
        (
            "# OSU MPI All-to-All Personalized Exchange Latency Test v7.5",
            Figure::Latency,
            Some(Memory::Host),
            false,
        ),
        ("# OSU MPI-CUDA Bi-Directional Bandwidth Test v7.5", Figure::BothDirections, None, true),
        ("# OSU MPI-ROCM Latency Test v7.5", Figure::Latency, None, true),
        (
            "# OSU NCCL-CUDA Allreduce Latency Test v7.5",
            Figure::Latency,
            Some(Memory::Device),
            false,
        ),
        (
            "# OSU MPI-CUDA Non-blocking Allreduce Latency Test v7.5",
            Figure::Latency,
            Some(Memory::Device),
            false,
        ),
        (
            "# OSU MPI Multiple Bandwidth / Message Rate Test v5.8",
            Figure::Pairs,
            Some(Memory::Host),
            false,
        ),
    ] {
        let Some(title) = title(line) else { panic!("{line}") };
        let (test, version) = title.test();
        assert_eq!((test.figure, test.memory.map(|m| m.value)), (figure, memory), "{line}");
        assert_eq!(title.ranks().is_some(), pair, "{line}");
        assert!(version.is_some(), "{line}");
    }
}

#[test]
fn rows_follow_their_header() {
    for (header, line, size, time, speed) in [
        ("# Size       Avg Latency(us)", "4                      10.37", 4, Some(10.37), None),
        ("# Size          Latency (us)", "0                       1.26", 0, Some(1.26), None),
        ("# Size      Bandwidth (MB/s)", "1048576   48369.05", 1_048_576, None, Some(48.36905)),
        ("Size (bytes) Bandwidth (MB/s)", "20 1048576 48369.05", 1_048_576, None, Some(48.36905)),
        ("# Size  MB/s   Messages/s", "1     7.83        7826065.69", 1, None, Some(0.00783)),
        (
            "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
            "16777216 8630.58 8619.50 8642.46 10",
            16_777_216,
            Some(8630.58),
            None,
        ),
        ("# Size       Avg Latency(us)        Validation", "1 0.15 Pass", 1, Some(0.15), None),
        ("# Avg Latency(us)", "             9.07", 0, Some(9.07), None),
        // 7.5, as published by CSCS (openmpi.md of their documentation, commit 80abed138e7c).
        (
            "# Size      Bandwidth (MB/s)        Validation",
            "4194304             23989.54              Pass",
            4_194_304,
            None,
            Some(23.98954),
        ),
    ] {
        let mut table = Table::default();
        assert_eq!(table.row(line), None, "{line}");
        table.take_header(super::header(header).unwrap(), &mut Measurement::default());
        let Some(row) = table.row(line) else { panic!("{line}") };
        let half = row.out_of_place.unwrap_or_default();
        assert_eq!((row.size, half.time_us, half.algbw), (size, time, speed), "{line}");
        assert_eq!(table.row("real\t0m11.329s"), None);
        assert_eq!(table.row("12 words follow"), None);
    }
}

#[test]
fn rows_behind_their_headers_prefix() {
    for (first, next) in [
        ("[1,0]<stdout>:", "[1,0]<stdout>:"),
        ("0: ", "0: "),
        ("2026-01-02T03:04:05.6Z ", "2026-01-02T03:05:06.7Z "),
        ("    9  ", "   10  "),
        ("osu.log:9:", "osu.log:10:"),
        ("[pod/osu-x2/main] ", "[pod/osu-x2/main] "),
        ("(Worker pid=7, ip=10.0.0.2) ", "(Worker pid=7, ip=10.0.0.2) "),
        ("> ", "> "),
        ("# ", "# "),
        ("Jan  2 03:04:05 node osu[12]: ", "Jan  2 03:14:05 node osu[12]: "),
    ] {
        let mut table = Table::default();
        let header = super::header(&format!("{first}# Size       Avg Latency(us)")).unwrap();
        table.take_header(header, &mut Measurement::default());
        let row = |table: &mut Table, line: String| table.row(&line).map(|row| row.size);
        assert_eq!(row(&mut table, format!("{next}4             10.37")), Some(4), "{next}");
        assert_eq!(row(&mut table, format!("{next}4             10.37  8")), None, "{next}");
        assert_eq!(row(&mut table, format!("{next}4 words")), None, "{next}");
    }
    let mut table = Table::default();
    let header = super::header("# Size      Bandwidth (MB/s)").unwrap();
    table.take_header(header, &mut Measurement::default());
    for line in ["| 8 | 12.5 |", "8,12.5", "8;12,5", "8   12,5"] {
        let found = table.row(line).and_then(|row| row.out_of_place?.algbw);
        assert_eq!(found, Some(0.0125), "{line}");
    }
}
