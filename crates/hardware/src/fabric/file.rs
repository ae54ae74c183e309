//! Fabric files: a fabric as people write it down in TOML. Every refusal names the line.
//! Not machine files (`machine::file`), of which a fabric file names one, and no reading of files.
//!
//! The format with examples: docs/fabric.md.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Fabric, Routing, Shape, Tier};
use crate::machine::{Machine, ready};

/// Why a text is no fabric file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct BadFabricFile {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there, and what is allowed.
    pub message: String,
}

/// Microseconds that a packet takes through a switch where a file does not say it. Assumed: makers publish 0.13 (InfiniBand,
/// NVIDIA QM8700 data sheet) up to about 1; the field report of issue 31 reckons with 1.5 with cables.
pub const SWITCH_LATENCY_US: f64 = 0.6;

/// Metres of cables where a file does not say them: within a rack, and between racks (IEEE 802.3ck copper reaches 2 m, active and
/// SR optics 30 to 100 m).
const CABLE_M: [f64; 2] = [2.0, 30.0];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    machine: Spanned<String>,
    #[serde(deserialize_with = "hosts")]
    hosts: Spanned<usize>,
    #[serde(default, deserialize_with = "rails")]
    rails: Option<Spanned<usize>>,
    #[serde(default, deserialize_with = "planes")]
    planes: Option<Spanned<usize>>,
    #[serde(default, deserialize_with = "routing")]
    routing: Option<Routing>,
    tiers: Spanned<Vec<Spanned<FileTier>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTier {
    name: Option<Spanned<String>>,
    #[serde(deserialize_with = "ports")]
    ports: Spanned<usize>,
    #[serde(deserialize_with = "rate")]
    rate: Spanned<f64>,
    #[serde(default, deserialize_with = "some_ports")]
    down: Option<Spanned<usize>>,
    #[serde(default, deserialize_with = "ratio")]
    oversubscription: Option<Spanned<f64>>,
    #[serde(default, deserialize_with = "some_ports")]
    spread: Option<Spanned<usize>>,
    #[serde(default, deserialize_with = "buffer")]
    buffer: Option<Spanned<u64>>,
    #[serde(default, deserialize_with = "latency")]
    latency_us: Option<Spanned<f64>>,
    #[serde(default, deserialize_with = "length")]
    cable_m: Option<Spanned<f64>>,
}

/// A number within bounds, or an error that says them.
fn within<'de, D: Deserializer<'de>, T>(
    from: D,
    bounds: std::ops::RangeInclusive<T>,
    what: &str,
) -> Result<Spanned<T>, D::Error>
where
    T: Deserialize<'de> + PartialOrd + std::fmt::Display,
{
    let value = Spanned::<T>::deserialize(from)?;
    if bounds.contains(value.get_ref()) {
        return Ok(value);
    }
    let (low, high) = (bounds.start(), bounds.end());
    Err(D::Error::custom(format!("{} is not {what}: {low} to {high}", value.get_ref())))
}

macro_rules! bounded {
    ($name:ident, $type:ty, $bounds:expr, $what:literal) => {
        fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<Spanned<$type>, D::Error> {
            within(from, $bounds, $what)
        }
    };
    (optional $name:ident, $type:ty, $bounds:expr, $what:literal) => {
        fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Spanned<$type>>, D::Error> {
            within(from, $bounds, $what).map(Some)
        }
    };
}

bounded!(hosts, usize, 1..=1_000_000, "a number of hosts");
bounded!(ports, usize, 2..=4096, "a number of ports of a switch");
bounded!(rate, f64, 0.001..=100_000.0, "a rate in Gb/s");
bounded!(optional rails, usize, 1..=1024, "a number of rails");
bounded!(optional planes, usize, 1..=1024, "a number of planes");
bounded!(optional some_ports, usize, 1..=4096, "a number of ports");
bounded!(optional ratio, f64, 0.01..=1000.0, "an oversubscription: ports down over ports up");
bounded!(optional buffer, u64, 1..=1_000_000_000_000, "a buffer in bytes");
bounded!(optional latency, f64, 0.0..=1000.0, "a latency in microseconds");
bounded!(optional length, f64, 0.0..=100_000.0, "a length in metres");

