//! A helper thread of a connection, which moves pieces over its sockets: persistentSocketThread of NCCL.
//! Not cutting messages into pieces.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use nccl_plugin_abi::{Status, net::MAX_REQUESTS};

use super::socket::{Direction, Socket};
use nccl_plugin_busbw::network::{Failure, Result};

/// A piece of a message, and how much of it has moved.
#[derive(Default)]
struct Task {
    used: AtomicBool,
    data: AtomicPtr<u8>,
    size: AtomicUsize,
    socket: AtomicUsize,
    offset: AtomicUsize,
}

/// State that the thread and its connection share.
struct Queue {
    direction: Direction,
    sockets: Arc<[Socket]>,
    per_thread: usize,
    tasks: Box<[Task]>,
    next: AtomicUsize,
    stop: AtomicBool,
    broken: OnceLock<(Status, String)>,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The thread, which ends as this is dropped.
pub(super) struct Helper {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts one of `threads` helpers over all these sockets.
    pub fn started(
        direction: Direction,
        sockets: &Arc<[Socket]>,
        threads: usize,
    ) -> Result<Helper> {
        let per_thread = sockets.len() / threads;
        let queue = Arc::new(Queue {
            direction,
            sockets: sockets.clone(),
            per_thread,
            tasks: (0..MAX_REQUESTS * per_thread).map(|_| Task::default()).collect(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            broken: OnceLock::new(),
            lock: Mutex::default(),
            wake: Condvar::new(),
        });
        let its = queue.clone();
        let thread =
            std::thread::Builder::new().name("reference-net".to_owned()).spawn(move || its.work());
        let thread =
            thread.map_err(|error| Failure::system("cannot start a helper thread", &error))?;
        Ok(Helper { queue, thread: Some(thread) })
    }

    /// Adds a piece. Returns its number.
    ///
    /// # Safety
    /// The memory is there until the piece is done, or this is dropped.
    pub unsafe fn add(&self, data: *mut u8, size: usize, socket: usize) -> Result<usize> {
        let queue = &self.queue;
        let number = queue.next.load(Ordering::Relaxed);
        let task = &queue.tasks[number];
        if task.used.load(Ordering::Relaxed) {
            return Err(Failure::new(Status::INTERNAL, "no free slot for a piece"));
        }
        task.data.store(data, Ordering::Relaxed);
        task.size.store(size, Ordering::Relaxed);
        task.socket.store(socket, Ordering::Relaxed);
        task.offset.store(0, Ordering::Relaxed);
        task.used.store(true, Ordering::Release);
        let _held = queue.held();
        queue.next.store((number + 1) % queue.tasks.len(), Ordering::Relaxed);
        queue.wake.notify_one();
        Ok(number)
    }

    /// Whether a piece has moved.
    pub fn is_done(&self, number: usize) -> Result<bool> {
        if let Some((status, text)) = self.queue.broken.get() {
            return Err(Failure::new(*status, text.as_str()));
        }
        let task = &self.queue.tasks[number];
        Ok(task.offset.load(Ordering::Acquire) == task.size.load(Ordering::Relaxed))
    }

    /// Frees the slot of a piece that has moved.
    pub fn forget(&self, number: usize) {
        self.queue.tasks[number].used.store(false, Ordering::Relaxed);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        {
            let _held = self.queue.held();
            self.queue.stop.store(true, Ordering::Relaxed);
            self.queue.wake.notify_one();
        }
        if let Some(thread) = self.thread.take() {
            // Its panic would have no receiver here.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn held(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs until it is stopped or a socket breaks.
    fn work(&self) {
        while !self.stopped() {
            let seen = self.next.load(Ordering::Relaxed);
            match self.pass() {
                Ok(true) => {}
                Ok(false) => {
                    let idle =
                        |(): &mut ()| seen == self.next.load(Ordering::Relaxed) && !self.stopped();
                    drop(self.wake.wait_while(self.held(), idle));
                }
                Err(failure) => {
                    let _ = self.broken.set((failure.status, failure.text));
                    return;
                }
            }
        }
    }

    /// Goes over all pieces once and stays with a group until it has moved, as NCCL does. Returns whether any byte moved.
    fn pass(&self) -> Result<bool> {
        let mut busy = false;
        for group in self.tasks.chunks(self.per_thread) {
            let mut again = true;
            while again && !self.stopped() {
                again = false;
                for task in group {
                    if !task.used.load(Ordering::Acquire) {
                        continue;
                    }
                    let (size, mut offset) =
                        (task.size.load(Ordering::Relaxed), task.offset.load(Ordering::Relaxed));
                    if offset < size {
                        let socket = &self.sockets[task.socket.load(Ordering::Relaxed)];
                        // SAFETY: as whoever added it says.
                        offset += unsafe {
                            socket.progress(
                                self.direction,
                                task.data.load(Ordering::Relaxed),
                                size,
                                offset,
                            )?
                        };
                        task.offset.store(offset, Ordering::Release);
                        busy = true;
                        again |= offset < size;
                    }
                }
            }
        }
        Ok(busy)
    }
}
