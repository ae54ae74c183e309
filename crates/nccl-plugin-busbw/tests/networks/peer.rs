//! The other end in a process of its own, to be killed.
//! Not what must follow (`cases`).

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use crate::{
    flow::Flow,
    table::{Pointer, Table, hex, tables, unhex},
};

/// A process that listens, or connects.
pub struct Peer {
    pub process: Child,
    words: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Peer {
    /// One that "sends" or "receives".
    pub fn new(role: &str) -> Peer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--peer", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(process.stdout.take().unwrap());
        let hears = process.stdin.take().unwrap();
        Peer { process, words, hears }
    }

    /// Our end of a connection with it.
    pub fn connected(&mut self, table: Table, we_send: bool) -> Pointer {
        if we_send {
            let mut line = String::new();
            self.words.read_line(&mut line).unwrap();
            let mut handle = unhex(&line);
            patiently(|| table.connect(0, &mut handle).unwrap())
        } else {
            let (handle, listener) = table.listen(0).unwrap();
            writeln!(self.hears, "{}", hex(&handle)).unwrap();
            let made = patiently(|| table.accept(listener).unwrap());
            table.close_listen(listener).unwrap();
            made
        }
    }
}

/// Asks again until there is an answer, 20 s at most.
pub fn patiently<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "no connection after 20 s");
        std::thread::yield_now();
    }
}

/// The process: messages without end.
pub fn main(role: &str) -> ExitCode {
    let [.., table] = tables();
    table.init().unwrap();
    let connection = if role == "receives" {
        let (handle, listener) = table.listen(0).unwrap();
        println!("{}", hex(&handle));
        patiently(|| table.accept(listener).unwrap())
    } else {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).unwrap();
        let mut handle = unhex(&line);
        patiently(|| table.connect(0, &mut handle).unwrap())
    };
    let mut flow = Flow::new(table, connection, role == "sends", 1 << 20);
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until && flow.step().is_ok() {}
    ExitCode::SUCCESS
}
