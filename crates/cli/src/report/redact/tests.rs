//! Nothing that names a host, a user or a device is left, wherever it stood.

use model::{
    measurement::{Device, Form, Half, Known as Said, Measurement, Row, Source},
    pairs::{Pairs, Unit},
};
use proptest::prelude::*;

use super::*;
use crate::{
    explain::Hardware,
    report::{page, report},
};

/// Names and addresses of a cluster.
#[derive(Debug, Clone)]
struct Cluster {
    host: String,
    other: String,
    domain: String,
    user: String,
    v4: String,
    v6: String,
    mac: String,
    guid: String,
    uuid: String,
    serial: String,
}

impl Cluster {
    /// Everything that must not be left. Of a name without digits a longer word may hold the letters.
    fn secrets(&self) -> [&str; 10] {
        let Cluster { host, other, domain, user, v4, v6, mac, guid, uuid, serial } = self;
        [host, other, domain, user, v4, v6, mac, guid, uuid, serial].map(String::as_str)
    }

    /// Texts as launchers, NCCL and drivers print them.
    fn texts(&self) -> Vec<String> {
        let Cluster { host, other, domain, user, v4, v6, mac, guid, uuid, serial } = self;
        vec![
            format!(
                "{host}:1234:1299 [3] NCCL WARN Net : Connect to {v4}<29441> failed : Connection refused"
            ),
            format!("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:{v4}<0> and eth1:{v6}%eth1<0>"),
            format!(
                "[{other}:99] mpirun: rank 3 ({host}.{domain}) lost; GPU-{uuid} serial number: {serial}"
            ),
            format!(
                "port GUID {guid}, link/ether {mac} brd ff:ff:ff:ff:ff:ff, gid fe80::{}",
                &guid[2..6]
            ),
            format!("cannot open /home/{user}/run_{host}_2.log: permission denied for {user}"),
            format!("ssh {user}@{other}.{domain} nvidia-smi -L"),
        ]
    }