fn routing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Routing>, D::Error> {
    let text = String::deserialize(from)?;
    [Routing::Spray, Routing::Ecmp]
        .into_iter()
        .find(|known| known.name() == text)
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("`{text}` is no routing: `spray` or `ecmp`")))
}

/// The machine of a name: ready machines alone, for texts from anywhere.
///
/// # Errors
/// The names that there are.
pub fn ready_machine(name: &str) -> Result<Machine, String> {
    ready::ready(name).ok_or_else(|| {
        format!("no ready machine is called `{name}`; there are {}", ready::names().join(", "))
    })
}

/// Reads a fabric file. `machine_of` gives the machine of a name, ready (`ready_machine`) or the path of a machine file, or says
/// why there is none.
///
/// # Errors
/// The line at fault, what is wrong, and what is allowed.
pub fn parse(
    text: &str,
    machine_of: &dyn Fn(&str) -> Result<Machine, String>,
) -> Result<Fabric, BadFabricFile> {
    let at = |offset: usize| {
        let line = text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1;
        line.min(text.split('\n').count().max(1))
    };
    let file: File = toml::from_str(text).map_err(|error| BadFabricFile {
        line: at(error.span().map_or(0, |span| span.start)),
        message: error.message().trim_end().replace('\n', "; "),
    })?;
    build(&file, machine_of)
        .map_err(|(offset, message)| BadFabricFile { line: at(offset), message })
}

/// Where in the text, and why.
type Fault = (usize, String);

fn build(
    file: &File,
    machine_of: &dyn Fn(&str) -> Result<Machine, String>,
) -> Result<Fabric, Fault> {
    let place = file.machine.span().start;
    let machine = machine_of(file.machine.get_ref()).map_err(|why| (place, why))?;
    let tiers = file.tiers.get_ref();
    let last = tiers.len().saturating_sub(1);
    let mut built: Vec<Tier> = Vec::new();
    for (at, tier) in tiers.iter().enumerate() {
        let above = tiers.get(at + 1).map(|above| *above.get_ref().rate.get_ref());
        let one = tier_of(tier.get_ref(), at, (at < last).then_some(above).flatten())?;
        if built.iter().any(|known| known.name == one.name) {
            let place =
                tier.get_ref().name.as_ref().map_or(tier.span().start, |name| name.span().start);
            return Err((place, format!("two tiers are called `{}`", one.name)));
        }
        built.push(one);
    }
    let fabric = Fabric {
        name: file.name.clone().unwrap_or_else(|| "fabric".to_owned()),
        machine,
        hosts: *file.hosts.get_ref(),
        rails: file.rails.as_ref().map_or(1, |rails| *rails.get_ref()),
        planes: file.planes.as_ref().map_or(1, |planes| *planes.get_ref()),
        tiers: built,
        routing: file.routing.unwrap_or(Routing::Ecmp),
    };
    port_rates(file, &fabric)?;
    Shape::of(&fabric).map_err(|wrong| {
        let tier = wrong.tier.and_then(|tier| tiers.get(tier)).map(Spanned::get_ref);
        let place = match (wrong.key, tier) {
            ("hosts", _) => file.hosts.span().start,
            ("rails", _) => file.rails.as_ref().map_or(place, |rails| rails.span().start),
            ("machine", _) => place,
            ("spread", Some(FileTier { spread: Some(spread), .. })) => spread.span().start,
            (_, Some(tier)) => tier.ports.span().start,
            _ => file.tiers.span().start,
        };
        (place, wrong.why)
    })?;
    Ok(fabric)
}

