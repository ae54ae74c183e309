//! What OSU's options mean, and which of them mean nothing here.
//! Not how words become options (`words`), and not defaults (`planning::osu`).

use busbw_core::{
    DataType,
    osu::{Accelerator, Program},
    record::Waiver,
    size,
};

use super::words::Words;

/// Percentiles where `-z` has none of its own (c/util/osu_util.c: case 'z').
const PERCENTILES: [u8; 3] = [50, 90, 99];
/// Percentiles that there is room for (c/util/osu_util.h: OMB_STAT_MAX_NUM).
const MAX_PERCENTILES: usize = 5;
/// The most warm-ups of a check (VALIDATION_SKIP_MAX).
const MAX_CHECK_WARMUPS: i64 = 10;
/// Least memory of a process, and what it may have without `-M` (MAX_MEM_LOWER_LIMIT, MAX_MEM_LIMIT).
const MIN_MEMORY_BYTES: u64 = 1 << 20;
const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;

/// What an OSU program was asked for.
#[derive(Debug, Clone)]
pub struct OsuArguments {
    /// Which.
    pub(in crate::options) program: &'static Program,
    /// First and last size, bytes (`-m`).
    pub(in crate::options) sizes: [Option<u64>; 2],
    /// `-i`.
    pub(in crate::options) iterations: Option<i64>,
    /// `-x`.
    pub(in crate::options) warmup: Option<i64>,
    /// `-W`.
    pub(in crate::options) window: Option<i64>,
    /// `-V`.
    pub(in crate::options) varied: bool,
    /// `-f`.
    pub(in crate::options) full: bool,
    /// `-c`.
    pub(in crate::options) validate: bool,
    /// `-z`.
    pub(in crate::options) percentiles: Vec<u8>,
    /// `-T`.
    pub(in crate::options) types: Vec<DataType>,
    /// `-l`.
    pub(in crate::options) in_place: bool,
    /// `-b multiple`.
    pub(in crate::options) separate: bool,
    /// `-R`.
    pub(in crate::options) rate: bool,
    /// `-p`.
    pub(in crate::options) pairs: Option<usize>,
    /// `-k fixed:`.
    pub(in crate::options) root: usize,
    /// `-M`, bytes.
    pub(in crate::options) memory: u64,
    /// `-d`.
    pub(in crate::options) accelerator: Option<Accelerator>,
    /// The words `D H`; none, or two.
    pub(in crate::options) sides: Vec<bool>,
    /// Options that mean nothing here.
    pub(in crate::options) waived: Vec<Waiver>,
    /// What to say about the rest.
    pub(in crate::options) remarks: Vec<String>,
}

/// Reads options in the order in which they stand: the last of several counts, types add up.
pub(super) fn read(program: &'static Program, words: &Words) -> Result<OsuArguments, String> {
    let mut asked = OsuArguments {
        program,
        sizes: [None; 2],
        iterations: None,
        warmup: None,
        window: None,
        varied: false,
        full: false,
        validate: false,
        percentiles: Vec::new(),
        types: Vec::new(),
        in_place: false,
        separate: false,
        rate: true,
        pairs: None,
        root: 0,
        memory: DEFAULT_MEMORY_BYTES,
        accelerator: None,
        sides: Vec::new(),
        waived: Vec::new(),
        remarks: Vec::new(),
    };
    for (option, value) in &words.theirs {
        asked.take(*option, value.as_deref())?;
    }
    if asked.varied && asked.window.is_some() {
        return Err("-V measures windows of 1 to 128 messages: leave out -W".to_owned());
    }
    asked.sides = sides(program, &words.plain)?;
    Ok(asked)
}

impl OsuArguments {
    /// Whether the buffers of each side are asked for on GPUs, if anything says where.
    pub(in crate::options) fn on_gpus(&self) -> Option<[bool; 2]> {
        match self.sides.as_slice() {
            [first, second] => Some([*first, *second]),
            _ => self.accelerator.map(|_| [true; 2]),
        }
    }

    fn take(&mut self, option: char, value: Option<&str>) -> Result<(), String> {
        let text = value.unwrap_or_default();
        let waive = |reason: &str| Waiver {
            option: format!("-{option} {text}").trim_end().to_owned(),
            reason: reason.to_owned(),
        };
        match option {
            'm' => self.sizes = sizes(text)?,
            'i' => self.iterations = Some(number(option, text, 1, 1 << 30)?),
            'x' => self.warmup = Some(number(option, text, 0, 1 << 30)?),
            'W' => self.window = Some(number(option, text, 1, 1 << 16)?),
            'V' => self.varied = true,
            'f' => self.full = true,
            'l' => self.in_place = true,
            'R' => self.rate = number(option, text, 0, 1)? == 1,
            'p' => self.pairs = Some(number(option, text, 1, 1 << 20)? as usize),
            'z' => self.percentiles = percentiles(value)?,
            'T' => self.types.extend(types(text)?),
            'k' => self.root = root(text)?,
            'M' => self.limit(size::parse(text).map_err(|why| format!("-M: {why}"))?),
            'b' => {
                self.separate = match text.to_ascii_lowercase().as_str() {
                    "single" => false,
                    "multiple" => true,
                    _ => return Err(format!("-b {text} is neither single nor multiple")),
                }
            }
            'c' => {
                self.validate = true;
                match value {
                    None => {}
                    Some(log) if log == "log" || log.starts_with("log:") => self.waived.push(
                        waive("where wrong elements were stands in the record and on stderr"),
                    ),
                    Some(other) => return Err(format!("-c{other}: behind -c stands log:FOLDER")),
                }
            }
            'd' => self.accelerator = Some(accelerator(text)?),
            'u' => {
                number(option, text, 0, MAX_CHECK_WARMUPS)?;
                let reason = "checks run apart from what is timed, which they cannot disturb";
                self.waived.push(waive(reason));
            }
            'a' | 'r' | 't' => {
                let reason = "only tests of non-blocking collectives or of several threads use it";
                self.waived.push(waive(reason));
            }
            'G' => self.waived.push(waive("busbw show --plot draws a run")),
            'I' => self.waived.push(waive("busbw's own world joins the ranks, in one way")),
            'D' => return Err(format!("-D {text}: busbw has no derived types")),
            'P' => return Err(format!("-P {text}: busbw reads no PAPI counters")),
            // Help and version were answered before.
            _ => {}
        }
        Ok(())
    }

