//! What applications see of connections: bytes in order, ends, failures, the kernel's numbers.
//! Not how fast they are (`tcp`).

use std::{sync::Arc, time::Duration};

use busbw_multipath::Time;
use busbw_multipath_sim::{
    Change, Content, Label, Link, LinkId, Listening, Random, Read, Route, Simulation, Socket, Wake,
    Ways,
    tcp::{Algorithm, Failure, Settings},
};

const MILLI: Duration = Duration::from_millis(1);

struct Bed {
    simulation: Simulation,
    links: [LinkId; 2],
    ways: usize,
    listener: usize,
}

impl Bed {
    fn new(seed: u64, link: Link) -> Bed {
        let mut simulation = Simulation::new(seed);
        let links = [simulation.link(link.clone()), simulation.link(link)];
        let [forward, backward] = links.map(Route::over);
        let ways = simulation.ways(Ways { forward, backward });
        let listener = simulation.listen();
        Bed { simulation, links, ways, listener }
    }

    fn plain(seed: u64) -> Bed {
        Bed::new(seed, Link::tbf(1_000_000_000, 128 << 10, 8 * MILLI, MILLI / 10))
    }

    fn connect(&mut self, settings: Settings) -> Socket {
        self.simulation.connect(self.ways, [Label::Link(0); 2], self.listener, settings)
    }

    /// What wakes the application for so long, and when.
    fn wakes(&mut self, time: Duration) -> Vec<(Wake, Duration)> {
        let began = self.simulation.now();
        let mut wakes = Vec::new();
        while let Some(wake) = self.simulation.next(began + time) {
            wakes.push((wake, self.simulation.now().since(began)));
        }
        wakes
    }

    fn pair(&mut self, settings: Settings) -> (Socket, Socket) {
        let socket = self.connect(settings);
        let wakes = self.wakes(10 * MILLI);
        assert!(wakes.iter().any(|(wake, _)| *wake == Wake::Connected(socket)));
        assert!(
            wakes.iter().any(|(wake, _)| *wake == Wake::Accepted(socket.peer(), self.listener))
        );
        (socket, socket.peer())
    }

    fn all(&mut self, links: Change) {
        self.links.iter().for_each(|link| self.simulation.change(*link, links));
    }
}