    fn measurement(&self) -> Measurement {
        let Cluster { host, other, user, v4, uuid, .. } = self;
        let device = |rank: usize, host: &str| Device {
            group: None,
            rank,
            host: host.to_owned(),
            device: 0,
            address: "0000:1b:00".to_owned(),
            name: "NVIDIA H200".to_owned(),
        };
        let half =
            Half { time_us: Some(10.0), busbw: Some(1.0), algbw: Some(1.0), ..Half::default() };
        Measurement {
            source: Source {
                name: format!("/home/{user}/logs/{host}-nccl.log"),
                line: 1,
                form: Form::Record,
                version: Some("0.1.0".to_owned()),
            },
            ranks: Some(Said::said(2)),
            hosts: Some(2),
            devices: vec![device(0, host)],
            command: Some(format!(
                "mpirun -H {host}:1,{other}:1 -x NCCL_SOCKET_IFNAME=eth0 /home/{user}/bin/busbw all_reduce -w 5"
            )),
            environment: [
                ("NCCL_COMM_ID", format!("{v4}:4444")),
                ("CUDA_VISIBLE_DEVICES", format!("GPU-{uuid}")),
                ("NCCL_TOPO_FILE", format!("/home/{user}/topo-{other}.xml")),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            rows: vec![Row { size: 8, out_of_place: Some(half), ..Row::default() }],
            errors: self.texts(),
            ..Measurement::default()
        }
    }

    fn sources(&self) -> Sources {
        let Cluster { host, other, .. } = self;
        let pairs = Pairs {
            pairs_schema: 1,
            what: Some(format!("from {host}")),
            started: None,
            command: None,
            labels: vec![format!("{host} gpu 0"), format!("{other} gpu 0")],
            size: 8,
            unit: Unit::GigabytesPerSecond,
            values: vec![vec![None, Some(1.0)], vec![Some(2.0), None]],
        };
        Sources { runs: vec![self.measurement()], pairs: vec![pairs], ..Sources::default() }
    }
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let names = (
        "[zqxj][a-z]{2,5}[-]?[0-9]{1,4}",
        "[wvk][zqx][a-z]{2,5}[0-9]{1,4}",
        "zz[a-z]{4,8}",
        "[qx]z[a-z]{3,6}",
    );
    let addresses = (
        (11..=250_u8, 0..=255_u8, 0..=255_u8, 1..=254_u8),
        proptest::array::uniform8(1..=0xffff_u16),
        proptest::array::uniform6(0..=255_u8),
        0x1000_0000_0000_0000..u64::MAX,
        proptest::array::uniform16(0..=255_u8),
        "[0-9]{13}",
    );
    (names, addresses).prop_map(
        |((host, other, domain, user), (v4, v6, mac, guid, uuid, serial))| {
            let hex =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
            let uuid = hex(&uuid).concat();
            let part = |from: usize, to: usize| uuid.get(from..to).unwrap_or_default().to_owned();
            Cluster {
                host,
                other,
                domain: format!("{domain}.example.com"),
                user,
                // Loopback is the same everywhere, and stays.
                v4: format!("{}.{}.{}.{}", if v4.0 == 127 { 10 } else { v4.0 }, v4.1, v4.2, v4.3),
                v6: v6.map(|part| format!("{part:x}")).join(":"),
                mac: hex(&mac).join(":"),
                guid: format!("0x{guid:016x}"),
                uuid: [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"),
                serial,
            }
        },
    )
}

fn redacted_report(cluster: &Cluster, title: &str) -> Report {
    let sources = cluster.sources();
    let known = Known::of(&sources);
    let whole = report(sources, &Hardware::default(), Some(title.to_owned()));
    redacted(whole, &known).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_left(cluster in cluster()) {
        let title = format!("{} of {}", cluster.v4, cluster.host);
        let report = redacted_report(&cluster, &title);
        let data = serde_json::to_string(&report).unwrap().to_lowercase();
        let text = page(&report).unwrap();
        // What comes after the data is the page's own.
        let (text, _) = text.split_once("id=\"data\">").unwrap();
        let (_, text) = text.split_once("</head>").unwrap();
        for secret in cluster.secrets() {
            prop_assert!(!data.contains(&secret.to_lowercase()), "{secret} in {data}");
            prop_assert!(!text.to_lowercase().contains(&secret.to_lowercase()), "{secret} in {text}");
        }
        prop_assert!(report.redacted);
    }
}

fn example() -> Cluster {
    Cluster {
        host: "node-17".to_owned(),
        other: "dgx2".to_owned(),
        domain: "hpc.example.com".to_owned(),
        user: "alice".to_owned(),
        v4: "10.20.30.40".to_owned(),
        v6: "2001:db8:1:2:3:4:5:6".to_owned(),
        mac: "0c:42:a1:00:11:22".to_owned(),
        guid: "0x0c42a10300112233".to_owned(),
        uuid: "8932f937-d72c-4106-c12f-20bd9faed9f6".to_owned(),
        serial: "1650522012345".to_owned(),
    }
}

#[test]
fn the_same_word_each_time_and_the_rest_as_it_was() {
    let report = redacted_report(&example(), "node-17 and its neighbour");
    assert_eq!(report.title, "host-1 and its neighbour");
    let [run] = report.runs.as_slice() else { panic!("one run") };
    assert_eq!(run.source, "host-1-nccl.log");
    insta::assert_snapshot!(
        [run.errors.join("\n"), run.command.clone().unwrap_or_default()].join("\n")
    );
    assert_eq!(report.pairs[0].labels, ["host-1 gpu 0", "host-2 gpu 0"]);
    assert_eq!(run.devices[0].address, "0000:1b:00");
}

#[test]
fn figures_versions_and_names_of_parts_stay() {
    let names = Names::default();
    let mut words = Words::new(&names).unwrap();
    for text in [
        "371.42 GB/s at 8 GiB",
        "NCCL 2.28.9+cuda13.0",
        "driver 570.86.10",
        "0000:1b:00.0 and 18:00.0 at 12:34:56",
        "[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB",
        "127.0.0.1 and ::1",
        "libnccl.so.2, std::vector, net.cc:1234",
        "-w 5 -H",
        "4294967296 B in 8589934592 ns",
    ] {
        let mut learnt = Names::default();
        learnt.text(text);
        assert!(learnt.replacements().is_empty(), "{text}: {:?}", learnt.replacements());
        assert_eq!(words.replaced(text), text);
    }
}

#[test]
fn lists_of_hosts() {
    let mut names = Names::default();
    names.text("srun --nodelist=gpu[008-010,012],login3 -w 4 busbw");
    let words = Words::new(&names).unwrap();
    let mut words = words;
    let told = words.replaced("gpu009 gpu012 gpu011 login3 gpu[008-010,012]");
    assert!(told.contains("gpu011"), "{told}");
    for name in ["gpu009", "gpu012", "login3", "gpu[008"] {
        assert!(!told.contains(name), "{told}");
    }
}
