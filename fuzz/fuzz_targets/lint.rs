//! Scripts, YAML, Dockerfiles and environments: what `busbw lint` says of any text at all.
//! Not whether a finding is right; the rules' own tests say that.
#![no_main]

use std::collections::HashSet;

use busbw_core::{
    finding::{Finding, Severity},
    nccl_version::Version,
};
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_lint::{Options, lint_environment, lint_text, recognised};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

const RELEASES: [Option<Version>; 4] =
    [None, Some(Version::new(2, 4, 8)), Some(Version::new(2, 20, 3)), Some(Version::new(2, 28, 9))];

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    share::count(recognised(&text) > 0);
    // The release is no part of the text; its length stands for a choice.
    let options = Options { nccl_version: RELEASES[text.len() % RELEASES.len()] };
    let found = lint_text(&text, &options);
    check(&found);
    let lines = text.split('\n').count();
    for finding in &found {
        let line = finding.line().unwrap_or(0) as usize;
        assert!((1..=lines).contains(&line), "{finding}: the text has {lines} lines");
    }
    // Hash tables of another seed must not change what is said, or in which order.
    assert_eq!(lint_text(&text, &options), found);
    moves_with_its_line(&text, &options, &found);
    as_environment(&text, &options);
});

/// What every list of findings keeps to.
fn check(found: &[Finding]) {
    assert!(found.is_sorted_by_key(Finding::line));
    let mut told = HashSet::new();
    for finding in found {
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        assert!(!finding.cause.is_empty() && !remedy.is_empty(), "{finding:?}");
        assert!(finding.variable().is_some_and(|name| !name.is_empty()), "{finding:?}");
        assert!(finding.to_string().contains(&finding.cause));
        let json = serde_json::to_string(finding).expect("a finding is JSON");
        assert!(told.insert(json), "told twice: {finding}");
    }
}

/// An empty line in front moves every finding down by one, and changes nothing else.
fn moves_with_its_line(text: &str, options: &Options, found: &[Finding]) {
    // Whether a text is YAML is decided by its first 200 lines.
    if text.lines().count() >= 200 {
        return;
    }
    type Told<'f> = (Option<u32>, &'f str, Severity, Option<&'f str>, Option<&'f str>, &'f str);
    fn told(findings: &[Finding], down: u32) -> Vec<Told<'_>> {
        let mut told: Vec<Told<'_>> = findings
            .iter()
            .map(|f| {
                // This cause names the line of another run.
                let cause = if f.rule == "unequal-runs" { "" } else { f.cause.as_str() };
                let line = f.line().map(|line| line + down);
                let value = f.place.as_ref().and_then(|place| place.value.as_deref());
                (line, &*f.rule, f.severity, f.variable(), value, cause)
            })
            .collect();
        told.sort_unstable();
        told
    }
    let lower = lint_text(&format!("\n{text}"), options);
    assert_eq!(told(found, 1), told(&lower, 0));
}

