//! The sending end as its caller holds it: requests, and small messages that leave at once.
//! Not moving the others (`sender`).

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use super::Shared;
use crate::{
    multipath::{SMALL, keeper::lock},
    network::{REQUESTS, Request, Result},
};

/// So many small messages leave each at once: of a ring's step NCCL begins two before it asks for them, and its other end
/// waits for both.
const SINGLE: usize = 2;
/// Small messages that may be on their way, and their bytes: the sender keeps copies.
const COPIES: (usize, usize) = (256, 64 * SMALL);
/// After so many of them, acknowledgements are looked for.
const LOOKED: usize = 32;
/// Messages from the oldest that has not come to the newest: the receiver keeps what comes before its request, and not
/// any number.
const MESSAGES: usize = 1024;

/// What the caller holds.
pub(in crate::multipath) struct Sending {
    shared: Arc<Shared>,
    /// Numbers of requests that are not in use.
    free: Vec<Request>,
    /// Requests for small messages that nobody has seen done yet, and a bit for each of them that has not left.
    small: usize,
    gathered: u64,
}

const _: () = assert!(REQUESTS <= u64::BITS as usize);

impl Sending {
    pub(in crate::multipath) fn new(shared: Arc<Shared>) -> Sending {
        let free = (0..REQUESTS).rev().collect();
        Sending { shared, free, small: 0, gathered: 0 }
    }
}

impl crate::network::Sender for Sending {
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        let shared = &*self.shared;
        shared.failure()?;
        let Some(&request) = self.free.last() else { return Ok(None) };
        if bytes <= SMALL {
            let data = match bytes {
                0 => &[],
                // SAFETY: NCCL's memory, which it leaves alone until the request is done.
                _ => unsafe { std::slice::from_raw_parts(data, bytes) },
            };
            let mut queue = lock(&shared.queue);
            let full = queue.copies() >= COPIES.0 || queue.copied() + bytes > COPIES.1;
            if full || queue.messages() >= MESSAGES {
                drop(queue);
                shared.progress();
                return Ok(None);
            }
            if queue.copies() % LOOKED == LOOKED - 1 {
                // Where they come, most likely.
                let hot = shared.hot.load(Ordering::Relaxed);
                shared.links[hot].readable.store(true, Ordering::Release);
            }
            queue.push_copy(data.into(), shared.chunk);
            drop(queue);
            shared.results[request].store(1 + bytes as u64, Ordering::Relaxed);
            shared.watch();
            // Who begins many before he asks for the first of them has all of those leave together, when he asks. Were it
            // when he asks for any, who keeps a window full would have each leave alone, at a fifth of the rate.
            if self.small < SINGLE {
                shared.send_small();
            } else {
                self.gathered |= 1 << request;
            }
            self.small += 1;
        } else {
            shared.open.begin();
            shared.join();
            lock(&shared.queue).push(data, bytes, shared.chunk, request);
            shared.watch();
            if !shared.is_moved() {
                shared.move_on();
            }
        }
        self.free.pop();
        Ok(Some(request))
    }

    fn test(&mut self, request: Request) -> Result<Option<usize>> {
        if self.gathered & (1 << request) != 0 {
            self.gathered = 0;
            self.shared.send_small();
        }
        // First: what was acknowledged before that is done.
        let failure = self.shared.failure();
        let result = &self.shared.results[request];
        if result.load(Ordering::Acquire) == 0 {
            if failure.is_err() {
                self.shared.hear();
            } else if !self.shared.is_moved() {
                self.shared.progress();
            }
        }
        match result.swap(0, Ordering::AcqRel) {
            0 => failure.map(|()| None),
            bytes => {
                let bytes = (bytes - 1) as usize;
                self.free.push(request);
                self.small -= usize::from(bytes <= SMALL);
                Ok(Some(bytes))
            }
        }
    }

    fn release(&self, memory: &Range<usize>) {
        let reads = lock(&self.shared.queue).reads(memory);
        if reads {
            self.shared.abort();
        }
    }
}

