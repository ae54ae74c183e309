//! NCCL's calls, where a failure ends the program.
//! Not the table (`table`).

use std::{
    thread,
    time::{Duration, Instant},
};

use nccl_plugin_abi::net::NetV12;

use crate::table::{self, Table, tables};

pub fn or_end<T>(what: &str, outcome: table::Outcome<T>) -> T {
    outcome.unwrap_or_else(|status| {
        eprintln!("pair: {what}: code {}", status.0);
        std::process::exit(3);
    })
}

/// The network of the library at this path, by the table of v12, or busbw's, which this program holds.
pub fn network(library: Option<&str>) -> Table {
    let [.., ours] = tables();
    let table = library.map_or(ours, loaded);
    or_end("init", table.init());
    if or_end("devices", table.devices()) == 0 {
        eprintln!("pair: there is no device");
        std::process::exit(5);
    }
    table
}

fn loaded(path: &str) -> Table {
    // SAFETY: a net plugin is made to be loaded; it stays as long as the process.
    let table = unsafe {
        libloading::Library::new(path).and_then(|library| {
            let library: &'static libloading::Library = Box::leak(Box::new(library));
            library.get::<*const NetV12>(b"ncclNetPlugin_v12\0").map(|symbol| &**symbol)
        })
    };
    Table::V12(table.unwrap_or_else(|error| {
        eprintln!("pair: --net {path}: {error}");
        std::process::exit(5);
    }))
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