/// The same settings as a process would have them.
fn as_environment(text: &str, options: &Options) {
    let vars: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let found = lint_environment(vars.iter().copied(), options);
    check(&found);
    for finding in &found {
        assert_eq!(finding.line(), None);
        assert!(vars.iter().any(|(name, _)| Some(*name) == finding.variable()), "{finding}");
    }
    assert_eq!(lint_environment(vars.iter().copied(), options), found);
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let text = match draw.below(16) {
        0..=4 => fresh(&mut draw).join("\n"),
        5..=10 => {
            let text = String::from_utf8_lossy(&data[..size]);
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            for _ in 0..=draw.below(3) {
                edit(&mut draw, &mut lines, |draw, _| line(draw));
            }
            lines.join("\n")
        }
        11..=14 => {
            let mut text = String::from_utf8_lossy(&data[..size]).into_owned();
            for _ in 0..=draw.below(3) {
                splice(&mut draw, &mut text);
            }
            text
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(text.as_bytes(), data, max_size)
});

/// A text of a few lines of one kind.
fn fresh(draw: &mut Draw) -> Vec<String> {
    let kind = draw.below(6);
    let mut lines: Vec<String> = match kind {
        0 => vec!["apiVersion: v1".to_owned(), "env:".to_owned()],
        1 => vec!["FROM x".to_owned()],
        2 => vec!["PATH=/bin".to_owned(), "HOME=/root".to_owned(), "A=1".to_owned()],
        _ => Vec::new(),
    };
    for _ in 0..=draw.below(6) {
        lines.push(match kind {
            0 => yaml(draw),
            1 => format!("ENV {}{}{}", name(draw), draw.pick(&["=", " "]), value(draw)),
            2 => format!("{}={}", name(draw), value(draw)),
            _ => line(draw),
        });
    }
    lines.push(String::new());
    lines
}

fn yaml(draw: &mut Draw) -> String {
    let (name, value) = (name(draw), value(draw));
    match draw.below(5) {
        0 => format!("  - name: {name}\n    value: \"{value}\""),
        1 => format!("  - {{name: {name}, value: '{value}'}}"),
        2 => format!("  {name}: {value}"),
        3 => format!("  - name: {name}\n    valueFrom:\n      fieldRef: x"),
        _ => format!("    command: [\"sh\", \"-c\", \"{name}={value} ./all_reduce_perf -n 5\"]"),
    }
}

/// One line of a script.
fn line(draw: &mut Draw) -> String {
    let (name, value) = (name(draw), value(draw));
    match draw.below(14) {
        0 | 1 => format!("export {name}={value}"),
        2 => format!("{name}={value}"),
        3 => format!("{name}={value} {}", launch(draw)),
        4 | 5 => launch(draw),
        6 => format!("{}; {}", launch(draw), launch(draw)),
        7 => format!("#SBATCH --export=ALL,{name}={value}"),
        8 => format!("echo 'export {name}={value}' >> ~/.bashrc"),
        9 => format!("setenv {name} {value}"),
        10 => format!("for n in 1 2; do {}; done", launch(draw)),
        11 => format!("ssh host \"{name}={value} {}\"", launch(draw)),
        12 => format!("{}={value}", draw.pick(&SHELL)),
        _ => yaml(draw),
    }
}

/// A launcher, or none, with settings and a test.
fn launch(draw: &mut Draw) -> String {
    let mut text = draw
        .pick(&["mpirun -np 8", "mpiexec -n 4", "srun -N 2", "/usr/bin/mpirun -H $HOSTS", "time"])
        .to_owned();
    for _ in 0..draw.below(4) {
        let (name, value) = (name(draw), value(draw));
        text.push_str(&match draw.below(6) {
            0 | 1 => format!(" -x {name}={value}"),
            2 => format!(" -x {name}"),
            3 => format!(" --export=ALL,{name}={value},{name}"),
            4 => format!(" -genv {name} {value}"),
            _ => format!(" -np ${}", draw.pick(&SHELL)),
        });
        if draw.one_in(4) {
            text.push_str(" \\\n ");
        }
    }
    if draw.one_in(3) {
        return text + " ./run";
    }
    text.push_str(draw.pick(&[" all_reduce_perf", " ./build/alltoall_perf", " x_perf"]));
    for _ in 0..draw.below(5) {
        let option = draw.pick(&[
            " -b 8",
            " -e 8G",
            " -e1.5M",
            " -f 2",
            " -f 1",
            " -i 100",
            " -i 1048576",
            " -c 1",
            " -c 50",
            " -n 5",
            " -n $N",
            " --iters=100",
            " --check",
            " -g 8",
            " > log",
            " 2>&1",
            " -e 1e3",
            " -x 1",
            " --",
            " -n 99999999999999999999",
        ]);
        text.push_str(option);
    }
    text
}

const SHELL: [&str; 10] =
    ["HOSTS", "HOSTFILE", "HOSTFLE", "NP", "N", "RANKS", "hosts", "SLURM_NTASKS", "PATH", "np_x"];

fn name(draw: &mut Draw) -> &'static str {
    const NAMES: [&str; 46] = [
        "NCCL_IB_HCA",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "NCCL_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "UCX_NET_DEVICES",
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_NTHREADS",
        "NCCL_BUFFSIZE",
        "NCCL_IB_TC",
        "NCCL_IB_DISABLE",
        "NCCL_NET",
        "NCCL_P2P_LEVEL",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_CTAS",
        "NCCL_MAX_CTAS",
        "NCCL_MIN_P2P_NCHANNELS",
        "NCCL_MAX_P2P_NCHANNELS",
        "NCCL_SOCKET_NTHREADS",
        "NCCL_NSOCKS_PERTHREAD",
        "NCCL_SOCKET_FAMILY",
        "NCCL_IMEX_ENABLE",
        "NCCL_MNNVL",
        "NCCL_TREE_THRESHOLD",
        "NCCL_NVLS_ENABLE",
        "NCCL_TESTS_SPLIT",
        "NCCL_OFI_X",
        "NCCL_VERSION",
        "NCCL_WARP_DRIVE",
        "NCCL_GDR_LEVEL",
        "NCCL_DISABLE_IB",
        "NCLL_DEBUG",
        "NCCL-IB-HCA",
        "nccl_debug",
        "nccl_ib_hca",
        "UCX_TLS",
        "UCX_IB_REG_METHODS",
        "UXC_TLS",
        "UCX_NET_DEVICE",
        "FOO",
    ];
    draw.pick(&NAMES)
}

