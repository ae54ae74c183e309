//! Damaged logs and topologies: 1,000 of each. Nothing panics, and lines of other programs between a healthy run's
//! lines accuse nobody.
//! Not the texts as people paste them (`busbw/tests/explain_cases`), and not coverage-guided (`fuzz`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use busbw_analysis::explain::{
    Explanation, Hardware, Verdict, explain, print_all, print_briefly, print_markdown,
};
use busbw_core::finding::Severity;
use busbw_hardware::topology::{
    Input, machine_of_matrix, machine_of_system, of_matrix, of_system, recognise,
};
use busbw_logs::import;

/// Mutations of each kind of file.
const MUTATIONS: usize = 1000;

/// Lines that other programs print into the same text, of healthy runs: application logs, progress, launchers,
/// container runtimes, the kernel, shells, prose.
const NOISE: &[&str] = &[
    "",
    "    ",
    "----------------------------------------------------------------",
    "2026-11-24 10:15:02,113 INFO trainer: step 1200 loss=2.1934 lr=3.0e-04 tokens/s=183204",
    "INFO:root:checkpoint written to /scratch/run-17/ckpt-1200 (41.3 GB in 12.8 s)",
    "[2026-11-24 10:15:02] nid001234: prolog done",
    "srun: job 84213 has been allocated resources",
    "+ hostname",
    "gpu-b12",
    "$ uptime",
    " 10:15:02 up 41 days,  3:02,  1 user,  load average: 8.01, 7.93, 7.60",
    "Warning: Permanently added '10.20.0.4' (ED25519) to the list of known hosts.",
    "[1126501.113211] mlx5_core 0000:19:00.0: firmware version: 28.39.1002",
    "[1126502.004771] nvidia-uvm: Loaded the UVM driver, major device number 510.",
    "Downloading: 100%|##########| 1.21G/1.21G [00:12<00:00, 98.1MB/s]",
    "Defaulted container \"main\" out of: main, sidecar",
    "I1124 10:15:02.113000 1 controller.go:211] reconciled nccl-test in 12 ms",
    "time=\"2026-11-24T10:15:02Z\" level=info msg=\"pulled image\" image=ghcr.io/example/tests:1.4",
    "OMP: Info #276: omp_set_nested routine deprecated, please use omp_set_max_active_levels instead.",
    "/usr/lib/python3/dist-packages/x.py:12: DeprecationWarning: invalid escape sequence '\\d'",
    "real    0m41.302s",
    "The numbers above are from yesterday's nodes; the new ones follow.",
    "12:01:44.113 [main] DEBUG io.example.Client - 17 connections idle",
    "{\"level\":\"info\",\"msg\":\"heartbeat\",\"node\":\"gpu-b12\"}",
    "Mon Nov 24 10:15:02 UTC 2026",
    "| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |",
];

