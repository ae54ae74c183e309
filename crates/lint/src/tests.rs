//! The whole module from outside: published mistakes, settings that are right, and any text at all.
//! Single rules are tested beside themselves.

use std::fmt::Write as _;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use busbw_core::{
    finding::{Finding, Severity},
    nccl_version::Version,
};

use super::{Options, lint_environment, lint_text};

fn rules(text: &str) -> Vec<(String, u32)> {
    let found = lint_text(text, &Options::default());
    found.iter().map(|f| (f.rule.to_string(), f.line().unwrap_or(0))).collect()
}

fn environment(vars: &[(&str, &str)]) -> Vec<Finding> {
    lint_environment(vars.iter().copied(), &Options::default())
}

/// One published script holds most of the published mistakes.
#[test]
fn published_mistakes_are_all_found() {
    let text = "\
#!/bin/bash
HOSTS=\"a:8,b:8\"
export NCCL_IMEX_ENABLE=1
export NCCL_IB_HCA=mlx5_1,mlx5_2,mlx5_3
export UCX_NET_DEVICES=mlx5_1:1,mlx5_2:1
export NCCL_DEBUG=“INFO”
mpirun -np 16 -H $HOST \\
  -x NCCL_IB_HCA \\
  ./all_reduce_perf -b 8 -e 16G -f 2 -i 100 -c 1
mpirun -np 16 -H $HOSTS -x NCCL_IB_DISABLE=1 -x NCCL_SOCKET_IFNAME=eth0 ./all_reduce_perf -e 1G -n 10
";
    let found = rules(text);
    for want in [
        ("not-read", 3),
        ("prefix-match", 4),
        ("device-sets", 5),
        ("typography", 6),
        ("test-option", 9),
        ("unequal-runs", 10),
    ] {
        assert!(found.contains(&(want.0.to_owned(), want.1)), "{want:?} not in {found:?}");
    }
    let options = found.iter().filter(|(rule, _)| *rule == "test-option").count();
    assert_eq!(options, 2, "both -i 100 and -c 1");
}

#[test]
fn a_misspelt_variable_is_found_where_it_is_used() {
    let text = "HOSTLIST=a,b\nmpirun -np 2 -H ${HOSTLSIT} ./all_gather_perf\n";
    assert_eq!(rules(text), [("unset-variable".to_owned(), 2)]);
}

#[test]
fn a_right_script_is_silent() {
    let text = "\
#!/bin/bash
set -euo pipefail
NP=${1:-16}
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET
export NCCL_IB_HCA==mlx5_0,mlx5_1
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1
export UCX_TLS=rc,cuda_copy
for size in 1G 8G; do
  mpirun -np \"$NP\" --bind-to numa -x NCCL_DEBUG -x NCCL_IB_HCA -x LD_LIBRARY_PATH \\
    -x NCCL_ALGO=Ring ./all_reduce_perf -b 8 -e \"$size\" -f 2 -g 1 -n 20 2>&1 | tee log
done
";
    assert_eq!(lint_text(text, &Options { nccl_version: Some(Version::new(2, 28, 9)) }), []);
}

#[test]
fn settings_in_real_use_raise_no_alarm() {
    let sane: [&[(&str, &str)]; 25] = [
        &[],
        &[("PATH", "/bin"), ("HOME", "/root"), ("NAME", "x"), ("LS_COLORS", "“")],
        &[("NCCL_DEBUG", "INFO")],
        &[("NCCL_DEBUG", "warn"), ("NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p")],
        &[("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING")],
        &[("NCCL_IB_HCA", "=mlx5_0,mlx5_1"), ("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1")],
        &[("NCCL_IB_HCA", "mlx5"), ("NCCL_IB_GID_INDEX", "3"), ("NCCL_IB_TC", "106")],
        &[("NCCL_SOCKET_IFNAME", "^lo,docker0")],
        &[("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_IB_DISABLE", "1")],
        &[("NCCL_SOCKET_IFNAME", "eth0")],
        &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "^LL128")],
        &[("NCCL_ALGO", "allreduce:tree;broadcast:ring"), ("NCCL_PROTO", "Simple")],
        &[("NCCL_NET_PLUGIN", "none"), ("NCCL_TUNER_PLUGIN", "none"), ("NCCL_NET", "Socket")],
        &[("UCX_TLS", "rc,cuda_copy"), ("UCX_RNDV_THRESH", "8192"), ("UCX_IB_GID_INDEX", "3")],
        &[("UCX_TLS", "^openib"), ("UCX_LOG_LEVEL", "warn"), ("UCX_MEMTYPE_CACHE", "n")],
        &[("NCCL_TESTS_DEVICE", "0"), ("NCCL_TESTS_SPLIT", "MOD 2"), ("NCCL_TESTS_MIN_BW", "300")],
        &[("NCCL_TESTS_SPLIT_MASK", "7"), ("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/m.txt")],
        &[("NCCL_TUNER_CONFIG_FILE", "/etc/t.csv"), ("NCCL_TOPO_FILE", "/etc/topo.xml")],
        &[("NCCL_TUNER_PLUGIN", "/root/.cache/busbw/tuner/5c38/libnccl-tuner-busbw.so")],
        &[("NCCL_OFI_X", "1"), ("OFI_NCCL_PROTOCOL", "RDMA"), ("FI_PROVIDER", "efa")],
        &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1"), ("NCCL_FASTRAK_IFNAME", "eth1,eth2")],
        &[("RCCL_MSCCL_ENABLE", "0"), ("UCC_TLS", "cuda,ucp"), ("UCCL_NUM_ENGINES", "4")],
        &[("NCCL_VERSION", "2.21.5-1"), ("NCCL_HOME", "/opt/nccl"), ("UCX_DIR", "/opt/ucx")],
        &[
            ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("NCCL_CROSS_NIC", "1"),
        ],
        &[
            ("NCCL_NET_GDR_LEVEL", "SYS"),
            ("NCCL_P2P_LEVEL", "NVL"),
            ("NCCL_MIN_NCHANNELS", "16"),
            ("NCCL_MAX_NCHANNELS", "32"),
            ("NCCL_BUFFSIZE", "8388608"),
            ("NCCL_SOCKET_NTHREADS", "4"),
            ("NCCL_NSOCKS_PERTHREAD", "4"),
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ("NCCL_IB_PCI_RELAXED_ORDERING", "1"),
            ("NCCL_P2P_NET_CHUNKSIZE", "524288"),
            ("NCCL_CUMEM_ENABLE", "0"),
            ("NCCL_MNNVL_ENABLE", "2"),
        ],
    ];
    for vars in sane {
        assert_eq!(environment(vars), [], "{vars:?}");
    }
}