/// The port of a NIC and that of its leaf are of one rate: another one is a mistake in one of them.
fn port_rates(file: &File, fabric: &Fabric) -> Result<(), Fault> {
    let Some((port, tier)) = fabric.port_rate().zip(file.tiers.get_ref().first()) else {
        return Ok(());
    };
    let leaf = &tier.get_ref().rate;
    if (port / leaf.get_ref() - 1.0).abs() < 1e-6 {
        return Ok(());
    }
    let nic = port * fabric.planes as f64;
    Err((
        leaf.span().start,
        format!(
            "a NIC of {nic} Gb/s over {} plane{} has ports of {port} Gb/s, this switch of {}: change `rate`, `planes` or the \
             machine",
            fabric.planes,
            if fabric.planes == 1 { "" } else { "s" },
            leaf.get_ref()
        ),
    ))
}

/// A tier; `above` is the rate of the links above it, `None` for the last one.
fn tier_of(tier: &FileTier, at: usize, above: Option<f64>) -> Result<Tier, Fault> {
    let (ports, place) = (*tier.ports.get_ref(), tier.ports.span().start);
    if !ports.is_multiple_of(2) {
        return Err((place, format!("{ports} ports: switches have an even number of them")));
    }
    let rate = *tier.rate.get_ref();
    let names = ["leaf", "spine", "core"];
    let name = match &tier.name {
        Some(name) if name.get_ref().is_empty() || !name.get_ref().chars().all(is_of_name) => {
            let why = "a name has letters, digits, `-` and `_`".to_owned();
            return Err((name.span().start, why));
        }
        Some(name) if ["host", "plane"].contains(&name.get_ref().as_str()) => {
            return Err((
                name.span().start,
                format!("`{}` is no tier of switches", name.get_ref()),
            ));
        }
        Some(name) => name.get_ref().clone(),
        None => names.get(at).map_or_else(|| format!("tier{at}"), |name| (*name).to_owned()),
    };
    let down = match (above, &tier.down, &tier.oversubscription) {
        (_, Some(_), Some(ratio)) => {
            return Err((ratio.span().start, "say `down` or `oversubscription`, not both".into()));
        }
        (None, _, Some(ratio)) => {
            let why = "the last tier has no uplinks that could be oversubscribed".to_owned();
            return Err((ratio.span().start, why));
        }
        (None, Some(down), None) if *down.get_ref() != ports => {
            let why = format!("the last tier has no uplinks: all its {ports} ports are `down`");
            return Err((down.span().start, why));
        }
        (None, _, None) => ports,
        (Some(_), Some(down), None) => {
            let place = down.span().start;
            match *down.get_ref() {
                more if more > ports => {
                    return Err((place, format!("{more} ports down of a switch with {ports}")));
                }
                all if all == ports => {
                    let why = format!(
                        "all {ports} ports down leave no uplink: hosts of two switches `{name}` could not reach each other"
                    );
                    return Err((place, why));
                }
                down => down,
            }
        }
        (Some(above), None, Some(ratio)) => {
            let up = ports as f64 / (1.0 + ratio.get_ref() * above / rate);
            let even = (up - up.round()).abs() < 1e-6 && up.round() >= 1.0;
            if !even || up.round() as usize >= ports {
                let why = format!(
                    "{}:1 of {ports} ports would be {up:.2} uplinks of {above} Gb/s: say `down`",
                    ratio.get_ref()
                );
                return Err((ratio.span().start, why));
            }
            ports - up.round() as usize
        }
        (Some(_), None, None) => ports / 2,
    };
    if let (0, Some(spread)) = (at, &tier.spread) {
        let why =
            "`spread` is over switches of this tier; hosts have one port on each plane".to_owned();
        return Err((spread.span().start, why));
    }
    Ok(Tier {
        name,
        ports,
        down,
        up: if above.is_some() { ports - down } else { 0 },
        rate,
        buffer: tier.buffer.as_ref().map(|buffer| *buffer.get_ref()),
        latency_us: tier.latency_us.as_ref().map_or(SWITCH_LATENCY_US, |us| *us.get_ref()),
        cable_m: tier.cable_m.as_ref().map_or(CABLE_M[at.min(1)], |length| *length.get_ref()),
        spread: tier.spread.as_ref().map(|spread| *spread.get_ref()),
    })
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}
