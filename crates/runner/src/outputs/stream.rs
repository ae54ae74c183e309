//! A standard stream whose reader may pause. A thread of its own writes, and callers wait for at
//! most `FLUSH_TIMEOUT`, so that a pager cannot keep the supervisor from following its ranks.
//! Not a buffer for speed: usually every write is complete when the call returns.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};

/// How long a flush waits for the reader before the supervisor goes on.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// A standard stream. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that no write has started with.
    queue: VecDeque<Vec<u8>>,
    /// Whether a write is in progress.
    writing: bool,
    /// The first error; nothing is written after it.
    failure: Option<(Option<i32>, io::ErrorKind)>,
}

impl State {
    fn check(&self) -> io::Result<()> {
        match self.failure {
            None => Ok(()),
            Some((Some(code), _)) => Err(io::Error::from_raw_os_error(code)),
            Some((None, kind)) => Err(kind.into()),
        }
    }

    /// How long a flush waits: a moment, but not again for a reader that was waited for before.
    fn flush_timeout(&self) -> Duration {
        if self.writing && !self.queue.is_empty() { Duration::ZERO } else { FLUSH_TIMEOUT }
    }

    fn is_settled(&self) -> bool {
        self.failure.is_some() || (self.queue.is_empty() && !self.writing)
    }
}

impl Stream {
    /// Writes to `out` from now on, each piece with one write and a flush.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn new(mut out: impl Write + Send + 'static) -> Result<Stream> {
        let shared = Arc::new(Shared::default());
        let stream = Stream { shared: Arc::clone(&shared) };
        std::thread::Builder::new()
            .name("stream".to_owned())
            .spawn(move || {
                loop {
                    let mut state = lock(&shared);
                    let Some(piece) = state.queue.pop_front() else {
                        drop(shared.changed.wait(state));
                        continue;
                    };
                    state.writing = true;
                    drop(state);
                    let written = out.write_all(&piece).and_then(|()| out.flush());
                    let mut state = lock(&shared);
                    state.writing = false;
                    if let Err(error) = written {
                        state.failure = Some((error.raw_os_error(), error.kind()));
                        state.queue.clear();
                    }
                    shared.changed.notify_all();
                }
            })
            .context("cannot start a thread for a standard stream")?;
        Ok(stream)
    }

    /// Writes a piece if nothing else waits to be written, without waiting for it.
    pub(super) fn offer(&self, piece: Vec<u8>) {
        let mut state = lock(&self.shared);
        if state.failure.is_none() && state.is_settled() {
            state.queue.push_back(piece);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until everything is written, for `limit` at most. Returns whether it is.
    ///
    /// # Errors
    /// A write has failed.
    pub(super) fn settle(&self, limit: Duration) -> io::Result<bool> {
        let state = lock(&self.shared);
        let waiting = self.shared.changed.wait_timeout_while(state, limit, |s| !s.is_settled());
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        Ok(state.is_settled())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = lock(&self.shared);
        state.check()?;
        state.queue.push_back(bytes.to_vec());
        self.shared.changed.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flush_timeout = lock(&self.shared).flush_timeout();
        self.settle(flush_timeout).map(drop)
    }
}

/// A panic in another thread leaves the state valid.
fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Nothing is read before all is handed in. The flush of the first piece that does not fit waits a
    /// moment, and the flush of no later one.
    #[test]
    fn a_reader_that_pauses_holds_nobody_up_and_misses_nothing() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer).unwrap();
        let piece = vec![b'x'; 50_000];
        for _ in 0..5 {
            stream.write_all(&piece).unwrap();
            stream.flush().unwrap();
            // Its thread may be late.
            while lock(&stream.shared).queue.front().is_some() && !lock(&stream.shared).writing {
                std::thread::yield_now();
            }
        }
        assert_eq!(lock(&stream.shared).flush_timeout(), Duration::ZERO);
        assert!(!stream.settle(Duration::ZERO).unwrap());
        let mut read = vec![0; 5 * piece.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(stream.settle(Duration::from_secs(60)).unwrap());
        assert_eq!(lock(&stream.shared).flush_timeout(), FLUSH_TIMEOUT);
        assert!(read.iter().all(|byte| *byte == b'x'));
    }

    /// Behind what waits, a heartbeat would tell of the past.
    #[test]
    fn what_is_offered_never_waits() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer).unwrap();
        stream.offer(b"first ".to_vec());
        assert!(stream.settle(Duration::from_secs(60)).unwrap());
        stream.write_all(&vec![b'x'; 100_000]).unwrap();
        stream.offer(b"second ".to_vec());
        let mut read = vec![0; 6 + 100_000];
        reader.read_exact(&mut read).unwrap();
        assert!(stream.settle(Duration::from_secs(60)).unwrap());
        stream.offer(b"third".to_vec());
        let mut rest = [0; 5];
        reader.read_exact(&mut rest).unwrap();
        assert_eq!((&read[..6], &rest), (&b"first "[..], b"third"));
    }

    #[test]
    fn what_goes_wrong_is_told_at_once_and_ever_after() {
        let (reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer).unwrap();
        drop(reader);
        stream.write_all(b"row\n").unwrap();
        assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(stream.write(b"row\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(stream.settle(Duration::ZERO).is_err());
    }
}