fn value(draw: &mut Draw) -> String {
    const VALUES: [&str; 56] = [
        "mlx5_1",
        "=mlx5_0,mlx5_1",
        "mlx5_0:1,mlx5_2:1",
        "^mlx5_1",
        "mlx5_",
        "^=mlx5_3:1",
        "eth0",
        "eth1",
        "^lo,docker0",
        "all",
        "mlx5_[0-3]",
        "\"mlx5_0, mlx5_1\"",
        "ens1f1",
        "INFO",
        "IFNO",
        "info",
        "INIT,NET",
        "^INIT,NETS",
        "Ring",
        "ring,tree;allreduce:^tree",
        "ring;tree",
        "LL128",
        "^LL",
        "Simple",
        "0",
        "1",
        "2",
        "-2",
        "32",
        "16",
        "64",
        "106",
        "300",
        "100",
        "8388608",
        "8M",
        "0x10",
        "010",
        "08",
        "99999999999999999999",
        "true",
        "off",
        "SYS",
        "NODE",
        "sys",
        "5",
        "AF_INET",
        "af_inet",
        "Socket",
        "IB",
        "$HOSTS",
        "${N:-8}",
        "${A:=1}",
        "“INFO”",
        "\"'1'\"",
        "$(nproc; x)",
    ];
    if draw.one_in(8) {
        return draw.number(40).to_string();
    }
    draw.pick(&VALUES).to_owned()
}

/// Puts a piece of a shell's or YAML's grammar somewhere into the text, or takes one character out.
fn splice(draw: &mut Draw, text: &mut String) {
    const PIECES: [&str; 46] = [
        "=", "==", "+=", "^", ":", ",", " ", "\n", "\n\n", "\\\n", "\\\r\n", "\r\n", "\\", "\"",
        "'", "“", "’", "–x", "—", "$", "${", "}", "$(", ")", "`", ";", "|", "&", "2>&1", "#",
        "#SBATCH ", "- name: ", "value: ", "{", "é", "\0", "\u{feff}", "export ", "echo ",
        "source x", "kind:", "[", "]", "-x ", "{{ .x }}", "\t",
    ];
    let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let at = draw.pick(&cuts);
    if draw.one_in(3) && at < text.len() {
        text.remove(at);
    } else if draw.one_in(3) {
        let name = name(draw);
        text.insert_str(at, draw.pick(&[name, "_perf", "mpirun "]));
    } else {
        text.insert_str(at, draw.pick(&PIECES));
    }
}
