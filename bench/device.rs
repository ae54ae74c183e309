//! Speed of the pattern kernels on one GPU, by the GPU's own clock: filling and verifying, for every
//! type, operator and content. `cargo bench -p busbw-ffi --bench device [-- MIB [RANKS]]`, on GPU 0.
//! Not their results, beyond that what was filled is found right.

use std::{path::Path, process::ExitCode, sync::Arc, thread, time::Duration};

use busbw_core::{
    DataType, ReduceOp,
    pattern::{Content, Pattern},
};
use busbw_ffi::{
    gpu::{Context, Event, Memory, Runtime, Stream, Vendor},
    kernels::Kernels,
    search::{Environment, Kind, Standing, candidates},
};
use busbw_stats::median;

/// Launches of which the median counts, after one that warms up.
const MEASURED_LAUNCHES: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// A GPU with memory to fill.
struct Device {
    kernels: Kernels,
    stream: Stream,
    memory: Memory,
    events: [Event; 2],
}

impl Device {
    fn new(runtime: &'static Runtime, bytes: usize) -> Result<Device, Failure> {
        let context = Arc::new(Context::take(runtime, 0)?);
        Ok(Device {
            kernels: Kernels::load(&context)?,
            stream: Stream::create(&context)?,
            memory: Memory::allocate(&context, bytes)?,
            events: [Event::create(&context)?, Event::create(&context)?],
        })
    }

    fn settle(&self) -> Result<(), Failure> {
        while !self.stream.is_done()? {
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// GB/s of what `enqueue` enqueues.
    fn speed(&self, enqueue: impl Fn() -> Result<(), Failure>) -> Result<f64, Failure> {
        let [begin, end] = &self.events;
        let mut seconds = Vec::new();
        for round in 0..=MEASURED_LAUNCHES {
            begin.record(&self.stream)?;
            enqueue()?;
            end.record(&self.stream)?;
            self.settle()?;
            if round > 0 {
                seconds.push(begin.seconds_to(end)?);
            }
        }
        let seconds = median(&seconds).ok_or("no round was timed")?;
        Ok(self.memory.span().bytes() as f64 / seconds / 1e9)
    }

    /// GB/s of filling and of verifying.
    fn measure(&self, pattern: &Pattern, content: Content) -> Result<[f64; 2], Failure> {
        let Device { kernels, stream, memory, .. } = self;
        let (span, elements) = (memory.span(), memory.span().bytes() / pattern.datatype.bytes());
        let fill = self.speed(|| Ok(kernels.fill(stream, span, elements, pattern, content)?))?;
        kernels.forget(stream)?;
        let verify =
            self.speed(|| Ok(kernels.verify(stream, span, elements, pattern, content, 0, 0)?))?;
        match kernels.found()?.wrong {
            0 => Ok([fill, verify]),
            wrong => Err(format!("{wrong} wrong elements of {pattern:?} {content:?}").into()),
        }
    }
}

fn run(runtime: &'static Runtime, mib: usize, ranks: usize) -> Result<(), Failure> {
    let device = Device::new(runtime, mib << 20)?;
    println!(
        "{}, {mib} MiB, {ranks} ranks; GB/s of filling and verifying, medians of {MEASURED_LAUNCHES}",
        runtime.facts(0)?.name
    );
    let set = device.speed(|| Ok(device.stream.set(device.memory.span(), 0)?))?;
    println!("the driver's memset: {set:.0}");
    let pattern = |datatype, op| Pattern { seed: 1, datatype, op, ranks };
    let first = 0;
    println!("{:<9} {:<7} {:>15} {:>15}", "type", "op", "contribution", "result");
    for datatype in DataType::ALL {
        let copied = pattern(datatype, ReduceOp::Sum);
        let [poison, poisoned] = device.measure(&copied, Content::Poison)?;
        let [copy, compared] = device.measure(&copied, Content::Copied { source: 1, first })?;
        print!("{:<9} copied  {copy:>7.0} {compared:>7.0}   ", datatype.name());
        println!("poison {poison:.0} {poisoned:.0}");
        for op in ReduceOp::ALL {
            let pattern = pattern(datatype, op);
            let rank = 1 % ranks;
            let part = device.measure(&pattern, Content::Contribution { rank, first })?;
            let whole = device.measure(&pattern, Content::Reduced { first })?;
            print!("{:<9} {:<7} {:>7.0} {:>7.0} ", datatype.name(), op.name(), part[0], part[1]);
            println!("{:>7.0} {:>7.0}", whole[0], whole[1]);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let mib = numbers.first().copied().unwrap_or(8192).max(1);
    let ranks = numbers.get(1).copied().unwrap_or(8).max(1);
    let drivers = candidates(Kind::Cuda, &Environment::of_process(), Path::new("/"));
    let Some(driver) = drivers.into_iter().find(|d| d.standing == Standing::Used) else {
        println!(
            "no GPU here: CUDA's driver, libcuda.so.1, is not on this machine; nothing measured"
        );
        return ExitCode::SUCCESS;
    };
    let opened = Runtime::open(Vendor::Nvidia, &driver.path).map_err(Failure::from);
    match opened.and_then(|runtime| run(runtime, mib, ranks)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench device: {error}");
            ExitCode::FAILURE
        }
    }
}
