//! The connection over which both ends agree.
//! Not what they say.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

/// The connection over which both ends agree, in lines.
pub struct Control {
    lines: BufReader<TcpStream>,
}

impl Control {
    pub fn new(stream: TcpStream) -> Control {
        stream.set_nodelay(true).unwrap();
        Control { lines: BufReader::new(stream) }
    }

    pub fn say(&mut self, line: &str) {
        self.lines.get_mut().write_all(line.as_bytes()).unwrap();
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        if self.lines.read_line(&mut line).unwrap() == 0 {
            eprintln!("pair: the other end is gone");
            std::process::exit(6);
        }
        line.trim_end().to_owned()
    }
}
