//! JSON: busbw's records in both forms, imported runs, reports of nccl-tests' `-J`, and statistics of busbw's net
//! plugin; several of them may follow each other, line by line. Any other JSON may hold the lines of a log (`wrapped`).
//! Not what is in them (`busbw-store`, `crate::measurement`, `nccl_report`).

use std::io::{self, BufRead, Cursor, Read};

use crate::measurement::{Folded, Form, Measurement, Source, Test};
use busbw_core::record::SCHEMA;
use nccl_plugin_abi::net_stats::NetStats;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    ImportError, Lines as Fate, Text, lines, nccl_report::report, text_of, watch, wrapped,
};
use busbw_store as store;

/// Maximum size of an object, or of a record's lines, bytes: each is held in memory as a whole.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// Hands on every run in a source that begins with `{`, or with `[` and what begins an element.
pub(super) fn each(
    from: &mut dyn BufRead,
    name: &str,
    each: &mut dyn FnMut(Measurement),
) -> Result<Fate, ImportError> {
    let mut lines = Lines { from, name, number: 0 };
    let Some(mut text) = lines.next()? else { return Ok(Fate::default()) };
    let Ok(mut head) = serde_json::from_str::<Head>(&text) else {
        lines.rest(&mut text)?;
        return match serde_json::from_str::<Head>(&text) {
            Ok(head) if !head.is_strange() => {
                each(lines.object(&head, &text)?);
                Ok(Fate::default())
            }
            // A list is no head.
            Ok(_) => lines.texts(&text, each),
            Err(_) if text.trim_start().starts_with('[') => lines.texts(&text, each),
            Err(error) => Err(lines.refuse(format!("damaged JSON: {error}"))),
        };
    };
    if head.is_strange() && wrapped::text(&text).is_some() {
        return text_of(&mut Cursor::new(text).chain(lines.from), name, each);
    }
    loop {
        if text.contains("\"kind\":\"process\"") {
            lines.rest(&mut text)?;
            watch::of_text(&text, name)?.into_iter().for_each(each);
            return Ok(Fate::default());
        }
        let begun = lines.number;
        let mut next = lines.next()?;
        if head.kind.is_some() {
            while let Some(line) = next.take_if(|line| !begins_record(line)) {
                text.push_str(&line);
                if text.len() as u64 > MAX_JSON_BYTES {
                    return Err(lines.too_large());
                }
                next = lines.next()?;
            }
            let mut measurement = Measurement::from_record(store::parse(&text, name)?, name);
            measurement.source.line = begun;
            each(measurement);
        } else {
            each(lines.object(&head, &text)?);
        }
        match next {
            Some(line) => (text, head) = (line.clone(), lines.parse(&line)?),
            None => return Ok(Fate::default()),
        }
    }
}

/// Whether a line is a record's first, or an object that stands for itself.
fn begins_record(line: &str) -> bool {
    // Within a string the quotes would be escaped.
    ["\"kind\":\"run\"", "\"kind\": \"run\"", "{\"run\":", "{\"run\": "]
        .iter()
        .any(|mark| line.contains(mark))
}

/// The keys of an object that show what it is.
#[derive(Deserialize)]
struct Head {
    kind: Option<IgnoredAny>,
    run: Option<HeadRun>,
    results: Option<IgnoredAny>,
    config: Option<IgnoredAny>,
    sweep_schema: Option<IgnoredAny>,
    busbw_net_stats: Option<IgnoredAny>,
}

impl Head {
    /// Whether it is none of the forms that are read here.
    fn is_strange(&self) -> bool {
        let Head { kind, run, results, config, sweep_schema, busbw_net_stats } = self;
        kind.is_none()
            && run.is_none()
            && sweep_schema.is_none()
            && busbw_net_stats.is_none()
            && (results.is_none() || config.is_none())
    }
}

#[derive(Deserialize)]
struct HeadRun {
    schema: Option<u64>,
    imported: Option<IgnoredAny>,
}

