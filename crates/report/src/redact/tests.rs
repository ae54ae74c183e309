//! Nothing that names a host, a user or a device is left, wherever it stood.

use busbw_core::{
    DataType,
    pairs::{Pairs, Unit},
    record::Figures,
};
use busbw_logs::measurement::{Device, Form, Known, Measurement, Row, Source};
use proptest::prelude::*;

use super::*;
use crate::{page, report};
use busbw_analysis::{
    check::{Check, CheckLine, CheckReport, Decision, SCHEMA},
    explain::Hardware,
};
use busbw_watch_file::WatchFile;

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
        let half = Figures {
            time_us: Some(10.0),
            busbw: Some(1.0),
            algbw: Some(1.0),
            ..Figures::default()
        };
        Measurement {
            source: Source {
                name: format!("/home/{user}/logs/{host}-nccl.log"),
                line: 1,
                form: Form::Record,
                version: Some("0.1.0".to_owned()),
            },
            ranks: Some(Known::stated(2)),
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
            verdict: None,
        };
        Sources {
            runs: vec![self.measurement()],
            pairs: vec![pairs],
            checks: vec![self.check()],
            watched: vec![self.watched(0, host), self.watched(1, other)],
            ..Sources::default()
        }
    }

    /// A check that names both hosts, each in another way.
    fn check(&self) -> CheckReport {
        let Cluster { host, other, user, .. } = self;
        let fault =
            |text: String, subject| CheckLine::fault(Check::Settings, 2, text).of(Some(subject));
        let link = Subject::Link {
            from: format!("{host} gpu 1"),
            to: format!("{other} gpu 2"),
            both: false,
        };
        CheckReport {
            check_schema: SCHEMA,
            busbw: "0.1.0".to_owned(),
            started: "2026-11-25 02:00:00".to_owned(),
            started_unix: 0,
            args: ["busbw", "check", "--record", &format!("/home/{user}/good")]
                .map(str::to_owned)
                .to_vec(),
            hosts: vec![host.clone(), other.clone()],
            ranks: Some(2),
            within_s: 60.0,
            took_s: 31.4,
            lines: vec![
                fault("MTU 1500 where the other has 9000".to_owned(), Subject::host(host)),
                fault(format!("slower than from {host}"), link),
            ],
            decision: Decision::Blocked,
            reason: format!("settings: {host}: MTU 1500"),
        }
    }

    /// The file of a rank of two, of which the second one is late.
    fn watched(&self, rank: u32, host: &str) -> (String, WatchFile) {
        let Cluster { other, domain, .. } = self;
        let duration = if rank == 1 { 200_000 } else { 1_200_000 };
        let calls: Vec<String> =
            (0..40).map(|call| format!("[{call},{0},{0},{duration}]", call * 5_000_000)).collect();
        let text = format!(
            "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"0\",\"host\":\"{host}\",\"pid\":{rank},\"job\":\"4711.{other}.{domain}\",\"began\":5,\"interface\":6,\"mask\":70}}\n\
             {{\"kind\":\"communicator\",\"number\":0,\"id\":\"0xab\",\"nodes\":2,\"ranks\":2,\"rank\":{rank},\"at\":1}}\n\
             {{\"kind\":\"calls\",\"communicator\":0,\"operation\":\"AllReduce\",\"count\":262144,\"datatype\":\"ncclFloat32\",\"size\":1048576,\"channels\":2,\"calls\":[{}]}}\n",
            calls.join(",")
        );
        (format!("{host}.{rank}.jsonl"), WatchFile::parse(text.as_bytes()).unwrap())
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
    let known = KnownNames::of(&sources);
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

/// Hosts of a check and of a watched job are the same words as everywhere; what is wrong with them stays.
#[test]
fn checks_and_jobs_name_nobody() {
    let report = redacted_report(&example(), "a page");
    let [check] = report.checks.as_slice() else { panic!("one check") };
    assert_eq!(check.hosts, ["host-1", "host-2"]);
    assert_eq!(check.lines[0].who.as_deref(), Some("host-1"));
    assert_eq!(check.lines[1].who.as_deref(), Some("host-1 gpu 1 -> host-2 gpu 2"));
    assert_eq!(check.lines[1].status, "fail");
    let [job] = report.jobs.as_slice() else { panic!("one job") };
    assert_eq!(job.subject, "job job-1, 2 processes on 2 hosts, 1 communicator, 200 ms of calls");
    assert!(job.findings[0].cause.starts_with("Rank 1 (host-2, pid 1) enters calls"), "{job:?}");
    assert_eq!(
        (job.latest[0].host.as_str(), job.lateness[0].name.as_str()),
        ("host-2", "host-2, pid 1")
    );
}

/// A data type is not a name, not even where a user is called like it.
#[test]
fn types_stay() {
    let mut sources = Cluster { user: "float".to_owned(), ..example() }.sources();
    sources.runs[0].rows[0].datatype = Some(DataType::Float);
    let known = KnownNames::of(&sources);
    let whole = report(sources, &Hardware::default(), Some("float".to_owned()));
    let redacted = redacted(whole, &known).unwrap();
    assert_eq!(redacted.title, "user-1");
    assert_eq!(redacted.series[0].rows[0].datatype, Some(DataType::Float));
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
    assert_eq!(report.pairs[0].pairs.labels, ["host-1 gpu 0", "host-2 gpu 0"]);
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
        "mpirun --map-by node:PE=8 --bind-to core -x NCCL_DEBUG=INFO ./all_reduce_perf",
        "ring on 8 ranks of NVIDIA H200 with host memory, user buffers registered",
        "a serial port 0 and serial execution",
        "rank 3: Test CUDA failure common.cu:892 'invalid argument'",
        "connect to the server failed on H100 over mlx5_0:1",
        "/opt/nccl-tests/build/all_reduce_perf /usr/lib/x86_64-linux-gnu/libnccl.so.2 /dev/shm/nccl",
        "ssh is needed between nodes",
        "out of place 12.5 GB/s on node 3, from 8 to 1024 bytes",
    ] {
        let mut learnt = Names::default();
        learnt.text(text);
        assert!(learnt.replacements().is_empty(), "{text}: {:?}", learnt.replacements());
        assert_eq!(words.replaced(text), text);
    }
}

