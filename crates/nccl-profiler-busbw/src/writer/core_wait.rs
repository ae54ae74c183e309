//! What the process's threads waited for a core while they could have run.
//! Not the lateness of the writer itself.

use std::{collections::HashMap, fs};

/// Threads that are read: each is a file of /proc, about 10 us.
const THREADS: usize = 512;

/// The waits so far, by thread.
#[derive(Debug, Default)]
pub(super) struct CoreWait {
    threads: HashMap<u32, u64>,
}

impl CoreWait {
    /// ns that threads waited since the last call, all together. None: the kernel does not say it, or this is the first call.
    /// What a thread waited that ended meanwhile is not in it.
    pub fn since(&mut self) -> Option<u64> {
        let first = self.threads.is_empty();
        let mut now = HashMap::with_capacity(self.threads.len());
        for thread in fs::read_dir("/proc/self/task").ok()?.flatten().take(THREADS) {
            let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
            let text = fs::read_to_string(thread.path().join("schedstat"));
            // "time on a core, time waiting for one, slices" (Documentation/scheduler/sched-stats.rst).
            let wait = text.ok().and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
            if let (Some(number), Some(wait)) = (number, wait) {
                now.insert(number, wait);
            }
        }
        let more = |(thread, wait): (&u32, &u64)| {
            wait.saturating_sub(self.threads.get(thread).copied().unwrap_or(0))
        };
        let sum = now.iter().map(more).sum();
        let readable = !now.is_empty();
        self.threads = now;
        (readable && !first).then_some(sum)
    }
}