impl Shared {
    /// Sends what is urgent by the path that served well last, or by the next that can.
    fn send_small(&self) {
        let first = self.hot.load(Ordering::Relaxed);
        let mut busy = false;
        for path in (first..self.links.len()).chain(0..first) {
            // It may be absent, doubted, or full.
            if !self.links[path].writable.load(Ordering::Acquire) {
                continue;
            }
            let Some(_) = self.try_pump(path) else {
                busy |= path == first;
                continue;
            };
            if lock(&self.queue).is_urgent() {
                continue;
            }
            // Where somebody just looks at the first one, as the keeper does now and then, one message goes elsewhere:
            // the receiver expects the others where they were.
            if path != first && !busy {
                self.hot.store(path, Ordering::Relaxed);
            }
            return;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.shared.open.is_any() {
            self.shared.abort();
        } else {
            self.shared.keeper.close(self.shared.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{IpAddr, Ipv4Addr, SocketAddr},
        os::unix::net::UnixStream,
        time::Instant,
    };

    use super::{
        super::{
            Absent, End,
            paths::{Loss, RETRY},
        },
        *,
    };
    use crate::{
        multipath::{
            engine::Engine,
            frame::{Answer, Hello},
            keeper::{Charge, Keeper},
        },
        network::Sender,
    };

    const HELLO: Hello = Hello { secret: [0; 16], listener: 1, path: 0, paths: 2, epoch: 0 };

    /// A connection that has two paths, and their other ends.
    fn connection() -> (Arc<Shared>, Vec<UnixStream>) {
        // Where nobody listens: the paths are these.
        let way = (None, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1));
        let keeper = Keeper::new(Vec::new(), Engine::start(Some(0))).unwrap();
        let shared = Shared::new(&keeper, HELLO, vec![way, way], 1 << 16).unwrap();
        let others = (0..2).map(|path| arrived(&shared, path)).collect();
        (shared, others)
    }

    fn arrived(shared: &Shared, path: u16) -> UnixStream {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        shared.arrived(&Hello { path, ..HELLO }, one.into());
        other
    }

    #[test]
    fn a_small_message_takes_the_next_path_when_the_first_is_lost() {
        let (shared, mut others) = connection();
        drop(others.remove(0));
        shared.progress();
        assert!(matches!(*lock(&shared.links[0].end), End::Absent(_)));
        let mut sending = Sending::new(shared);
        // SAFETY: it is copied.
        unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
        assert_eq!(others[0].read(&mut [0; 200]).unwrap(), 132);
    }

    #[test]
    fn only_what_is_sent_while_its_path_is_looked_at_goes_elsewhere() {
        let (shared, mut others) = connection();
        let mut sending = Sending::new(shared.clone());
        for (is_looked_at, bytes) in [(true, [0, 132]), (false, [132, 0])] {
            let _looking = is_looked_at.then(|| lock(&shared.links[0].end));
            // SAFETY: it is copied.
            let request = unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
            assert_eq!(sending.test(request).unwrap(), Some(100));
            assert_eq!([0, 1].map(|path| reads_all(&mut others[path])), bytes);
        }
    }

    #[test]
    fn a_path_by_which_nothing_came_is_not_connected_again_at_once() {
        let began = Instant::now();
        let (shared, others) = connection();
        let is_dialled = |path: usize| {
            matches!(*lock(&shared.links[path].end), End::Absent(Absent { dialled: true, .. }))
        };
        // One of them was good for something.
        let mut sending = Sending::new(shared.clone());
        // SAFETY: it is copied.
        unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
        (&others[0]).write_all(&Answer::Delivered(1).encoded()).unwrap();
        shared.progress();
        drop(others);
        shared.progress();
        assert!(is_dialled(0));
        assert!(!is_dialled(1) || began.elapsed() >= RETRY);
        let mut orders = Vec::new();
        shared.look(Instant::now() + RETRY, &mut orders);
        assert!(is_dialled(1));
    }

    #[test]
    fn an_acknowledgement_and_the_end_behind_it_are_seen_at_once() {
        let (shared, mut others) = connection();
        let mut sending = Sending::new(shared.clone());
        // SAFETY: it is copied.
        unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
        let mut other = others.remove(0);
        other.write_all(&Answer::Delivered(1).encoded()).unwrap();
        drop(other);
        shared.progress();
        assert!(matches!(*lock(&shared.links[0].end), End::Absent(_)));
        assert!(lock(&shared.queue).is_empty());
    }

    #[test]
    fn what_was_acknowledged_has_come_though_the_connection_is_over() {
        let (shared, others) = connection();
        let mut sending = Sending::new(shared.clone());
        let data = vec![7u8; 50_000];
        // SAFETY: it outlives the connection.
        let request = unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
        (&others[0]).write_all(&Answer::Delivered(1).encoded()).unwrap();
        shared.gone();
        shared.look(Instant::now(), &mut Vec::new());
        assert_eq!(sending.test(request).unwrap(), Some(data.len()));
    }

    fn reads_all(other: &mut UnixStream) -> usize {
        let mut said = vec![0; 1 << 20];
        let mut bytes = 0;
        while let Ok(more @ 1..) = other.read(&mut said) {
            bytes += more;
        }
        bytes
    }

    #[test]
    fn what_was_gathered_leaves_together_when_the_first_of_it_is_asked_for() {
        let (shared, mut others) = connection();
        let mut sending = Sending::new(shared);
        // SAFETY: it is copied.
        let requests = [(); 5].map(|()| unsafe { sending.send([7; 100].as_ptr(), 100) }.unwrap());
        assert_eq!(reads_all(&mut others[0]), SINGLE * 132);
        for request in &requests[..SINGLE] {
            assert_eq!(sending.test(request.unwrap()).unwrap(), Some(100));
        }
        assert_eq!(reads_all(&mut others[0]), 0);
        assert_eq!(sending.test(requests[SINGLE].unwrap()).unwrap(), Some(100));
        assert_eq!(reads_all(&mut others[0]), (5 - SINGLE) * 132);
    }

    /// Small messages are acknowledged late, many at once: how fast a path is, they do not tell.
    #[test]
    fn only_long_messages_are_timed() {
        let (shared, others) = connection();
        let mut sending = Sending::new(shared.clone());
        let data = vec![7u8; 50_000];
        for _ in 0..4 {
            // SAFETY: it is copied.
            unsafe { sending.send(data.as_ptr(), SMALL) }.unwrap().unwrap();
        }
        shared.progress();
        (&others[0]).write_all(&Answer::Delivered(4).encoded()).unwrap();
        shared.progress();
        assert!(lock(&shared.queue).is_empty());
        assert_eq!(shared.links[0].load.all_measured(), (0, 0));
        // SAFETY: it outlives the connection.
        unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
        (&others[0]).write_all(&Answer::Delivered(1).encoded()).unwrap();
        shared.progress();
        assert_eq!(shared.links[0].load.all_measured().0, 50_000);
    }

    /// The receiver keeps what comes before its request, up to a bound.
    #[test]
    fn small_messages_behind_one_that_has_not_come_are_bounded() {
        let (shared, mut others) = connection();
        let mut sending = Sending::new(shared.clone());
        let data = vec![7u8; 1 << 15];
        // SAFETY: it outlives the connection.
        unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
        let long = usize::from(reads_all(&mut others[0]) == 0);
        let mut small = 0;
        // Nothing is late here, however slow this machine is.
        shared.looked.store(u64::MAX, Ordering::Relaxed);
        // All on the path that the long one does not take are acknowledged as they come.
        shared.hot.store(1 - long, Ordering::Relaxed);
        for _ in 0..4 * MESSAGES {
            // SAFETY: it is copied.
            if let Some(request) = unsafe { sending.send([7; 8].as_ptr(), 8) }.unwrap() {
                small += 1;
                assert_eq!(sending.test(request).unwrap(), Some(8));
                let came = reads_all(&mut others[1 - long]) / 40;
                let answer = Answer::Delivered(came as u32).encoded();
                (&others[1 - long]).write_all(&answer).unwrap();
            }
            shared.progress();
        }
        assert_eq!(small, MESSAGES - 1);
    }

    #[test]
    fn memory_that_is_given_back_is_not_read_any_more() {
        let (shared, _others) = connection();
        let mut sending = Sending::new(shared.clone());
        let data = vec![7u8; 1 << 20];
        let at = |bytes: Range<usize>| {
            data.as_ptr().addr() + bytes.start..data.as_ptr().addr() + bytes.end
        };
        // SAFETY: it is copied.
        unsafe { sending.send(data.as_ptr(), 100) }.unwrap().unwrap();
        // SAFETY: it outlives the connection.
        let request = unsafe { sending.send(data[1 << 19..].as_ptr(), 1 << 19) }.unwrap().unwrap();
        sending.release(&at(0..1 << 19));
        assert_eq!(sending.test(request).unwrap(), None);
        sending.release(&at(0..(1 << 19) + 1));
        assert!(!shared.is_up() && lock(&shared.queue).is_empty());
        assert!(sending.test(request).is_err());
    }

    #[test]
    fn who_is_not_heard_of_is_knocked_at_now_and_then() {
        let (shared, _others) = connection();
        let mut sending = Sending::new(shared.clone());
        let data = vec![7u8; 1 << 20];
        // SAFETY: it outlives the connection.
        unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
        let began = Instant::now();
        let mut orders = Vec::new();
        let mut knocks = Vec::new();
        for step in 1..=30 {
            let now = began + step * std::time::Duration::from_secs(1);
            assert!(shared.look(now, &mut orders));
            knocks.push(orders.drain(..).filter(|order| order.hello.epoch == Hello::KNOCK).count());
        }
        let times: Vec<usize> = (1..=30).filter(|step| knocks[step - 1] > 0).collect();
        assert_eq!(times, [1, 2, 4, 8, 16, 24]);
        assert!(knocks.iter().all(|knocks| *knocks <= 1) && shared.is_up());
        // Somebody is there, then nobody.
        shared.unanswered(rustix::io::Errno::CONNREFUSED);
        assert!(shared.look(Instant::now() + 100 * LOOK, &mut orders) && shared.is_up());
        shared.unanswered(rustix::io::Errno::TIMEDOUT);
        assert!(shared.look(Instant::now() + LOOK, &mut orders) && shared.is_up());
        shared.look(Instant::now() + 11 * LOOK, &mut orders);
        assert!(!shared.is_up());
    }

    /// Where an MTU is smaller than hosts think, a path connects, and lets nothing of a chunk through.
    #[test]
    fn paths_that_let_nothing_through_but_greetings_end_the_connection() {
        for is_read in [true, false] {
            let (shared, _others) = connection();
            let mut sending = Sending::new(shared.clone());
            let data = vec![7u8; 1 << 20];
            // SAFETY: it outlives the connection.
            unsafe { sending.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
            for path in 0..2 {
                shared.lose(path, &mut lock(&shared.links[path].end), &Loss::Silent(LOOK, 2));
            }
            let mut others = [0, 1].map(|path| arrived(&shared, path));
            let mut orders = Vec::new();
            for _ in 0..2 {
                shared.look(Instant::now() + LOOK, &mut orders);
                if is_read {
                    others.iter_mut().for_each(|other| assert!(reads_all(other) > 0));
                }
            }
            shared.look(Instant::now() + 21 * LOOK, &mut orders);
            let failure = shared.failure().map_err(|failure| failure.text);
            assert!(if is_read { failure.is_ok() } else { failure.unwrap_err().contains("MTU") });
        }
    }

    const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

    #[test]
    fn a_path_that_cannot_be_watched_is_tried_again() {
        let (shared, others) = connection();
        let is_dialled =
            || matches!(*lock(&shared.links[0].end), End::Absent(Absent { dialled: true, .. }));
        drop(others);
        shared.progress();
        shared.look(Instant::now() + RETRY, &mut Vec::new());
        assert!(is_dialled());
        // No folder can be.
        shared.arrived(&HELLO, std::fs::File::open("/").unwrap().into());
        assert!(!is_dialled());
    }

    #[test]
    fn a_broken_connection_is_left_alone() {
        let (shared, _others) = connection();
        let mut sending = Sending::new(shared.clone());
        // SAFETY: it is copied.
        unsafe { sending.send([7u8; 100].as_ptr(), 100) }.unwrap().unwrap();
        shared.gone();
        let mut orders = Vec::new();
        assert!(!shared.look(Instant::now(), &mut orders));
        assert!(shared.unwatch());
        assert!(orders.is_empty() && !shared.is_up());
    }
}