/// A generator that always draws the same (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The committed files with one of the endings, in order: name and text.
fn files(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let mut paths = BTreeSet::new();
    for folder in folders {
        let listed = fs::read_dir(root().join(folder)).unwrap();
        paths.extend(listed.map(|file| file.unwrap().path()).filter(|path| {
            let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            endings.contains(&ending.as_str())
        }));
    }
    let read = |path: PathBuf| {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        (path.file_name().unwrap().to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

fn logs() -> Vec<(String, String)> {
    let folders = [
        "crates/busbw/tests/explain_cases",
        "crates/busbw/tests/explain",
        "tests/failed_runs/logs",
    ];
    files(&folders, &["txt", "md", "log"])
}

/// Everything that `busbw explain` does with a text, in all of its forms.
fn explained(text: &str) -> Vec<Explanation> {
    let Ok(read) = import::read(text.as_bytes(), "run.log") else { return Vec::new() };
    let all = explain(read.measurements, &Hardware::default());
    for colour in [false, true] {
        print_briefly(&mut Vec::new(), &all, colour).unwrap();
        print_all(&mut Vec::new(), &all, colour).unwrap();
    }
    print_markdown(&mut Vec::new(), &all).unwrap();
    serde_json::to_string(&all).unwrap();
    all
}

/// A text with one to eight faults.
fn damaged(draw: &mut Draw, text: &str, other: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=draw.below(8) {
        let mut lines: Vec<Vec<u8>> =
            bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let at = draw.below(lines.len());
        let to = draw.below(lines.len());
        match draw.below(12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(to, lines[at].clone()),
            2 => lines.swap(at, to),
            3 => lines.truncate(at + 1),
            4 => drop(lines.drain(..at)),
            5 => {
                let end = draw.below(lines[at].len() + 1);
                lines[at].truncate(end);
            }
            6 if at + 1 < lines.len() => {
                let next = lines.remove(at + 1);
                lines[at].extend(next);
            }
            7 => {
                let from: Vec<&str> = other.lines().collect();
                let line = if from.is_empty() { "" } else { draw.pick(&from) };
                lines.insert(at, line.as_bytes().to_vec());
            }
            8 => {
                let digits: Vec<usize> = (0..lines[at].len())
                    .filter(|place| lines[at][*place].is_ascii_digit())
                    .collect();
                if !digits.is_empty() {
                    let place = *draw.pick(&digits);
                    let number =
                        *draw.pick(&["0", "9", "-1", "18446744073709551616", "1e308", "nan"]);
                    lines[at].splice(place..=place, number.bytes());
                }
            }
            9 => {
                let place = draw.below(lines[at].len() + 1);
                lines[at].insert(place, draw.below(256) as u8);
            }
            10 => lines[at] = lines[at].repeat(1 + draw.below(50)),
            _ => lines.iter_mut().for_each(|line| line.extend(b"\r")),
        }
        bytes = lines.join(&b'\n');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The longest time, for whoever asks (`--nocapture`): a shared machine's times fail no test.
struct Slowest(Duration, String);

impl Slowest {
    fn time<T>(&mut self, name: &str, run: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = run();
        if begun.elapsed() > self.0 {
            (self.0, self.1) = (begun.elapsed(), name.to_owned());
        }
        result
    }
}

#[test]
fn damaged_logs_are_explained_or_refused() {
    let (logs, mut draw) = (logs(), Draw(0x5eed));
    let mut slowest = Slowest(Duration::ZERO, String::new());
    for _ in 0..MUTATIONS {
        let (name, text) = draw.pick(&logs).clone();
        let other = draw.pick(&logs).1.clone();
        let damaged = damaged(&mut draw, &text, &other);
        slowest.time(&name, || explained(&damaged));
    }
    println!("slowest: {:?} for {}", slowest.0, slowest.1);
}

#[test]
fn damaged_topologies_are_read_or_refused() {
    let mut topologies = files(
        &[
            "crates/busbw/tests/explain_cases",
            "crates/busbw/tests/explain",
            "crates/hardware/tests/data",
        ],
        &["xml"],
    );
    let matrices =
        files(&["crates/busbw/tests/explain_cases", "crates/hardware/tests/data"], &["txt"]);
    topologies.extend(matrices.into_iter().filter(|(_, text)| recognise(text).is_ok()));
    assert!(topologies.len() >= 10, "{}", topologies.len());
    let mut draw = Draw(0x70b0);
    let mut slowest = Slowest(Duration::ZERO, String::new());
    for _ in 0..MUTATIONS {
        let (name, text) = draw.pick(&topologies).clone();
        let other = draw.pick(&topologies).1.clone();
        let damaged = damaged(&mut draw, &text, &other);
        slowest.time(&name, || match recognise(&damaged) {
            Ok(Input::System(system)) => {
                of_system(&system);
                machine_of_system(&system, "damaged");
            }
            Ok(Input::Matrices(matrices)) => matrices.iter().for_each(|matrix| {
                of_matrix(matrix);
                machine_of_matrix(matrix, "damaged");
            }),
            Ok(Input::Graphs(_)) => {}
            Err(why) => assert!(!why.to_string().is_empty()),
        });
    }
    println!("slowest: {:?} for {}", slowest.0, slowest.1);
}

/// The worst severity of a text's findings, and the verdicts on its runs.
fn judged(explanations: &[Explanation]) -> (Severity, BTreeSet<String>) {
    let findings = explanations.iter().flat_map(|one| &one.findings);
    let worst = findings.map(|one| one.severity).max().unwrap_or(Severity::Fine);
    (worst, explanations.iter().map(|one| one.verdict.to_string()).collect())
}

#[test]
fn lines_of_other_programs_accuse_nobody() {
    let healthy = |one: &Explanation| matches!(one.verdict, Verdict::Healthy | Verdict::Unknown);
    let logs: Vec<(String, String, (Severity, BTreeSet<String>))> = logs()
        .into_iter()
        .filter_map(|(name, text)| {
            let before = explained(&text);
            let (worst, verdicts) = judged(&before);
            let accused =
                worst > Severity::Note || !before.iter().all(healthy) || before.is_empty();
            (!accused).then_some((name, text, (worst, verdicts)))
        })
        .collect();
    assert!(logs.len() >= 20, "{} healthy logs", logs.len());
    let mut draw = Draw(0xca1a);
    let mut wrong = Vec::new();
    for _ in 0..MUTATIONS {
        let (name, text, (worst, verdicts)) = draw.pick(&logs).clone();
        let mut lines: Vec<&str> = text.lines().collect();
        let mut added = Vec::new();
        for _ in 0..=draw.below(12) {
            let at = draw.below(lines.len() + 1);
            let line = *draw.pick(NOISE);
            added.push(format!("{at}: {line}"));
            lines.insert(at, line);
        }
        let (worst_after, after) = judged(&explained(&lines.join("\n")));
        if worst_after > worst.max(Severity::Note) || after != verdicts {
            wrong.push(format!(
                "{name}: {verdicts:?} {worst} became {after:?} {worst_after} by\n  {}",
                added.join("\n  ")
            ));
        }
    }
    let shown = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {MUTATIONS}:\n{shown}", wrong.len());
}
