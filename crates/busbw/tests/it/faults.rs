//! What becomes of a run when something breaks: ranks killed and stopped, signals, readers that go
//! away, full disks, little memory, flipped bits. Real processes, each bounded in time.
//! Not whether undisturbed runs measure and print right.

mod corruption;
mod disk;
mod interrupt;
mod intrusion;
mod kill;
mod launched;
mod matrix;
mod memory;
mod paused;
mod record;
mod signals;
mod slow;
mod stop;
mod streams;
mod supervisor;
