//! Two processes, one on each side, and messages from one to the other, through the table that NCCL finds: for beds
//! of links (tests/netlab.sh) and for measuring a network by itself.
//! Not `busbw --backend net`, which measures any network between any number of processes.
//!
//! `pair listen ADDRESS:PORT`, then elsewhere `pair connect ADDRESS:PORT [--sizes 8,64K,1M] [--seconds 3] [--open 8]
//! [--connections 1] [--every 0.25] [--latency]`. Whoever connects sends, and prints what the other end measured, also
//! the longest time between two messages of a connection. The line `each` is its own: for each connection bytes/seconds,
//! from the first message's beginning until its last one was done. The network is busbw's; `--net PATH` before `listen` and
//! `connect` loads another plugin.
//! Every byte is compared. Exit code 4 after the time that all of it may take, 7 where bytes are wrong.
#![allow(clippy::unwrap_used, reason = "an example that cannot go on ends")]

mod calls;
mod control;
mod flows;
mod plan;
#[path = "../../tests/networks/table.rs"]
#[allow(dead_code, reason = "not all of NCCL's calls are needed here")]
mod table;

use std::{
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use calls::{network, or_end, patiently};
use control::Control;
use flows::{LAST, PATTERNS, Receives, Says, Sends, patterns};
use plan::{Plan, plan};
use table::{Pointer, Table, hex, unhex};

/// Round trips of the latency.
const TRIPS: usize = 2000;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let library = match &words[..] {
        [option, path, ..] if option == "--net" => Some(path.clone()),
        _ => None,
    };
    if library.is_some() {
        words.drain(..2);
    }
    let library = library.as_deref();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address, library),
        ["connect", address, ..] => connect(address, &plan(&words[2..]), library),
        _ => {
            eprintln!(
                "pair [--net PATH] listen ADDRESS:PORT | pair [--net PATH] connect ADDRESS:PORT [options]; see its first lines"
            );
            std::process::exit(2);
        }
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

fn listen(address: &str, library: Option<&str>) {
    let listener = TcpListener::bind(address).unwrap();
    let mut control = Control::new(listener.accept().unwrap().0);
    let plan = Plan::read(&control.hear());
    plan.bounded();
    let table = network(library);
    let connections: Vec<_> =
        (0..plan.connections).map(|_| accepted(table, &mut control)).collect();
    let back = connected(table, &mut control);
    let patterns = patterns(plan.most());
    let mut ends: Vec<_> = connections.iter().map(|&at| Receives::new(table, at, &plan)).collect();
    if plan.latency {
        echo(&mut ends[0], &mut Says::new(table, back));
    }
    let mut wrong_ones = 0;
    for _ in &plan.sizes {
        let (mut bytes, mut messages, mut wrong) = (0, 0, 0);
        let (mut first, mut rates, mut counted) = (None, Vec::new(), 0);
        let mut gaps = vec![(None, Duration::ZERO); ends.len()];
        let mut running = ends.len();
        while running > 0 {
            let mut idle = true;
            for (end, (last, longest)) in ends.iter_mut().zip(&mut gaps) {
                let Some((data, number)) = end.next() else { continue };
                idle = false;
                let now = Instant::now();
                first.get_or_insert(now);
                *longest = last.replace(now).map_or(*longest, |last| (now - last).max(*longest));
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
        let longest = gaps.iter().map(|(_, longest)| longest.as_secs_f64() * 1e3);
        let longest = longest.fold(0.0, f64::max);
        control.say(&format!(
            "{bytes} {seconds} {messages} {wrong} {longest:.1} {}\n",
            rates.join(" ")
        ));
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

/// Answers each small message with one.
fn echo(end: &mut Receives, back: &mut Says) {
    let mut heard = 0;
    while heard < TRIPS {
        if end.next().is_some() {
            end.post();
            heard += 1;
            back.say(heard as u64);
        } else {
            thread::yield_now();
        }
    }
}

fn connect(address: &str, plan: &Plan, library: Option<&str>) {
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
    let table = network(library);
    let connections: Vec<_> =
        (0..plan.connections).map(|_| connected(table, &mut control)).collect();
    let back = accepted(table, &mut control);
    let mut ends: Vec<_> = connections.iter().map(|&at| Sends::new(table, at, plan)).collect();
    if plan.latency {
        let mut answers = Receives::new(table, back, plan);
        answers.number = 1;
        let mut asks = Says::new(table, connections[0]);
        let mut times: Vec<Duration> = (0..TRIPS as u64)
            .map(|number| {
                let began = Instant::now();
                asks.say(number);
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
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(plan.seconds);
        let mut sent: Vec<_> = ends.iter().map(|end| (end.number, Duration::ZERO)).collect();
        while ends.iter().any(|end| !end.ended || !end.open.is_empty()) {
            let mut idle = true;
            for (end, (_, last)) in ends.iter_mut().zip(&mut sent) {
                if end.step(size, Instant::now() > until) {
                    idle = false;
                    *last = began.elapsed();
                }
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
            "size {size} GB/s {:.4} seconds {seconds:.2} messages {} wrong {} longest gap {} ms",
            bytes / seconds / 1e9,
            words[2],
            words[3],
            words[4]
        );
        let each = ends.iter().zip(sent).map(|(end, (first, last))| {
            format!("{}/{:.4}", (end.number - first) as usize * size, last.as_secs_f64())
        });
        println!("each {size} {}", each.collect::<Vec<_>>().join(" "));
        if plan.every > 0.0 {
            println!("rates {size} every {} {}", plan.every, words[5..].join(" "));
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
