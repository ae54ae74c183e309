//! The files of PyTorch's flight recorder, one for each rank: pickle, or JSON.
//! Not what a trace (`trace`) or the search for a hang (`hang`) makes of them.
//!
//! Format: PyTorch, torch/csrc/distributed/c10d/FlightRecorderDetail.hpp (version 2.10 of 2.15.0; 2.x since 2.4).

mod pickle;

use std::{borrow::Cow, collections::HashMap, fmt};

use memchr::memmem;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The largest dump, bytes: it is held in memory as a whole.
pub(crate) const MAX_DUMP_BYTES: u64 = 256 << 20;

/// A text of a dump: of the dump's own bytes, where it is written there as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    /// As it is.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Any)
    }
}

/// A dump, as far as it is used.
#[derive(Debug, Deserialize)]
pub(crate) struct Dump<'a> {
    version: String,
    #[serde(default)]
    pub pg_config: HashMap<String, Group>,
    /// By the number of the process group, as text. Gloo counts its sends and receives, too.
    #[serde(default)]
    pub pg_status: HashMap<String, Status>,
    #[serde(borrow, default)]
    pub entries: Vec<Entry<'a>>,
}

/// A process group.
#[derive(Debug, Deserialize)]
pub(crate) struct Group {
    /// `[0, 1]`: ranks of the job.
    pub ranks: String,
}

/// How far a process group came.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// The number of the last collective that is over; -1 or 0: none.
    pub last_completed_collective: Number,
}

/// A number, which JSON dumps write as text here and there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Number(pub Option<i64>);

/// A call.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry<'a> {
    /// Name and description of the group.
    #[serde(borrow)]
    pub process_group: (Text<'a>, Text<'a>),
    #[serde(default)]
    pub pg_id: Number,
    #[serde(default)]
    pub record_id: Number,
    #[serde(default)]
    pub collective_seq_id: i64,
    #[serde(default)]
    pub p2p_seq_id: i64,
    #[serde(default)]
    pub is_p2p: bool,
    #[serde(borrow)]
    pub profiling_name: Text<'a>,
    pub time_created_ns: Option<i64>,
    pub duration_ms: Option<f64>,
    #[serde(default)]
    pub input_sizes: Vec<Vec<i64>>,
    #[serde(borrow, default)]
    pub input_dtypes: Vec<Text<'a>>,
    #[serde(default)]
    pub output_sizes: Vec<Vec<i64>>,
    #[serde(borrow, default)]
    pub output_dtypes: Vec<Text<'a>>,
    /// `scheduled`, `started` or `completed`. Gloo's calls stay `scheduled`.
    #[serde(borrow, default)]
    pub state: Text<'a>,
    /// The library has done with it. Of NCCL's calls that are not completed: it timed out.
    #[serde(default)]
    pub retired: bool,
    /// When the watchdog saw it begin on the GPU: only with TORCH_NCCL_ENABLE_TIMING. 0 in JSON where there is none.
    pub time_discovered_started_ns: Option<i64>,
    /// Who called it, innermost first.
    #[serde(default)]
    pub frames: Frames,
}

/// The stack of a call: of it only the first place outside of PyTorch is kept.
#[derive(Debug, Default)]
pub(crate) struct Frames(pub Option<String>);

/// Whether a file that begins so is a dump.
pub(crate) fn is_dump(head: &[u8]) -> bool {
    let keys: [&[u8]; 3] = [b"\"pg_config\"", b"\"comm_lib_version\"", b"\"profiling_name\""];
    match head.trim_ascii_start() {
        [0x80, 2..=5, ..] => true,
        [b'{', ..] => keys.iter().any(|key| memmem::find(head, key).is_some()),
        _ => false,
    }
}

impl<'a> Dump<'a> {
    /// Reads a dump as pickle or, from a `{`, as JSON.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Dump<'a>, String> {
        let dump: Dump<'a> = match bytes.trim_ascii_start().first() {
            Some(b'{') => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
            _ => pickle::from_slice(bytes).map_err(|error| error.to_string())?,
        };
        match dump.version.split('.').next() {
            // Minor versions add fields, major ones change them (FlightRecorderDetail.hpp).
            Some("1" | "2") => Ok(dump),
            _ => Err(format!("it has version {}; this busbw reads up to 2", dump.version)),
        }
    }

    /// The group of this name in entries, if the dump lists its ranks.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        // Gloo's own group is called "" there and "0" in its entries: no other can be meant where there is one.
        let alone = || {
            self.pg_config.len() == 1
                && self.entries.iter().all(|one| one.process_group.0.as_str() == name)
        };
        self.pg_config.get(name).or_else(|| self.pg_config.values().next().filter(|_| alone()))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or one as text")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(Some(value)))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(i64::try_from(value).ok()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().ok()))
            }
            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }
        }
        from.deserialize_any(Any)
    }
}

/// The longest place of a call that is kept, bytes.
const MAX_PLACE_BYTES: usize = 120;

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Frame<'a> {
            #[serde(borrow)]
            name: Text<'a>,
            #[serde(borrow)]
            filename: Text<'a>,
            line: Number,
        }
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Frames;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("frames of a stack")
            }
            fn visit_unit<E: Error>(self) -> Result<Frames, E> {
                Ok(Frames(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Frames, A::Error> {
                let mut found = None;
                while found.is_none()
                    && let Some(Frame { name, filename, line }) = all.next_element()?
                {
                    let (name, filename) = (name.as_str(), filename.as_str());
                    let own = !filename.is_empty()
                        && !filename.contains("/torch/")
                        && !filename.starts_with('<')
                        && filename.ends_with(".py");
                    if own {
                        let line = line.0.unwrap_or_default();
                        let mut place = format!("{filename}:{line} ({name})");
                        place.truncate(place.floor_char_boundary(MAX_PLACE_BYTES));
                        found = Some(place);
                    }
                }
                while all.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Frames(found))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Frames, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Frames(None))
            }
        }
        from.deserialize_any(All)
    }
}
