//! Running without ranks, in this process, for backends that move nothing.
//! Not for backends whose ranks can crash: those get processes.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    plan::Plan,
    record::{Device, Row, Status},
};
use busbw_job::world::{HubEvent, Solo};

use super::Description;
use crate::signals::{self, Guard};
use crate::{
    backend::{self, Bound, Cores, Joined, RankProcess},
    measure::{Report, Session},
    outputs::{Ended, Flow, Outputs},
};
use busbw_host::machine;

/// What happens meanwhile.
enum Event {
    Hub(HubEvent),
    Signal,
    Done(Result<(), String>),
}

impl From<HubEvent> for Event {
    fn from(event: HubEvent) -> Event {
        Event::Hub(event)
    }
}

/// Runs every launch of the plan.
pub(super) fn run(
    plan: &Plan,
    describe: &Description,
    guard: &Guard,
    outputs: &mut Outputs,
) -> Result<Ended> {
    let (sender, events) = mpsc::channel();
    let (signalled, signals) = mpsc::channel();
    let wake = sender.clone();
    guard.relay(move |signal| {
        let _ = signalled.send(signal);
        let _ = wake.send(Event::Signal);
    });
    let process = process(plan, describe)?;
    let flow = outputs.begin(describe.with_devices(devices(plan, process.as_ref())?, 0))?;
    if let Some(ended) = early_end(flow, outputs, &signals)? {
        return Ok(ended);
    }
    for launch in 0..plan.sampling.launches {
        let (plan, process, sender) = (plan.clone(), Arc::clone(&process), sender.clone());
        std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn(move || {
                let done = measure(&plan, process.as_ref(), launch, sender.clone());
                let _ = sender.send(Event::Done(done));
            })
            .context("cannot start a thread")?;
        loop {
            let mut flow = Flow::Continue;
            match events.recv().context("the measuring thread ended without a result")? {
                Event::Hub(HubEvent::Report { bytes, .. }) => {
                    if let Some(row) = row(&bytes) {
                        flow = outputs.row(row)?;
                    }
                }
                Event::Hub(_) | Event::Signal => {}
                Event::Done(Ok(())) => break,
                Event::Done(Err(text)) => {
                    return Ok(stopped(Status::Failed, Exit::Internal, Some(text)));
                }
            }
            if let Some(ended) = early_end(flow, outputs, &signals)? {
                return Ok(ended);
            }
        }
    }
    Ok(stopped(Status::Complete, Exit::Ok, None))
}

/// How the run ends early, if it does: a signal came, or the reader went away. Waits for one that
/// pauses.
fn early_end(
    mut flow: Flow,
    outputs: &mut Outputs,
    signals: &Receiver<i32>,
) -> Result<Option<Ended>> {
    loop {
        if let Ok(signal) = signals.try_recv() {
            let text = format!("interrupted by {}", signals::signal_name(signal));
            return Ok(Some(stopped(Status::Interrupted, Exit::Interrupted, Some(text))));
        }
        match flow {
            Flow::Continue => return Ok(None),
            Flow::ReaderGone => return Ok(Some(stopped(Status::ReaderGone, Exit::Ok, None))),
            Flow::Held => flow = outputs.settle(Duration::from_millis(50))?,
        }
    }
}

fn measure(
    plan: &Plan,
    process: &dyn RankProcess,
    launch: u32,
    events: Sender<Event>,
) -> Result<(), String> {
    let mut world = Solo::new(&machine::host_name(), events);
    let Bound { mut open, .. } = process.bind(0).map_err(|e| e.to_string())?;
    let stopped = Box::new(|| false);
    let joined = Joined { plan, world: &mut world, stopped, shared: None };
    let mut backend = open(joined).map_err(|e| e.to_string())?;
    Session::new(plan, &mut world, backend.as_mut(), launch, Box::new(|_, _| {}))
        .run()
        .map_err(|e| e.to_string())
}

fn row(bytes: &[u8]) -> Option<Row> {
    match Report::from_bytes(bytes) {
        Ok(Report::Row(row)) => Some(*row),
        _ => None,
    }
}

fn stopped(status: Status, exit: Exit, message: Option<String>) -> Ended {
    let peak_rank_bytes = machine::peak_resident(&machine::Root::system());
    Ended { status, exit, message, peak_rank_bytes, ..Ended::complete() }
}

/// This process, prepared for all ranks.
fn process(plan: &Plan, describe: &Description) -> Result<Arc<dyn RankProcess>> {
    let factory = backend::factory(&plan.backend);
    let cores = Cores { cpu: &describe.run.machine.cpu, alike: true };
    let devices = factory.devices(plan, &describe.resources, &cores)?;
    Ok(factory.process(&devices.assigned)?.into())
}

fn devices(plan: &Plan, process: &dyn RankProcess) -> Result<Vec<Device>> {
    let (host, pid) = (machine::host_name(), std::process::id());
    let devices = process.bind(0)?.devices.into_iter().enumerate();
    Ok(devices.map(|(rank, device)| device.of_rank(rank, plan.colour(rank), pid, &host)).collect())
}
