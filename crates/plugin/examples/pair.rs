//! Two processes, one on each side, and messages from one to the other, through the table that NCCL finds: for beds
//! of links (tests/netlab.sh) and for measuring a network by itself.
//! Not `busbw --backend net`, which measures any network between any number of processes.
//!
//! `pair listen ADDRESS:PORT`, then elsewhere `pair connect ADDRESS:PORT [--sizes 8,64K,1M] [--seconds 3] [--open 8]
//! [--connections 1] [--every 0.25] [--latency]`. Whoever connects sends, and prints what the other end measured; the
//! network is the environment's (BUSBW_NET_REFERENCE). Every byte is compared. Exit code 4 after the time that all of
//! it may take, 7 where bytes are wrong.
#![allow(clippy::unwrap_used, reason = "an example that cannot go on ends")]

#[path = "../tests/networks/table.rs"]
#[allow(dead_code, reason = "not all of NCCL's calls are needed here")]
mod table;

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use table::{Handle, Pointer, Table, tables};

/// What is sent, in this order, on a control connection: one line.
#[derive(Clone, Debug)]
struct Plan {
    sizes: Vec<usize>,
    seconds: f64,
    open: usize,
    connections: usize,
    every: f64,
    latency: bool,
}

/// The last message of a size has this bit in its number.
const LAST: u64 = 1 << 63;
/// Messages differ from their neighbours.
const PATTERNS: usize = 16;
/// Round trips of the latency.
const TRIPS: usize = 2000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address),
        ["connect", address, ..] => connect(address, &plan(&words[2..])),
        _ => {
            eprintln!(
                "pair listen ADDRESS:PORT | pair connect ADDRESS:PORT [options]; see its first lines"
            );
            std::process::exit(2);
        }
    }
}

