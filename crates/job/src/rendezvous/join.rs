//! How a worker joins: it connects to the coordinator and shakes hands, again and again until the coordinator is there.
//! Not the handshake (`handshake`), and not what the worker does then (`busbw-runner`).

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use busbw_core::exit::{Exit, ExitError};
use rustix::process::Pid;

use super::{
    JoinRequest,
    address::Rendezvous,
    framed_stream::FramedStream,
    handshake::{self, Handshake},
    is_parent,
};

/// Pause after the first attempt to connect, and the longest pause after later ones.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(20);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(300);

impl Rendezvous {
    /// Connects to the coordinator and completes the handshake, with retries until `limit` as long as `parent` is this
    /// process's parent.
    ///
    /// # Errors
    /// What the last attempt met.
    pub fn join(
        &self,
        request: &JoinRequest,
        limit: Duration,
        parent: Option<Pid>,
    ) -> Result<FramedStream> {
        let deadline = Instant::now() + limit;
        let (mut redirect, mut pause) = (Vec::new(), FIRST_RETRY_DELAY);
        for attempt in 0.. {
            let answer = self
                .connect(&redirect, attempt)
                .map_err(anyhow::Error::from)
                .and_then(|stream| handshake::shake_hands(stream, self, request));
            let error = match answer {
                Ok(Handshake::Joined(stream)) => return Ok(stream),
                Ok(Handshake::Redirected(endpoints)) if redirect.is_empty() => {
                    redirect = endpoints;
                    continue;
                }
                Ok(Handshake::Redirected(_)) => {
                    anyhow!("rendezvous redirect loop: its endpoint redirected this process again")
                }
                Err(error) => error,
            };
            if !is_parent(parent) {
                bail!("the launcher has exited");
            }
            if Instant::now() >= deadline {
                let over = match (self.interface(), redirect.as_slice()) {
                    (_, [endpoint, ..]) => format!(", which redirects to {endpoint}"),
                    (Some(chosen), []) => format!(" over --interface {}", chosen.requested()),
                    (None, []) => String::new(),
                };
                let text = format!(
                    "process {} of {} on {} could not join process 0 {}{over} within {} s: {error:#}",
                    request.process,
                    request.size,
                    request.host,
                    self.describe(),
                    limit.as_secs()
                );
                return Err(ExitError::new(Exit::Timeout, text).into());
            }
            // Backoff, spread by process number: there may be thousands of workers.
            std::thread::sleep(pause + Duration::from_millis(request.process as u64 * 7 % 50));
            pause = (pause * 3 / 2).min(MAX_RETRY_DELAY);
        }
        unreachable!("the loop over attempts has no end")
    }
}
