//! Damaged logs: whatever is left of them is explained, or refused.
//! Not what is said of whole ones.

use std::time::{Duration, Instant};

use busbw_analysis::explain::{self, Explanation, Hardware};
use busbw_core::finding::Severity;
use busbw_logs::import;

use super::{log, printed};

/// Damage of every kind, a thousand times: no panic, no hang, and most of it can still be read.
#[test]
fn damaged_logs() {
    let logs = [
        "16x-h100-nvlink-4x-400gbps-ib-all2all.txt",
        "32x-h800-nvlink-4x-400gbps-ib-all-reduce.txt",
        "gb200-2x4-mnnvl-all_reduce.txt",
        "made-up-rtx4090-roce-5.81.txt",
        "oci-h100-osu_bw-host.txt",
        "oci-h100-osu_latency-device.txt",
    ];
    let texts: Vec<Vec<u8>> = logs.iter().map(|name| std::fs::read(log(name)).unwrap()).collect();
    let hardware = Hardware::read(Some("dgx-h100"), None).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut parsed = 0;
    for at in 0..1000 {
        let text = damage(&texts[at % texts.len()], &mut random);
        let begun = Instant::now();
        if let Ok(read) = import::read(&text[..], "damaged") {
            parsed += usize::from(read.measurements.iter().any(|run| !run.rows.is_empty()));
            for told in explain::explain(read.measurements, &hardware) {
                check(&told);
            }
        }
        // A watchdog: no damage makes a log endless.
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", String::from_utf8_lossy(&text));
    }
    assert!(parsed >= 300, "{parsed} of 1000 can still be read");
}

/// What holds for every explanation.
fn check(told: &Explanation) {
    assert!(!told.sentence.is_empty() && !told.subject.is_empty());
    assert!(told.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    for finding in &told.findings {
        assert!(!finding.cause.is_empty(), "{finding:?}");
        let advised = finding.remedy.is_some() || finding.confirm.is_some();
        assert!(advised || finding.severity != Severity::Slow, "{finding:?}");
    }
    assert_eq!(
        told.percent.is_some(),
        told.limit.is_some() && told.measured.as_ref().is_some_and(|m| m.busbw.is_some())
    );
    serde_json::to_string(told).unwrap();
    printed(std::slice::from_ref(told));
}

/// xorshift64, so that every run damages alike.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn damage(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len());
        let to = (at + random.below(400)).min(text.len());
        match random.below(10) {
            0 => text.truncate(at.max(1)),
            1 => drop(text.drain(at..to)),
            2 => {
                let part = text[at..to].to_vec();
                text.splice(at..at, part);
            }
            3 => text[at] = random.below(255) as u8 + 1,
            4 => {
                drop(text.splice(at..at, b"host:1:2 [0] NCCL INFO Connected all rings\n".to_vec()))
            }
            5 => {
                text = String::from_utf8_lossy(&text)
                    .lines()
                    .map(|line| format!("[1,0]<stdout>:{line}\n"))
                    .collect::<String>()
                    .into_bytes()
            }
            6 => text = String::from_utf8_lossy(&text).replace('\n', "\r\n").into_bytes(),
            7 => {
                text = String::from_utf8_lossy(&text)
                    .split('\n')
                    .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
                    .collect::<String>()
                    .into_bytes()
            }
            8 => {
                let digits: Vec<usize> =
                    (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
                if let Some(digit) = digits.get(random.below(digits.len())) {
                    text[*digit] = b"0123456789.-eXN"[random.below(15)];
                }
            }
            _ => drop(text.splice(at..at, b"99999999999999999999".to_vec())),
        }
        if text.is_empty() {
            text.push(b'x');
        }
    }
    text
}