#[test]
fn bytes_arrive_once_and_in_order_whatever_the_link_does() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut link = Link::tbf(100_000_000, 20_000, 4 * MILLI, random.time(5 * MILLI));
        link.change(Change::Loss(random.fraction() * 0.1));
        link.change(Change::Duplication(random.fraction() * 0.1));
        link.change(Change::Reordering(random.fraction() * 0.2, random.time(3 * MILLI)));
        let settings = Settings {
            algorithm: *random.one(&[Algorithm::Cubic, Algorithm::Bbr]),
            offload: random.chance(0.5),
            ..Settings::default()
        };
        let mut bed = Bed::new(seed, link);
        let data: Arc<[u8]> = (0..2_000_000).map(|_| random.next() as u8).collect();
        let content = Content::of(data.clone());
        let (mut written, mut read, mut ended) = (0, Vec::new(), 0);
        let socket = bed.connect(settings);
        while ended < 2 {
            let wake = bed.simulation.next(Time(200_000_000_000));
            let wake =
                wake.unwrap_or_else(|| panic!("seed {seed}: {} of {written} bytes", read.len()));
            let (Wake::Connected(ready) | Wake::Accepted(ready, _) | Wake::Ready(ready)) = wake
            else {
                continue;
            };
            if ready == socket {
                while written < data.len() {
                    let most = (written + 1 + random.below(100_000) as usize).min(data.len());
                    let bytes = bed.simulation.write(socket, &content.part(written..most));
                    written += bytes;
                    if bytes == 0 {
                        break;
                    }
                    if written == data.len() {
                        bed.simulation.shut(socket);
                    }
                }
                match bed.simulation.read(socket, 1) {
                    Read::End => ended += 1,
                    Read::Empty => {}
                    other => panic!("seed {seed}: {other:?}"),
                }
            } else {
                loop {
                    match bed.simulation.read(ready, 1 + random.below(10_000) as usize) {
                        Read::Bytes(content) => {
                            let from = read.len();
                            read.resize(from + content.bytes(), 0);
                            content.copy_to(&mut read[from..]);
                        }
                        Read::Empty => break,
                        Read::End => {
                            bed.simulation.close(ready);
                            ended += 1;
                            break;
                        }
                        Read::Failed(failure) => panic!("seed {seed}: {failure:?}"),
                    }
                }
            }
        }
        assert!(read[..] == data[..], "seed {seed}: {} bytes", read.len());
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut bed = Bed::plain(seed);
        bed.all(Change::Loss(0.02));
        let socket = bed.connect(Settings::default());
        bed.wakes(10 * MILLI);
        let mut when = Vec::new();
        for _ in 0..50 {
            bed.simulation.write(socket, &Content::zeros(1 << 20));
            when.extend(bed.wakes(MILLI));
            while let Read::Bytes(_) = bed.simulation.read(socket.peer(), 1 << 20) {}
        }
        (when, bed.simulation.info(socket))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_connection_request_is_sent_again_after_a_second() {
    let mut bed = Bed::plain(1);
    bed.all(Change::Blackhole(true));
    let at = bed.simulation.now() + 500 * MILLI;
    bed.simulation.change_at(at, bed.links[0], Change::Blackhole(false));
    bed.simulation.change_at(at, bed.links[1], Change::Blackhole(false));
    let socket = bed.connect(Settings::default());
    let wakes = bed.wakes(3000 * MILLI);
    assert_eq!(wakes[0].0, Wake::Connected(socket));
    assert!((1000 * MILLI..1002 * MILLI).contains(&wakes[0].1), "{wakes:?}");
}

#[test]
fn who_connects_is_refused_or_hears_nothing() {
    let mut bed = Bed::plain(1);
    bed.simulation.set_listening(bed.listener, Listening::Refuses);
    let socket = bed.connect(Settings::default());
    assert_eq!(
        bed.wakes(100 * MILLI).iter().map(|(wake, _)| *wake).collect::<Vec<_>>(),
        [Wake::Ready(socket)]
    );
    assert_eq!(bed.simulation.failure(socket), Some(Failure::Refused));
    bed.simulation.set_listening(bed.listener, Listening::Silent);
    bed.connect(Settings::default());
    assert_eq!(bed.wakes(10_000 * MILLI), []);
}

#[test]
fn a_socket_that_is_closed_with_something_unread_resets() {
    let mut bed = Bed::plain(1);
    let (one, other) = bed.pair(Settings::default());
    bed.simulation.write(one, &Content::zeros(100));
    bed.wakes(10 * MILLI);
    bed.simulation.close(other);
    bed.wakes(10 * MILLI);
    assert_eq!(bed.simulation.failure(one), Some(Failure::Reset));
    // Otherwise it ends in order; what is sent to it afterwards is answered with a reset.
    let (one, other) = bed.pair(Settings::default());
    bed.simulation.write(other, &Content::zeros(100));
    bed.simulation.close(other);
    bed.wakes(10 * MILLI);
    assert!(
        matches!(bed.simulation.read(one, 200), Read::Bytes(content) if content.bytes() == 100)
    );
    assert!(matches!(bed.simulation.read(one, 200), Read::End));
    bed.simulation.write(one, &Content::zeros(100));
    bed.wakes(10 * MILLI);
    assert_eq!(bed.simulation.failure(one), Some(Failure::Reset));
}

#[test]
fn a_link_that_resets_ends_connections() {
    let mut bed = Bed::plain(1);
    let (one, _) = bed.pair(Settings::default());
    bed.all(Change::Resets(true));
    bed.simulation.write(one, &Content::zeros(100));
    bed.wakes(10 * MILLI);
    assert_eq!(bed.simulation.failure(one), Some(Failure::Reset));
}