/// Lines that are not blank, with their ends.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    name: &'a str,
    /// Of the line that was read last, counted from 1.
    number: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<String>, ImportError> {
        loop {
            let mut line = String::new();
            let read = (&mut *self.from).take(MAX_JSON_BYTES + 1).read_line(&mut line);
            let read = read.map_err(|source| self.fail(source))? as u64;
            self.number += u64::from(read > 0);
            match read {
                0 => return Ok(None),
                read if read > MAX_JSON_BYTES => return Err(self.too_large()),
                _ if line.trim().is_empty() => {}
                _ => return Ok(Some(line)),
            }
        }
    }

    fn rest(&mut self, text: &mut String) -> Result<(), ImportError> {
        let room = MAX_JSON_BYTES + 1 - text.len() as u64;
        let read = (&mut *self.from).take(room).read_to_string(text);
        read.map_err(|source| self.fail(source))?;
        if text.len() as u64 > MAX_JSON_BYTES { Err(self.too_large()) } else { Ok(()) }
    }

    fn parse<'t, T: Deserialize<'t>>(&self, text: &'t str) -> Result<T, ImportError> {
        serde_json::from_str(text).map_err(|e| self.refuse(format!("damaged JSON: {e}")))
    }

    /// The lines of a log that JSON of another form holds.
    fn texts(&self, json: &str, each: &mut dyn FnMut(Measurement)) -> Result<Fate, ImportError> {
        let mut text = Text::new(self.name, each);
        wrapped::texts(json, &mut |part| lines::split(part, &mut |line: &str| text.line(line)))
            .map_err(|error| self.refuse(format!("damaged JSON: {error}")))?;
        text.finish().map_err(|_| self.strange())
    }

    /// An object that is a run by itself.
    fn object(&self, head: &Head, text: &str) -> Result<Measurement, ImportError> {
        match head {
            Head { run: Some(HeadRun { imported: Some(_), schema }), .. } => {
                if let Some(newer) = schema.filter(|schema| *schema > u64::from(SCHEMA)) {
                    return Err(self.refuse(format!(
                        "it has schema {newer}; this busbw reads up to {SCHEMA}: use a newer one"
                    )));
                }
                let folded = self.parse::<Folded>(text)?;
                Ok(folded.checked().map_err(|why| self.refuse(why))?.into())
            }
            Head { kind: Some(_), .. } | Head { run: Some(_), .. } => {
                let mut measurement =
                    Measurement::from_record(store::parse(text, self.name)?, self.name);
                measurement.source.line = self.number.max(1);
                Ok(measurement)
            }
            Head { busbw_net_stats: Some(_), .. } => self.net_stats(self.parse(text)?),
            Head { results: Some(_), config: Some(_), .. } => report(&self.parse(text)?, self.name)
                .ok_or_else(|| {
                    self.refuse("a report of nccl-tests without its results".to_owned())
                }),
            Head { sweep_schema: Some(_), .. } => Err(self.refuse(
                "the result of a sweep: `busbw show` prints it, and its launches are records of their own"
                    .to_owned(),
            )),
            _ => Err(self.strange()),
        }
    }

    /// Counters of busbw's net plugin in one process, without a run.
    fn net_stats(&self, stats: NetStats) -> Result<Measurement, ImportError> {
        stats.check().map_err(|why| self.refuse(why))?;
        let name = format!("busbw's net plugin on {}, process {}", stats.host, stats.pid);
        Ok(Measurement {
            source: Source {
                name: self.name.to_owned(),
                line: self.number.max(1),
                form: Form::NetStats,
                version: None,
            },
            test: Test { name: Some(name), ..Test::default() },
            paths: vec![stats],
            ..Measurement::default()
        })
    }

    fn strange(&self) -> ImportError {
        self.refuse(
            "JSON that is neither a record of busbw, its net plugin's statistics, nor a report of nccl-tests (-J): \
             it has neither `kind`, `run`, `busbw_net_stats`, nor `results`, and holds no lines of a log"
                .to_owned(),
        )
    }

    fn too_large(&self) -> ImportError {
        self.refuse(format!("JSON of more than {MAX_JSON_BYTES} bytes is not read"))
    }

    fn fail(&self, source: io::Error) -> ImportError {
        if source.kind() == io::ErrorKind::InvalidData {
            return self.refuse("it begins like JSON, but is not UTF-8".to_owned());
        }
        ImportError::File { name: self.name.to_owned(), source }
    }

    fn refuse(&self, why: String) -> ImportError {
        ImportError::Json { name: self.name.to_owned(), why }
    }
}
