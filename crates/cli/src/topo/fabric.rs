//! A fabric file as `busbw topo` shows it: a picture, or its switches and links as JSON.
//! Not the host that it is made of: `busbw topo MACHINE` draws that.

use std::path::Path;

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use busbw_hardware::fabric::{LinkClass, Shape, picture};
use busbw_render::answer::{answer, json_line};
use serde::Serialize;
use std::io::Write;

use crate::fabric_source;

/// Version of the JSON.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'r> {
    fabric_schema: u32,
    busbw: &'static str,
    name: &'r str,
    machine: &'r str,
    gpus: usize,
    switches: Vec<usize>,
    links: Vec<LinkClass>,
    shape: &'r Shape,
}

/// Draws a fabric file.
///
/// # Errors
/// The file is no fabric file, or stdout cannot be written.
pub fn show(file: &Path, json: bool) -> Result<Exit> {
    let fabric = fabric_source::read(file)?;
    let shape = Shape::of(&fabric).map_err(|wrong| ExitError::new(Exit::Usage, wrong.why))?;
    answer(|out, _| match json {
        true => json_line(
            out,
            &Report {
                fabric_schema: SCHEMA,
                busbw: env!("CARGO_PKG_VERSION"),
                name: &fabric.name,
                machine: &fabric.machine.name,
                gpus: fabric.gpus(),
                switches: shape.switches(),
                links: shape.classes(&fabric),
                shape: &shape,
            },
        ),
        false => out.write_all(picture::picture(&fabric, &shape).as_bytes()),
    })?;
    Ok(Exit::Ok)
}