/// What each of these texts names is gone, though nothing else says that it is a name.
#[test]
fn names_in_any_place_that_is_made_for_them() {
    let mut left = Vec::new();
    for (text, secrets) in [
        ("cd /users/alice && ./all_reduce_perf -b 8", &["alice"][..]),
        ("/scratch/alice/nccl-tests/build/all_reduce_perf", &["alice"]),
        ("/lustre/home/alice/x.log: permission denied for alice", &["alice"]),
        ("/mnt/data/alice/run.sh, owned by alice", &["alice"]),
        ("/homes/a/alice/bin/busbw", &["alice"]),
        ("/lustre/orion/secretlab/scratch/alice/x.log", &["alice", "secretlab"]),
        ("/fsx/alice: quota exceeded", &["alice"]),
        ("file:///gpfs/work2/alice/topo.xml", &["alice"]),
        ("source ~alice/env.sh", &["alice"]),
        ("ssh -p 2222 -l alice login-b uptime", &["alice", "login-b"]),
        ("mpirun --mca plm_rsh_args \"-p 2222 -l alice\" all_reduce_perf", &["alice"]),
        ("pdsh -w alpha,beta -l alice uptime", &["alice", "alpha", "beta"]),
        ("sudo -u alice mpirun all_reduce_perf", &["alice"]),
        ("docker run --user alice image", &["alice"]),
        ("User=alice UserId=bobby(1001)", &["alice", "bobby"]),
        ("uid=1000(alice) gid=1000(alicegroup)", &["(alice", "alicegroup"]),
        ("rsync -a x alice@10.1.2.3:/tmp", &["alice", "10.1.2.3"]),
        ("[alice@alpha ~]$ ./all_reduce_perf", &["alice", "alpha"]),
        ("/tmp/ompi.alpha.1000/pid.7, openmpi-sessions-alice@alpha_0", &["alice", "alpha"]),
        ("[prterun-alpha-99@1,2] lost", &["alpha"]),
        ("tried ssh alpha before; alpha does not answer", &["alpha"]),
        ("ssh to alpha failed", &["alpha"]),
        ("ssh: connect to host alpha port 22: Connection refused", &["alpha"]),
        ("scp -P 22 topo.xml bob@alpha:topo.xml", &["bob", "alpha"]),
        ("srun: error: gn07: task 3: Killed", &["gn07"]),
        ("*** STEP 1.0 ON alpha CANCELLED AT 2026-11-20", &["alpha"]),
        ("process rank 1 with PID 0 on node alpha exited on signal 9", &["alpha"]),
        ("gn07: Permission denied", &["gn07"]),
        ("torchrun --rdzv_endpoint=alpha:29500 --master_addr beta x.py", &["alpha", "beta"]),
        ("connecting to tcp://alpha:29500", &["alpha"]),
        ("PMIX_HOSTNAME=alpha", &["alpha"]),
        ("{\"hostname\":\"alpha\",\"user\":\"alice\"}", &["alpha", "alice"]),
        ("Linux alpha 5.15.0-1 x86_64", &["alpha"]),
        ("ip-10-1-2-34 is slow", &["ip-10-1-2-34"]),
        ("GPU 3 has sn=1650522012345", &["1650522012345"]),
        ("GPU S/N 16A5, chassis S/N: MT2X", &["MT2X"]),
        ("serial: AB12CD34 and again AB12CD34", &["AB12CD34"]),
        ("Serial Number : 1650522012345; lost 1650522012345", &["1650522012345"]),
        ("<serial>1650522012345</serial>", &["1650522012345"]),
        ("board_serial=\"X-9912\"", &["X-9912"]),
        ("serial numbers 1650522012345, 1650522012346 and 1650522012347", &["16505220123"]),
        ("serial number is 99AA77", &["99AA77"]),
        ("node_guid: 5000000000000001", &["5000000000000001"]),
        ("enx0c42a1001122 is down", &["0c42a1001122"]),
        ("gid fe80:0000:0000:0000:0e42:a1ff:fe00:1122", &["0e42", "1122", "fe80"]),
    ] {
        let mut names = Names::default();
        names.text(text);
        let told = Words::new(&names).unwrap().replaced(text);
        for secret in secrets {
            if told.contains(secret) {
                left.push(format!("{secret} in {told}, of {text}"));
            }
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// Paths keep what is the same everywhere, and a person's folders keep apart.
#[test]
fn paths_stay_readable() {
    let mut names = Names::default();
    let text = "/lustre/scratch/alice/blueline/nccl-tests/build/all_reduce_perf and /usr/local/cuda-13.0/lib64/libnccl.so.2 and /mnt/data/bob";
    names.text(text);
    assert_eq!(
        Words::new(&names).unwrap().replaced(text),
        "/lustre/scratch/user-1/folder-1/nccl-tests/build/all_reduce_perf and /usr/local/cuda-13.0/lib64/libnccl.so.2 and /mnt/data/user-2"
    );
}

/// A log's lines that are in no measurement still say who its names are.
#[test]
fn lines_that_are_not_kept_name_hosts_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.log");
    std::fs::write(&path, "\u{1b}[0malpha:12:12 [0] NCCL INFO Bootstrap : Using eth0\n8 2 float\n")
        .unwrap();
    let mut known = KnownNames::default();
    known.learn(&path);
    assert!(known.0.replacements().contains_key("alpha"));
}

/// NCCL's own diagnostics name hosts before their lines and within them.
#[test]
fn hosts_of_diagnostics_reports() {
    let mut names = Names::default();
    for line in [
        "alpha:4075 NCCL DIAG === NCCL Diagnostics ===",
        "NCCL DIAG [INFO] net bw: same-nic rank 3 (beta): 265.1 Gbit/s, >30% off median 391.5 Gbit/s in comm 0x1",
        "NCCL DIAG [INFO] net bw: mode=same-nic server_rank=0 server_host=gamma server_device=mlx5_0 client_rank=8 client_host=delta client_device=mlx5_1 tool run timed out in comm 0x1",
    ] {
        names.text(line);
    }
    let replaced = names.replacements();
    for host in ["alpha", "beta", "gamma", "delta"] {
        assert!(replaced.contains_key(host), "{host}");
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
