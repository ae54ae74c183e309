//! NCCL's calls, where a failure ends the program.
//! Not the table (`table`).

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::table::{self, Table, tables};

pub fn or_end<T>(what: &str, outcome: table::Outcome<T>) -> T {
    outcome.unwrap_or_else(|status| {
        eprintln!("pair: {what}: code {}", status.0);
        std::process::exit(3);
    })
}

pub fn network() -> Table {
    let [.., table] = tables();
    or_end("init", table.init());
    if or_end("devices", table.devices()) == 0 {
        eprintln!("pair: there is no device");
        std::process::exit(5);
    }
    table
}

/// Asks again until there is an answer; whoever still listens for one after 15 s has been left alone.
pub fn patiently<T>(what: &str, mut ask: impl FnMut() -> table::Outcome<Option<T>>) -> T {
    let until = Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(answer) = or_end(what, ask()) {
            return answer;
        }
        if Instant::now() > until && what == "accept" {
            eprintln!("pair: nobody connects");
            std::process::exit(6);
        }
        thread::yield_now();
    }
}