#[test]
fn an_environment_is_held_to_the_same_rules() {
    let found =
        environment(&[("NCCL_IMEX_ENABLE", "1"), ("NCCL_IB_TC", "300"), ("NCLL_DEBUG", "INFO")]);
    let rules: Vec<_> = found.iter().map(|f| &*f.rule).collect();
    assert_eq!(rules, ["unknown-variable", "value-range", "not-read"]);
    assert!(found.iter().all(|f| f.line().is_none()));
    assert!(found[0].severity == Severity::Error);
}

#[test]
fn kubernetes_and_docker_are_read() {
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: NCCL_IB_HCA\n      value: \"mlx5_1\"\n    - name: NCCL_DEBUG\n      value: INFOO\n";
    assert_eq!(rules(pod), [("prefix-match".to_owned(), 6), ("value-range".to_owned(), 8)]);
    assert_eq!(rules("FROM x\nENV NCCL_P2P_LEVEL=sys\n"), [("value-range".to_owned(), 2)]);
}

/// Seconds of this thread's processor time that reading a text takes, the least of three: what else the
/// machine does is not in it.
fn work(text: &str) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let read = |_| {
        let begun = now();
        lint_text(text, &Options::default());
        now() - begun
    };
    (0..3).map(read).fold(f64::INFINITY, f64::min)
}

/// A text eight times as long is about eight times as much work; it would be 64 times as much if the work
/// grew with the square.
#[test]
fn long_texts_are_read_in_linear_time() {
    let script = |lines: usize| {
        (0..lines).fold(String::new(), |mut text, i| {
            let _ = writeln!(
                text,
                "export NCCL_BOGUS_{i}=1; NCCL_IB_TC={i} mpirun -np $N{i} ./x_perf -i {i}"
            );
            text
        })
    };
    let devices = |count| "mlx5_77,".repeat(count);
    let texts: [&dyn Fn(usize) -> String; 6] = [
        &|n| script(2500 * n),
        &|n| "\"${((`“x".repeat(12_500 * n),
        &|n| format!("mpirun -x NCCL_IB_HCA={0} -x UCX_NET_DEVICES={0}9", devices(6250 * n)),
        &|n| "nccl_debug=1\nNCCL_IB_HCA=$x\n".repeat(2500 * n),
        &|n| "NCCL_IB_HCA=mlx5_1 ".repeat(6250 * n),
        &|n| "'\n".repeat(62_500 * n),
    ];
    for (number, text) in texts.iter().enumerate() {
        let (short, long) = (work(&text(1)), work(&text(8)));
        assert!(long < 32.0 * short, "text {number}: {long} s against {short} s");
    }
}

/// Pieces of the grammars, so that random texts get past the first byte.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "NCCL_IB_HCA",
        "NCLL_DEBUG",
        "UCX_NET_DEVICES",
        "=",
        "==",
        "^",
        "mlx5_1",
        ":",
        ",",
        " ",
        "\n",
        "\\\n",
        "\"",
        "'",
        "“",
        "–x",
        "$",
        "${",
        "}",
        "$(",
        ")",
        "mpirun ",
        "-x ",
        "--export=",
        "_perf ",
        "-i ",
        "-e ",
        "all_reduce_perf ",
        "- name: ",
        "value: ",
        "{",
        "é",
        "\0",
        "\r\n",
        "99999999999999999999",
        "-",
        "ENV ",
        "PATH=/b\n",
        "HOME=/r\n",
        "NCCL_ALGO=",
        ";",
        "#",
        "#SBATCH ",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC*|[\\s\\S]{0,200}") {
        lint_text(&text, &Options::default());
    }

    #[test]
    fn any_mix_of_the_grammars_is_survived(text in pieces()) {
        let options = Options { nccl_version: Some(Version::new(2, 20, 3)) };
        let lines = text.split('\n').count();
        for finding in lint_text(&text, &options) {
            prop_assert!(finding.line().is_some_and(|line| line >= 1 && line as usize <= lines));
            prop_assert!(!finding.cause.is_empty() && finding.remedy.is_some_and(|remedy| !remedy.is_empty()));
        }
    }

    #[test]
    fn any_environment_is_survived(name in "(NCCL|UCX|nccl|N)[_A-Z0-9-]{0,12}", value in "\\PC{0,40}") {
        environment(&[(name.as_str(), value.as_str())]);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        lint_text(&String::from_utf8_lossy(&bytes), &Options::default());
    }
}