#[test]
fn a_silent_peer_is_noticed_by_keep_alive_and_by_the_user_timeout() {
    let mut bed = Bed::plain(1);
    let (one, other) = bed.pair(Settings::default());
    bed.all(Change::Blackhole(true));
    bed.simulation.write(other, &Content::zeros(100));
    let wakes = bed.wakes(30_000 * MILLI);
    let at = |socket| wakes.iter().find(|(wake, _)| *wake == Wake::Ready(socket)).unwrap().1;
    // 5 + 5 s here; 10 s there, at the next timeout.
    assert!((9_900 * MILLI..10_100 * MILLI).contains(&at(one)), "{wakes:?}");
    assert!((10_000 * MILLI..14_000 * MILLI).contains(&at(other)), "{wakes:?}");
    assert_eq!([one, other].map(|end| bed.simulation.failure(end)), [Some(Failure::TimedOut); 2]);
    // Nobody ends one whose peer is there.
    bed.all(Change::Blackhole(false));
    let (one, other) = bed.pair(Settings::default());
    assert_eq!(bed.wakes(60_000 * MILLI), []);
    assert!(bed.simulation.is_up(one) && bed.simulation.is_up(other));
}

#[test]
fn a_receiver_that_does_not_read_closes_its_window_and_opens_it_again() {
    let mut bed = Bed::plain(1);
    let (one, other) =
        bed.pair(Settings { receive_buffer: (64 << 10, 64 << 10), ..Settings::default() });
    let mut written = bed.simulation.write(one, &Content::zeros(10 << 20));
    bed.wakes(1000 * MILLI);
    let info = bed.simulation.info(one).unwrap();
    assert!((56 << 10..=64 << 10).contains(&bed.simulation.readable(other)));
    assert_eq!((info.timeouts, info.unacknowledged), (0, 0));
    assert_eq!(info.unacknowledged_bytes as usize, written - bed.simulation.readable(other));
    // It is asked for at longer and longer intervals.
    bed.wakes(100_000 * MILLI);
    assert!(bed.simulation.is_up(one));
    let mut read = 0;
    let began = bed.simulation.now();
    while read < 5 << 20 {
        while let Read::Bytes(content) = bed.simulation.read(other, 1 << 20) {
            read += content.bytes();
        }
        written += bed.simulation.write(one, &Content::zeros(10 << 20));
        assert!(bed.simulation.next(began + 1000 * MILLI).is_some(), "{read} of {written} bytes");
    }
}

#[test]
fn datagrams_arrive_or_are_lost_late_or_doubled() {
    let mut link = Link::tbf(1_000_000_000, 128 << 10, 8 * MILLI, MILLI);
    link.change(Change::Loss(0.1));
    link.change(Change::Duplication(0.05));
    link.change(Change::Reordering(0.1, MILLI));
    let mut bed = Bed::new(1, link);
    let flow = bed.simulation.flow(bed.ways, true, Label::Link(0), 4096, 60);
    let mut arrived = Vec::new();
    for number in 0..2000u32 {
        let data: Arc<[u8]> = number.to_le_bytes().repeat(1000).into();
        bed.simulation.send(flow, Content::of(data));
        for (wake, _) in bed.wakes(MILLI / 20) {
            assert_eq!(wake, Wake::Arrived(flow));
            let content = bed.simulation.receive(flow).unwrap();
            assert_eq!(content.bytes(), 4000);
            arrived.push(u32::from_le_bytes(*content.slice().unwrap().first_chunk().unwrap()));
        }
    }
    let late = arrived.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let doubled = arrived.windows(2).filter(|pair| pair[1] == pair[0]).count();
    assert!((1750..2000).contains(&arrived.len()), "{}", arrived.len());
    assert!((100..300).contains(&late) && (50..150).contains(&doubled), "{late} {doubled}");
}
