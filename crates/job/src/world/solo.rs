//! A world of one rank without a supervisor, for backends that move no data.
//! Not a substitute for several ranks.

use std::{sync::mpsc::Sender, time::Instant};

use super::{HubEvent, World, WorldError};

/// One rank in this process; its reports go to a channel.
#[derive(Debug)]
pub struct Solo<E> {
    host: String,
    reports: Sender<E>,
}

impl<E> Solo<E> {
    /// A world whose reports arrive at the other end of `reports`.
    pub fn new(host: &str, reports: Sender<E>) -> Solo<E> {
        Solo { host: host.to_owned(), reports }
    }
}

impl<E: From<HubEvent>> World for Solo<E> {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn local(&self) -> usize {
        0
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn allgather(&mut self, bytes: &[u8], _: Option<Instant>) -> Result<Vec<Vec<u8>>, WorldError> {
        Ok(vec![bytes.to_vec()])
    }

    fn barrier(&mut self, _: Option<Instant>) -> Result<(), WorldError> {
        Ok(())
    }

    fn report(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        self.reports
            .send(HubEvent::Report { rank: 0, bytes: bytes.to_vec() }.into())
            .map_err(|_| WorldError::Aborted("the reader of stdout is gone".to_owned()))
    }

    fn abort(&mut self, why: &str) {
        let _ = self.reports.send(HubEvent::Failed { rank: 0, why: why.to_owned() }.into());
    }
}