    fn limit(&mut self, bytes: u64) {
        if bytes < MIN_MEMORY_BYTES {
            self.remarks.push(format!(
                "Requested memory limit too low, using [{MIN_MEMORY_BYTES}] instead."
            ));
        }
        self.memory = bytes.max(MIN_MEMORY_BYTES);
    }
}

fn number(option: char, text: &str, least: i64, most: i64) -> Result<i64, String> {
    let value: i64 =
        text.trim().parse().map_err(|_| format!("-{option} '{text}' is not a whole number"))?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(format!("-{option} {value}: it must be between {least} and {most}"))
}

/// `128`, `2:128`, `2:`, `:128`. A first size of 0 is no size, as theirs has it.
fn sizes(text: &str) -> Result<[Option<u64>; 2], String> {
    let read = |text: &str| match text.is_empty() {
        true => Ok(None),
        false => size::parse(text).map(Some).map_err(|why| format!("-m: {why}")),
    };
    let (first, last) = match text.split_once(':') {
        None => (None, read(text)?),
        Some((first, last)) => (read(first)?.filter(|size| *size > 0), read(last)?),
    };
    match (first, last) {
        (_, Some(0)) => Err(format!("-m {text}: the last size is 0: nothing would be measured")),
        (Some(first), Some(last)) if first > last => {
            Err(format!("-m {text}: the first size must not be above the last"))
        }
        (None, None) => Err(format!("-m '{text}' has neither a first nor a last size")),
        sizes => Ok([sizes.0, sizes.1]),
    }
}

fn percentiles(value: Option<&str>) -> Result<Vec<u8>, String> {
    let Some(text) = value else { return Ok(PERCENTILES.to_vec()) };
    let one = |text: &str| match text.trim().parse::<u8>() {
        Ok(percent) if percent <= 100 => Ok(percent),
        _ => Err(format!("-z{value}: percentiles are between 0 and 100", value = text)),
    };
    let list: Vec<u8> =
        text.split(',').filter(|part| !part.is_empty()).map(one).collect::<Result<_, _>>()?;
    match list.len() {
        0 => Err("-z: behind the comma stands no percentile".to_owned()),
        many if many > MAX_PERCENTILES => {
            Err(format!("-z{text}: there is room for {MAX_PERCENTILES} percentiles"))
        }
        _ => Ok(list),
    }
}

fn types(text: &str) -> Result<Vec<DataType>, String> {
    match text.to_ascii_lowercase().as_str() {
        "mpi_char" => Ok(vec![DataType::Int8]),
        "mpi_int" => Ok(vec![DataType::Int32]),
        "mpi_float" => Ok(vec![DataType::Float]),
        "all" => Ok(vec![DataType::Int8, DataType::Int32, DataType::Float]),
        _ => Err(format!("-T {text} is none of mpi_char, mpi_int, mpi_float, all")),
    }
}

fn root(text: &str) -> Result<usize, String> {
    match text.split_once(':') {
        Some(("fixed", rank)) => Ok(number('k', rank, 0, 4095)? as usize),
        _ if text == "rotate" => {
            Err("-k rotate: a row has one root here: busbw reduce -r all measures each in turn"
                .to_owned())
        }
        _ => Err(format!("-k {text}: write fixed: and a rank, such as -k fixed:1")),
    }
}

fn accelerator(text: &str) -> Result<Accelerator, String> {
    match text.to_ascii_lowercase().as_str() {
        "cuda" => Ok(Accelerator::Cuda),
        "rocm" => Ok(Accelerator::Rocm),
        "managed" | "openacc" => {
            Err(format!("-d {text}: busbw has host memory and memory of GPUs (cuda, rocm)"))
        }
        _ => Err(format!("-d {text} is none of cuda, rocm")),
    }
}

/// The words `D H`: on GPUs, where the rank that begins has its buffers, and the one that answers.
fn sides(program: &Program, words: &[String]) -> Result<Vec<bool>, String> {
    let side = |word: &String| match word.as_str() {
        "D" => Ok(true),
        "H" => Ok(false),
        "M" | "MD" | "MH" => Err(format!("{word}: busbw has no managed memory, only D and H")),
        _ => Err(format!("'{word}' is no option and no place of buffers (D or H)")),
    };
    let sides: Vec<bool> = words.iter().map(side).collect::<Result<_, _>>()?;
    let pair = program.benchmark.messages().is_some();
    match sides.len() {
        0 => Ok(sides),
        2 if pair => Ok(sides),
        _ if pair => {
            Err("two words say where buffers are: one for each side, such as D H".to_owned())
        }
        _ => Err(format!("{}: buffers of collectives are placed by -d cuda", program.name)),
    }
}
