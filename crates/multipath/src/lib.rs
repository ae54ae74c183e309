//! The state machine of busbw's multipath transport: events and time go in, actions come out.
//! Not sockets, threads or clocks: the plugin moves the bytes, and simulated networks test the rest.

#![forbid(unsafe_code)]

mod time;

pub use self::time::Time;
