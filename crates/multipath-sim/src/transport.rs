//! Whole connections of the multipath transport over a simulated network: what the plugin's threads do, in virtual time.
//! Not the transport's decisions (`busbw_multipath`), nor the network's.

mod endless;
mod incoming;
mod outgoing;
mod place;
mod receiving;
mod sending;

use std::time::Duration;

use busbw_multipath::Time;

pub use self::{
    endless::Endless,
    place::{Buffer, Place},
    receiving::Receiving,
    sending::Sending,
};
use crate::{Label, Random, Simulation, Wake, tcp};

// As the plugin has them.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(25);
const LINGER: Duration = Duration::from_secs(1);
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
const LATE_INTERVAL: Duration = Duration::from_millis(2);

/// How a connection is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between which hosts.
    pub ways: usize,
    /// How many paths.
    pub paths: usize,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Which links each path takes at first, there and back; where nothing is said, and later, hashes of ports decide.
    pub labels: Vec<[Label; 2]>,
    /// TCP's settings.
    pub tcp: tcp::Settings,
}

/// A connection: both of its ends.
pub struct Pair {
    /// The end that sends.
    pub sending: Sending,
    /// The end that receives.
    pub receiving: Receiving,
    timer: Option<Time>,
}

/// Connections over one network.
pub struct World {
    /// The network.
    pub simulation: Simulation,
    pairs: Vec<Option<Pair>>,
    random: Random,
}

/// What an application is to see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Something has happened to this connection.
    Pair(usize),
    /// It is the time that [`World::alarm`] was told.
    Alarm(u64),
}

/// Alarms from here on are those of connections.
const OWN: u64 = 1 << 32;

impl World {
    /// Over this network.
    #[must_use]
    pub fn new(simulation: Simulation, seed: u64) -> World {
        World { simulation, pairs: Vec::new(), random: Random::new(seed) }
    }

    /// Begins to connect. Returns the connection's number.
    pub fn connect(&mut self, settings: Settings) -> usize {
        let listener = self.simulation.listen();
        let random = self.random.split();
        let sending = Sending::new(settings, listener, random, &mut self.simulation);
        let pair = Pair { sending, receiving: Receiving::new(listener), timer: None };
        self.pairs.resize_with(listener, || None);
        self.pairs.push(Some(pair));
        self.set_timer(listener);
        listener
    }

    /// A connection.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn pair(&mut self, number: usize) -> &mut Pair {
        match self.pairs.get_mut(number) {
            Some(Some(pair)) => pair,
            _ => panic!("there is no connection {number}"),
        }
    }

    /// Does something with a connection.
    pub fn with<T>(
        &mut self,
        number: usize,
        action: impl FnOnce(&mut Pair, &mut Simulation) -> T,
    ) -> T {
        let World { simulation, pairs, .. } = self;
        let Some(Some(pair)) = pairs.get_mut(number) else {
            panic!("there is no connection {number}")
        };
        let done = action(pair, simulation);
        self.set_timer(number);
        done
    }

    /// Wakes the application at a time; the number is below 2^32.
    pub fn alarm(&mut self, at: Time, number: u32) {
        self.simulation.alarm(at, number.into());
    }

    fn set_timer(&mut self, number: usize) {
        let now = self.simulation.now();
        let pair = self.pair(number);
        let due = pair.sending.due().into_iter().chain(pair.receiving.due()).min();
        if let Some(due) = due
            && pair.timer.is_none_or(|at| due < at)
        {
            pair.timer = Some(due);
            self.simulation.alarm(due.max(now), OWN + number as u64);
        }
    }

    /// What happens next, until then; at the end of that time nothing.
    pub fn next(&mut self, until: Time) -> Option<Event> {
        loop {
            let number = match self.simulation.next(until)? {
                Wake::Alarm(alarm) if alarm < OWN => return Some(Event::Alarm(alarm)),
                Wake::Alarm(alarm) => {
                    let number = (alarm - OWN) as usize;
                    let now = self.simulation.now();
                    if self.pair(number).timer.is_none_or(|at| at > now) {
                        continue;
                    }
                    self.pair(number).timer = None;
                    self.with(number, |pair, simulation| {
                        pair.sending.timers(simulation);
                        pair.receiving.timers(simulation);
                    });
                    number
                }
                Wake::Connected(socket) | Wake::Ready(socket) => {
                    let number = self.simulation.listener(socket);
                    self.with(number, |pair, simulation| {
                        if socket.connects() {
                            pair.sending.wake(socket, simulation);
                        } else {
                            pair.receiving.wake(socket, simulation);
                        }
                    });
                    number
                }
                Wake::Accepted(socket, number) => {
                    self.with(number, |pair, simulation| {
                        pair.receiving.accepted(socket, simulation);
                    });
                    number
                }
                Wake::Arrived(_) => continue,
            };
            return Some(Event::Pair(number));
        }
    }
}
