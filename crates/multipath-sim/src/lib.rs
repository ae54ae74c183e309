//! Simulated networks for the multipath transport: links with rate, delay, queues and faults, in virtual time.
//! Not the transport (`busbw-multipath`).

#![forbid(unsafe_code)]