fn plan(words: &[String]) -> Plan {
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
    fn line(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        let Plan { seconds, open, connections, every, latency, .. } = self;
        format!("{} {seconds} {open} {connections} {every} {latency}\n", sizes.join(","))
    }

    fn read(line: &str) -> Plan {
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

    fn most(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(8)
    }

    /// Ends the process when everything should long be over.
    fn bounded(&self) {
        let limit = Duration::from_secs_f64(self.seconds * self.sizes.len() as f64 + 40.0);
        thread::spawn(move || {
            thread::sleep(limit);
            eprintln!("pair: not done after {limit:?}");
            std::process::exit(4);
        });
    }
}

/// The connection over which both ends agree, in lines.
struct Control {
    lines: BufReader<TcpStream>,
}

impl Control {
    fn new(stream: TcpStream) -> Control {
        stream.set_nodelay(true).unwrap();
        Control { lines: BufReader::new(stream) }
    }

    fn say(&mut self, line: &str) {
        self.lines.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        if self.lines.read_line(&mut line).unwrap() == 0 {
            eprintln!("pair: the other end is gone");
            std::process::exit(6);
        }
        line.trim_end().to_owned()
    }
}

fn hex(handle: &Handle) -> String {
    handle.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(line: &str) -> Handle {
    std::array::from_fn(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap())
}

fn or_end<T>(what: &str, outcome: table::Outcome<T>) -> T {
    outcome.unwrap_or_else(|status| {
        eprintln!("pair: {what}: code {}", status.0);
        std::process::exit(3);
    })
}

fn network() -> Table {
    let [.., table] = tables();
    or_end("init", table.init());
    if or_end("devices", table.devices()) == 0 {
        eprintln!("pair: there is no device");
        std::process::exit(5);
    }
    table
}

fn patiently<T>(what: &str, mut ask: impl FnMut() -> table::Outcome<Option<T>>) -> T {
    loop {
        if let Some(answer) = or_end(what, ask()) {
            return answer;
        }
        thread::yield_now();
    }
}

/// The end of a new connection that receives; the control connection carries the handle.
fn accepted(table: Table, control: &mut Control) -> Pointer {
    let (handle, listener) = or_end("listen", table.listen(0));
    control.say(&format!("{}\n", hex(&handle)));
    let made = patiently("accept", || table.accept(listener));
    or_end("closeListen", table.close_listen(listener));
    made
}

/// The end that sends.
fn connected(table: Table, control: &mut Control) -> Pointer {
    let mut handle = unhex(&control.hear());
    patiently("connect", || table.connect(0, &mut handle))
}

fn patterns(bytes: usize) -> Vec<Vec<u8>> {
    let word = |at: usize, which: usize| {
        (at as u64 ^ (which as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let byte = |at: usize, which| (word(at / 8, which) >> (8 * (at % 8))) as u8;
    (0..PATTERNS).map(|which| (0..bytes).map(|at| byte(at, which)).collect()).collect()
}

fn listen(address: &str) {
    let door = TcpListener::bind(address).unwrap();
    let mut control = Control::new(door.accept().unwrap().0);
    let plan = Plan::read(&control.hear());
    plan.bounded();
    let table = network();
    let connections: Vec<_> =
        (0..plan.connections).map(|_| accepted(table, &mut control)).collect();
    let back = connected(table, &mut control);
    let patterns = patterns(plan.most());
    let mut ends: Vec<_> = connections.iter().map(|&at| Receives::new(table, at, &plan)).collect();
    if plan.latency {
        echo(&mut ends[0], table, back);
    }
    let mut wrong_ones = 0;
    for _ in &plan.sizes {
        let (mut bytes, mut messages, mut wrong) = (0, 0, 0);
        let (mut first, mut rates, mut counted) = (None, Vec::new(), 0);
        let mut running = ends.len();
        while running > 0 {
            let mut idle = true;
            for end in &mut ends {
                let Some((data, number)) = end.next() else { continue };
                idle = false;
                first.get_or_insert_with(Instant::now);
                let (which, length) = ((number & !LAST) as usize % PATTERNS, data.len());
                bytes += length;
                messages += 1;
                wrong += usize::from(data[8..] != patterns[which][8..length]);
                running -= usize::from(number & LAST != 0);
                end.post();
            }
            if plan.every > 0.0
                && first.is_some_and(|first| {
                    first.elapsed().as_secs_f64() > plan.every * (rates.len() + 1) as f64
                })
            {
                rates.push(format!("{:.4}", (bytes - counted) as f64 / plan.every / 1e9));
                counted = bytes;
            }
            if idle {
                thread::yield_now();
            }
        }
        let seconds = first.map_or(0.0, |first| first.elapsed().as_secs_f64());
        control.say(&format!("{bytes} {seconds} {messages} {wrong} {}\n", rates.join(" ")));
        wrong_ones += wrong;
    }
    // The other end has what it needs, and goes first.
    let _ = control.hear();
    for end in ends {
        or_end("closeRecv", table.close_receive(end.connection));
    }
    or_end("closeSend", table.close_send(back));
    std::process::exit(if wrong_ones == 0 { 0 } else { 7 });
}

/// Posted receives of a connection, each with room for any message.
struct Receives {
    table: Table,
    connection: Pointer,
    posted: VecDeque<Pointer>,
    rooms: Vec<Vec<u8>>,
    done: usize,
    begun: usize,
    number: u64,
}

impl Receives {
    fn new(table: Table, connection: Pointer, plan: &Plan) -> Receives {
        let rooms = vec![vec![0; plan.most()]; plan.open];
        let mut end = Receives {
            table,
            connection,
            posted: VecDeque::new(),
            rooms,
            done: 0,
            begun: 0,
            number: 0,
        };
        for _ in 0..plan.open {
            end.post();
        }
        end
    }

    /// One more.
    fn post(&mut self) {
        let which = self.begun % self.rooms.len();
        let room = &mut self.rooms[which];
        // SAFETY: its turn comes again when it is done.
        let request = patiently("irecv", || unsafe {
            self.table.receive(self.connection, room.as_mut_ptr(), room.len())
        });
        self.posted.push_back(request);
        self.begun += 1;
    }

    /// The oldest, if it is there: its bytes and its number.
    fn next(&mut self) -> Option<(&[u8], u64)> {
        let bytes = or_end("test", self.table.test(*self.posted.front()?))?;
        self.posted.pop_front();
        let room = &self.rooms[self.done % self.rooms.len()][..bytes];
        self.done += 1;
        let number = u64::from_le_bytes(*room.first_chunk().unwrap());
        if number & !LAST != self.number {
            eprintln!("pair: message {} came where {} was due", number & !LAST, self.number);
            std::process::exit(7);
        }
        self.number += 1;
        Some((room, number))
    }
}

/// Answers each small message with one.
fn echo(end: &mut Receives, table: Table, back: Pointer) {
    let mut heard = 0;
    while heard < TRIPS {
        if end.next().is_some() {
            end.post();
            heard += 1;
            say(table, back, &(heard as u64).to_le_bytes());
        } else {
            thread::yield_now();
        }
    }
}

/// One small message, gone.
fn say(table: Table, connection: Pointer, words: &[u8]) {
    // SAFETY: they stay until it is done.
    let request =
        patiently("isend", || unsafe { table.send(connection, words.as_ptr(), words.len()) });
    patiently("test", || table.test(request));
}

fn connect(address: &str, plan: &Plan) {
    plan.bounded();
    let until = Instant::now() + Duration::from_secs(10);
    let stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > until => {
                eprintln!("pair: cannot connect to {address}: {error}");
                std::process::exit(3);
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    };
    let mut control = Control::new(stream);
    control.say(&plan.line());
    let table = network();
    let connections: Vec<_> =
        (0..plan.connections).map(|_| connected(table, &mut control)).collect();
    let back = accepted(table, &mut control);
    let mut ends: Vec<_> = connections.iter().map(|&at| Sends::new(table, at, plan)).collect();
    if plan.latency {
        let mut answers = Receives::new(table, back, plan);
        answers.number = 1;
        let mut times: Vec<Duration> = (0..TRIPS as u64)
            .map(|number| {
                let began = Instant::now();
                say(table, connections[0], &number.to_le_bytes());
                while answers.next().is_none() {
                    thread::yield_now();
                }
                answers.post();
                began.elapsed()
            })
            .collect();
        times.sort();
        println!("latency 8 bytes: {:.2} us", times[TRIPS / 2].as_secs_f64() * 1e6 / 2.0);
        ends[0].number = TRIPS as u64;
    }
    let mut wrong_ones = 0;
    for &size in &plan.sizes {
        let until = Instant::now() + Duration::from_secs_f64(plan.seconds);
        while ends.iter().any(|end| !end.ended || !end.open.is_empty()) {
            let mut idle = true;
            for end in &mut ends {
                idle &= !end.step(size, Instant::now() > until);
            }
            if idle {
                thread::yield_now();
            }
        }
        ends.iter_mut().for_each(|end| end.ended = false);
        let line = control.hear();
        let words: Vec<&str> = line.split_whitespace().collect();
        let (bytes, seconds): (f64, f64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        println!(
            "size {size} GB/s {:.4} seconds {seconds:.2} messages {} wrong {}",
            bytes / seconds / 1e9,
            words[2],
            words[3]
        );
        if plan.every > 0.0 {
            println!("rates {size} every {} {}", plan.every, words[4..].join(" "));
        }
        wrong_ones += words[3].parse::<usize>().unwrap();
    }
    for end in ends {
        or_end("closeSend", table.close_send(end.connection));
    }
    or_end("closeRecv", table.close_receive(back));
    control.say("done\n");
    std::process::exit(if wrong_ones == 0 { 0 } else { 7 });
}

/// Messages on their way over a connection.
struct Sends {
    table: Table,
    connection: Pointer,
    open: VecDeque<Pointer>,
    most: usize,
    /// What they are, and a place for each that is open.
    patterns: Vec<Vec<u8>>,
    number: u64,
    ended: bool,
}

impl Sends {
    fn new(table: Table, connection: Pointer, plan: &Plan) -> Sends {
        assert!(plan.open <= PATTERNS, "at most {PATTERNS} messages are open");
        let patterns = patterns(plan.most());
        Sends {
            table,
            connection,
            open: VecDeque::new(),
            most: plan.open,
            patterns,
            number: 0,
            ended: false,
        }
    }

    /// Whether something happened: one began, or one was done.
    fn step(&mut self, size: usize, last: bool) -> bool {
        let mut happened = false;
        while self.open.len() < self.most && !self.ended {
            let data = &mut self.patterns[self.number as usize % PATTERNS][..size];
            let number = self.number | if last { LAST } else { 0 };
            data[..8].copy_from_slice(&number.to_le_bytes());
            // SAFETY: its turn comes again when it is done: there are more of them than may be open.
            let sent = unsafe { self.table.send(self.connection, data.as_ptr(), size) };
            let Some(request) = or_end("isend", sent) else { break };
            self.open.push_back(request);
            self.number += 1;
            self.ended = last;
            happened = true;
        }
        if let Some(&oldest) = self.open.front()
            && or_end("test", self.table.test(oldest)).is_some()
        {
            self.open.pop_front();
            happened = true;
        }
        happened
    }
}
