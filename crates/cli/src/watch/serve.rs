//! Metrics for a scraper: `GET /metrics` over HTTP, one answer a connection.
//! Not a web server: whatever else is asked for is refused.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use busbw_core::printable::Printable;

/// What a scraper has to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a request that are read.
const LONGEST_REQUEST: u64 = 8 << 10;

/// Answers at `address` until the process is interrupted. `text` is called for each answer.
///
/// # Errors
/// The address cannot be listened on.
pub(super) fn serve(address: &str, mut text: impl FnMut() -> Result<String>) -> Result<Exit> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} (--prometheus)"))?;
    let at = listener.local_addr().context("cannot read the address that was bound")?;
    let _ = writeln!(
        Printable::new(std::io::stderr(), false),
        "busbw: metrics at http://{at}/metrics until Ctrl-C"
    );
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        // A scraper that goes away takes nothing with it.
        let _ = answer(&stream, &mut text);
    }
    Ok(Exit::Ok)
}

fn answer(mut stream: &TcpStream, text: &mut impl FnMut() -> Result<String>) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = BufReader::new(stream.take(LONGEST_REQUEST));
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut words = first.split_ascii_whitespace();
    let asked = (words.next(), words.next().map(|path| path.split('?').next().unwrap_or(path)));
    // The rest of the head is read, so that closing does not reset the connection.
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = match asked {
        (Some("GET"), Some("/metrics")) => match text() {
            Ok(text) => ("200 OK", text),
            Err(error) => ("503 Service Unavailable", format!("{error:#}\n")),
        },
        (Some("GET"), _) => ("404 Not Found", "GET /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let kind = if status.starts_with("200") {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}
