//! What is measured, as the caller types it and as the other end is told.
//! Not the measuring.

use std::{thread, time::Duration};

/// What is sent, in this order, on a control connection: one line.
#[derive(Clone, Debug)]
pub struct Plan {
    pub sizes: Vec<usize>,
    pub seconds: f64,
    pub open: usize,
    pub connections: usize,
    pub every: f64,
    pub latency: bool,
}

pub fn plan(words: &[String]) -> Plan {
    let mut plan = Plan {
        sizes: vec![8, 64 << 10, 1 << 20],
        seconds: 3.0,
        open: 8,
        connections: 1,
        every: 0.0,
        latency: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap().clone();
        match word.as_str() {
            "--sizes" => plan.sizes = value().split(',').map(size).collect(),
            "--seconds" => plan.seconds = value().parse().unwrap(),
            "--open" => plan.open = value().parse().unwrap(),
            "--connections" => plan.connections = value().parse().unwrap(),
            "--every" => plan.every = value().parse().unwrap(),
            "--latency" => plan.latency = true,
            other => panic!("no option {other}"),
        }
    }
    plan
}

/// "64K" and the like, 8 bytes at least.
fn size(word: &str) -> usize {
    let (digits, shift) = match word.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (
            digits,
            match &word[digits.len()..] {
                "K" => 10,
                "M" => 20,
                _ => 30,
            },
        ),
        None => (word, 0),
    };
    (digits.parse::<usize>().unwrap() << shift).max(8)
}

impl Plan {
    pub fn line(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        let Plan { seconds, open, connections, every, latency, .. } = self;
        format!("{} {seconds} {open} {connections} {every} {latency}\n", sizes.join(","))
    }

    pub fn read(line: &str) -> Plan {
        let words: Vec<&str> = line.split_whitespace().collect();
        Plan {
            sizes: words[0].split(',').map(|word| word.parse().unwrap()).collect(),
            seconds: words[1].parse().unwrap(),
            open: words[2].parse().unwrap(),
            connections: words[3].parse().unwrap(),
            every: words[4].parse().unwrap(),
            latency: words[5].parse().unwrap(),
        }
    }

    pub fn most(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(8)
    }

    /// Ends the process when everything should long be over.
    pub fn bounded(&self) {
        let limit = Duration::from_secs_f64(self.seconds * self.sizes.len() as f64 + 40.0);
        thread::spawn(move || {
            thread::sleep(limit);
            eprintln!("pair: not done after {limit:?}");
            std::process::exit(4);
        });
    }
}
