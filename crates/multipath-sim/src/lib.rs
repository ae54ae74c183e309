//! Simulated networks for the multipath transport: links with rate, delay, queues and faults, in virtual time.
//! Not the transport (`busbw-multipath`).
//!
//! A [`Simulation`] has [links](link), [routes](network) between hosts, TCP connections and [datagrams](datagram)
//! over them. The
//! same seed and the same calls give the same result, bit for bit: there are no threads and no clocks.
//! [`transport`] has whole connections of the multipath transport over it.

#![forbid(unsafe_code)]

mod blank;
pub mod content;
pub mod datagram;
mod events;
pub mod link;
pub mod network;
mod packet;
mod random;
mod simulation;
pub mod tcp;
pub mod transport;

pub use self::{
    blank::Blank,
    content::Content,
    link::{Change, Link},
    network::{Label, LinkId, Network, Route, Stage},
    random::Random,
    simulation::{Listening, Read, Simulation, Socket, Wake, Ways},
};
