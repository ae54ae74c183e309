//! Running without ranks, in this process, for backends that move nothing.
//! Not for backends whose ranks can crash: those get processes.

use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result};
use engine::{HubEvent, Solo};
use model::{
    cost::CostModel,
    exit::Exit,
    plan::Plan,
    record::{Device, Row, Status},
};

use super::{Description, guard};
use crate::{
    backend::fake::Fake,
    machine,
    measure::{Report, Session},
    outputs::{Ended, Flow, Outputs},
};

/// What happens meanwhile.
enum Event {
    Hub(HubEvent),
    Signal(i32),
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
    model: CostModel,
    describe: &Description,
    outputs: &mut Outputs,
) -> Result<Ended> {
    let (events, heard) = mpsc::channel();
    guard::watch(events.clone(), Event::Signal)?;
    if outputs.begin(describe.with_devices(devices(plan)))? == Flow::ReaderGone {
        return Ok(stopped(Status::ReaderGone, Exit::Ok, None));
    }
    for launch in 0..plan.sampling.launches {
        let (plan, events) = (plan.clone(), events.clone());
        std::thread::Builder::new()
            .name("fake".to_owned())
            .spawn(move || {
                let done = measure(&plan, model, launch, events.clone());
                let _ = events.send(Event::Done(done));
            })
            .context("cannot start a thread")?;
        loop {
            match heard.recv().context("the measuring thread vanished")? {
                Event::Hub(HubEvent::Report { bytes, .. }) => {
                    if let Some(row) = row(&bytes)
                        && outputs.row(row)? == Flow::ReaderGone
                    {
                        return Ok(stopped(Status::ReaderGone, Exit::Ok, None));
                    }
                }
                Event::Hub(_) => {}
                Event::Signal(signal) => {
                    let text = format!("interrupted by {}", guard::signal_name(signal));
                    return Ok(stopped(Status::Interrupted, Exit::Interrupted, Some(text)));
                }
                Event::Done(Ok(())) => break,
                Event::Done(Err(text)) => {
                    return Ok(stopped(Status::Failed, Exit::Internal, Some(text)));
                }
            }
        }
    }
    Ok(stopped(Status::Complete, Exit::Ok, None))
}

fn measure(
    plan: &Plan,
    model: CostModel,
    launch: u32,
    events: Sender<Event>,
) -> Result<(), String> {
    let mut world = Solo::new(&machine::host_name(), events);
    let mut backend = Fake::new(plan, model);
    Session::new(plan, &mut world, &mut backend, launch, Box::new(|_, _| {}))
        .run()
        .map_err(|e| e.to_string())
}

fn row(bytes: &[u8]) -> Option<Row> {
    match serde_json::from_slice(bytes) {
        Ok(Report::Row(row)) => Some(*row),
        _ => None,
    }
}

fn stopped(status: Status, exit: Exit, message: Option<String>) -> Ended {
    let peak_rank_bytes = machine::peak_resident(&machine::Root::system());
    Ended { status, exit, message, peak_rank_bytes }
}

fn devices(plan: &Plan) -> Vec<Device> {
    (0..plan.ranks())
        .map(|rank| Device {
            rank,
            group: plan.colour(rank),
            pid: std::process::id(),
            host: machine::host_name(),
            device: plan.first_device + rank,
            address: format!("0000:{:02x}:00", plan.first_device + rank),
            name: "fake".to_owned(),
        })
        .collect()
}
