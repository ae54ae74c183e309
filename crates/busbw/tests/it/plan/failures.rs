//! `busbw plan … --target` and `busbw plan incast` from outside: tables, JSON, what is refused. The figures themselves are tested
//! where they are computed (`busbw-hardware`).

use serde_json::Value;

use super::{json, plan, said};

/// A ring over 64 packed hosts needs 8 of each leaf's 32 uplinks: 24 may fail. Written so that packets are spread.
#[test]
fn failures_are_counted_where_packets_are_spread() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let example =
        said("--example clos-2tier").replace("hosts = 256", "hosts = 256\nrouting = \"spray\"");
    std::fs::write(file.path(), example).unwrap();
    let asked = format!(
        "{} all_gather --gpus 512 -b 1G --fail link:leaf --fail link:host --target 99.9%",
        file.path().display()
    );
    let report = json(&asked);
    assert_eq!(report["question"], "tolerance");
    let [leaf, host] = [&report["kinds"][0], &report["kinds"][1]];
    assert_eq!(leaf["method"]["is"], "exact");
    assert_eq!(leaf["worst"]["failed"], 24, "{leaf}");
    assert_eq!(leaf["best"]["failed"], 48 * 32 + 16 * 24, "{leaf}");
    assert_eq!(host["worst"]["failed"], 0, "{host}");
    assert_eq!(host["worst"]["then"]["cut_off"], true, "{host}");
    let networks = report["networks"].as_array().unwrap();
    assert_eq!(networks.len(), 2);
    assert_eq!(networks[0]["network"], "nccl_rdma");
    assert!((networks[0]["ends_us"].as_f64().unwrap() / 1e6 - 34.36).abs() < 0.01);
    assert_eq!(networks[0]["failed"][1], Value::Null, "the job ends");
    let text = said(&asked);
    for words in [
        "24 may fail wherever they are; with one more ",
        "held back by leaf-spine links up of leaf 0",
        "0 may fail wherever they are; one more cuts a host off: NIC of host 0",
        "job ends",
        "34.36 s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let rows = said(&format!("{asked} --csv"));
    assert!(rows.starts_with("kind,size,dimension,target,failed,busbw_worst"), "{rows}");
    assert!(rows.lines().count() > 10, "{rows}");
}

/// Hashed connections are simulated, and say so.
#[test]
fn failures_are_simulated_under_ecmp() {
    let asked = "clos-2tier all_reduce --gpus 128 -b 1G --fail switch:spine --target 50%";
    let kind = json(asked)["kinds"][0].clone();
    assert_eq!(kind["method"]["is"], "simulated");
    let rows = kind["rows"].as_array().unwrap();
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    assert_eq!(first["failed"], 0);
    assert!(first["worst"].as_f64() > last["worst"].as_f64(), "{kind}");
    let text = said(asked);
    assert!(text.contains("medians of 5 hashes") && text.contains("95 % intervals"), "{text}");
    let none = said("clos-2tier all_reduce --gpus 128 -b 1G --fail link --target 9999");
    assert!(none.contains("none may fail: the whole fabric misses the target"), "{none}");
}

/// Eight senders of 400 Gb/s, windows of 400 KB: by hand 2.8 MB in the queue after 8 us.
#[test]
fn incast_by_hand() {
    let asked = "incast --senders 8 --rate 400G --round-trip 8us";
    let report = json(asked);
    assert_eq!(report["share_gbps"], 50.0);
    assert_eq!(
        (&report["queue"]["peak"], &report["queue"]["peak_us"]),
        (&2.8e6.into(), &8.0.into())
    );
    let text = said(&format!("{asked} -b 100K --buffer 1.4MB"));
    assert!(text.contains("100 KiB of each have arrived after 20.4 us"), "{text}");
    assert!(text.contains("buffer of 1.4 MB: it suffices"), "{text}");
    let text = said(&format!("{asked} --buffer 1.4MB"));
    assert!(
        text.contains("full after 4.0 us") && text.contains("the queue of 4 senders fits"),
        "{text}"
    );
    let text = said(&format!(
        "{asked} --window none --buffer 165.2MB --ports 64 --classes 2 --cable 100m"
    ));
    assert!(
        text.contains("PFC: pauses every sender after") && text.contains("87.5 % of the time"),
        "{text}"
    );
    let alone = json("incast --senders 1 --rate 400G --round-trip 8us");
    assert_eq!(alone["queue"]["peak"], 0.0);
}

#[test]
fn nonsense_is_refused_with_a_sentence() {
    for (line, words) in [
        ("clos-2tier all_reduce --target 90%", "--fail"),
        ("clos-2tier all_reduce --fail link --target 0", "no busbw above 0"),
        ("clos-2tier all_reduce --fail link --target 101%", "no share to 100 %"),
        ("clos-2tier all_reduce --fail link*2 --target 90% -b 1G", "say link"),
        ("clos-2tier all_reduce --fail link --target 90% -b 1M -e 1G", "of one size"),
        ("clos-2tier all_reduce --fail switch:core --target 90%", "there is no tier `core`"),
        ("clos-3tier all_reduce --fail link --target 90% -b 1G", "write routing = \"spray\""),
        (
            "lossless --rate 400G --round-trip 9us --target 90% --fail link",
            "is of a collective on a fabric file",
        ),
        ("loss --rate 400G --round-trip 9us --svg x.svg", "--svg is of a collective"),
        ("incast --rate 400G --round-trip 9us", "--senders"),
        ("incast --senders 8 --rate 400G", "--round-trip"),
        ("incast --senders 8 --rate 400G --round-trip 9us --cable 3m", "--buffer"),
        ("incast --senders 8 --rate 400G --round-trip 9us --ports 64", "--ports is of PFC"),
        (
            "incast --senders 8 --rate 400G --round-trip 9us --ports 8 --cable 3m --buffer 1GB",
            "have 9 ports",
        ),
        (
            "incast --senders 8 --rate 800G --round-trip 9us --cable 3m --buffer 1GB",
            "not known here",
        ),
        ("incast --senders 8 --rate 400G --round-trip 9us -b 1M -e 2M", "-e is of a collective"),
        ("incast --senders 8 --rate 400G --round-trip 9us --drop 1%", "--drop is of loss"),
        (
            "--machine dgx-h100 all_reduce --svg /nowhere/at/all.svg",
            "cannot write /nowhere/at/all.svg",
        ),
    ] {
        let output = plan(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(words), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}
