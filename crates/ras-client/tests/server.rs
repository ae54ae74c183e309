//! The client against servers that speak the protocol, and against some that do not.
//! Not NCCL itself: no GPU is needed. A hostile server ends the client by the client's limit, which is the least here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use busbw_ras_client::{RasError, set_profiler_mask, status};

/// A server of one connection; its address.
fn serve(each: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            each(stream);
        }
    });
    address
}

fn ask(
    each: impl FnOnce(TcpStream) + Send + 'static,
) -> Result<busbw_ras_client::Report, RasError> {
    status(&serve(each), Duration::from_secs(1))
}

/// Answers as NCCL does; `json` as 2.28.7 does.
fn nccl(stream: TcpStream, json: bool, report: &[u8]) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        let answer: &[u8] = match line.to_ascii_uppercase().as_str() {
            "CLIENT PROTOCOL 2" => b"SERVER PROTOCOL 2\n",
            "TIMEOUT 1" => b"OK\n",
            "SET FORMAT JSON" if json => b"OK\n",
            "SET FORMAT JSON" => b"ERROR: Unknown command\n",
            "VERBOSE STATUS" => {
                stream.write_all(report).unwrap();
                return;
            }
            other => panic!("the client said {other}"),
        };
        stream.write_all(answer).unwrap();
    }
}

#[test]
fn a_report_comes_as_json_or_as_text() {
    let report = ask(|stream| nccl(stream, true, b"{\"a\": 1}\n")).unwrap();
    assert_eq!((report.bytes.as_slice(), report.json), (&b"{\"a\": 1}\n"[..], true));
    let report = ask(|stream| nccl(stream, false, b"NCCL version 2.27\n")).unwrap();
    assert_eq!((report.bytes.as_slice(), report.json), (&b"NCCL version 2.27\n"[..], false));
    let large = vec![b'x'; 3 << 20];
    let expected = large.clone();
    assert_eq!(ask(move |stream| nccl(stream, true, &large)).unwrap().bytes, expected);
}

#[test]
fn other_programs_are_refused() {
    let error = ask(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap());
    assert!(matches!(error, Err(RasError::Strange { answer, .. }) if answer.contains("HTTP")));
    let error = ask(drop).unwrap_err();
    assert!(matches!(error, RasError::Strange { .. } | RasError::Io { .. }), "{error}");
    // A line without an end.
    let error = ask(|mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    assert!(matches!(error, Err(RasError::Strange { answer, .. }) if answer.len() <= 80));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = status(&address, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, RasError::Connect { .. }), "{error}");
}

#[test]
fn slow_servers_end_by_the_limit() {
    // One byte at a time, for ever; and one that listens and says nothing. Both at once, since each takes the limit.
    let drip = |mut stream: TcpStream| {
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    };
    let silent = |mut stream: TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let slow = thread::spawn(move || ask(drip).unwrap_err());
    let error = ask(silent).unwrap_err();
    assert!(matches!(error, RasError::Late { .. }), "{error}");
    assert!(matches!(slow.join().unwrap(), RasError::Late { .. } | RasError::Strange { .. }));
}

#[test]
fn addresses() {
    for address in ["", "host", "host:", ":28028", "host:70000"] {
        let error = status(address, Duration::from_secs(1));
        let is_address = matches!(error, Err(RasError::Address { .. } | RasError::Connect { .. }));
        assert!(is_address, "{address:?}: {error:?}");
    }
}

#[test]
fn a_mask_is_set_or_refused() {
    let control = |answer: &'static str| {
        serve(move |stream| {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut stream = stream;
            assert_eq!(lines.next().unwrap().unwrap(), "CLIENT PROTOCOL 2");
            stream.write_all(b"SERVER PROTOCOL 2\n").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "CONTROL PROFILER_MASK 0x46");
            stream.write_all(answer.as_bytes()).unwrap();
        })
    };
    set_profiler_mask(&control("OK\n"), 0x46).unwrap();
    let said = set_profiler_mask(&control("ERROR: Unknown command\n"), 0x46).unwrap_err();
    assert!(
        matches!(&said, RasError::Refused { .. }) && said.to_string().contains("2.31"),
        "{said}"
    );
    let said = set_profiler_mask(&control("yes\n"), 0x46).unwrap_err();
    assert!(matches!(said, RasError::Strange { .. }), "{said}");
}
