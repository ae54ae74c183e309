//! `busbw schema`: prints the JSON schema of what a command writes, as it is in docs/schemas.
//! Not the writing, and not the reading.

use std::io::Write;

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use busbw_render::answer::answer;
use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::{options::SchemaArguments, schemas::SCHEMAS};

/// Prints a schema, or the names of all.
///
/// # Errors
/// stdout cannot be written.
pub fn run(arguments: &SchemaArguments) -> Result<Exit> {
    let Some(asked) = SCHEMAS.iter().find(|one| Some(one.name) == arguments.name.as_deref()) else {
        answer(|out, _| {
            SCHEMAS.iter().try_for_each(|one| writeln!(out, "{:<8}  {}", one.name, one.of))
        })?;
        return Ok(Exit::Ok);
    };
    let text = decompress_to_vec_zlib(asked.packed)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("cannot unpack the schema {}", asked.name))?;
    answer(|out, _| out.write_all(&text))?;
    Ok(Exit::Ok)
}
