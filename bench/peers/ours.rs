//! busbw's side: the same loop as loop.c, with the communicator of `busbw_shm` in place of MPI's.
//! Not busbw's own way to measure, which leaves buffers untouched between operations.

use std::{
    hint::black_box,
    os::fd::AsRawFd,
    process::{Command, ExitCode, Output, Stdio},
    time::{Duration, Instant},
};

use busbw_core::{Collective, DataType, ReduceOp, algorithm::Choice, alltoallv::Traffic};
use busbw_shm::{
    Buffer, Buffers, Call, Communicator, Control, Exchange, Region, Wait, WaitPolicy,
    kernel::{Store, copy_slice, sum_slices},
};
use busbw_stats::median;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{launches, points};

/// First argument of a rank's process.
pub const RANK: &str = "rank";

/// Starts the ranks as processes of this program and returns what rank 0 printed.
pub fn launch(ranks: usize, arguments: impl Iterator<Item = String>) -> Result<Output, String> {
    let refused = |e: &dyn std::fmt::Display| format!("busbw's ranks: {e}");
    let arguments: Vec<String> = arguments.collect();
    let control = Control::create(ranks).map_err(|e| refused(&e))?;
    let buffers = (0..ranks)
        .map(|rank| Buffers::create(rank, points::MAX_BUFFER_BYTES as usize, false))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| refused(&e))?;
    let program = std::env::current_exe().map_err(|e| refused(&e))?;
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.args([RANK, &rank.to_string(), &ranks.to_string()]);
        // Shared memory is inherited, and opened anew by its number.
        command.arg(control.as_raw_fd().to_string());
        command
            .arg(buffers.iter().map(|fd| fd.as_raw_fd().to_string()).collect::<Vec<_>>().join(","));
        command.args(&arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::null() });
        children.push(command.spawn().map_err(|e| refused(&e))?);
    }
    let mut outputs = children.into_iter().map(std::process::Child::wait_with_output);
    let first = outputs.next().ok_or_else(|| "no ranks".to_owned())?.map_err(|e| refused(&e))?;
    for output in outputs {
        let status = output.map_err(|e| refused(&e))?.status;
        if !status.success() {
            return Err(format!("a rank of busbw: {status}"));
        }
    }
    if first.status.success() { Ok(first) } else { Err(format!("rank 0: {}", first.status)) }
}

/// The whole of one rank's process.
pub fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let number = |at: usize| words[at].parse::<usize>().unwrap();
    let (rank, ranks) = (number(0), number(1));
    let open = |fd: &str| {
        let path = format!("/proc/self/fd/{fd}");
        std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    };
    let control = Control::map(open(&words[2]), ranks).unwrap();
    let files: Vec<_> = words[3].split(',').map(open).collect();
    let room: usize = number(4);
    let buffers = Buffers::map(&files, room, false).unwrap();
    let budget_us: f64 = words[5].parse().unwrap();
    let cores = launches::cores();
    if ranks <= cores {
        // Of the cores that we may use, as mpirun counts them.
        let usable = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)).nth(rank);
        let mut set = CpuSet::new();
        set.set(core.unwrap());
        sched_setaffinity(None, &set).unwrap();
    }
    let members: Vec<usize> = (0..ranks).collect();
    let policy = WaitPolicy::new(ranks, cores);
    let mut comm = Communicator::new(&members, rank, buffers, control, policy);
    comm.set_timeout(Some(Duration::from_secs(60)));
    match measure(&mut comm, &words[6..], room, budget_us) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: rank {rank}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(
    comm: &mut Communicator,
    points: &[String],
    room: usize,
    budget_us: f64,
) -> Result<(), Wait> {
    comm.touch()?;
    let mut tuned = Vec::new();
    for point in points {
        let (name, size) = point.split_once(':').unwrap();
        let collective = Collective::from_name(name).unwrap();
        if !tuned.contains(&collective) {
            let table = comm.tune(collective, room)?;
            comm.set_table(table);
            tuned.push(collective);
        }
        let mut point = Point::new(comm, collective, size.parse().unwrap());
        point.measure(true, budget_us)?;
        point.measure(false, budget_us)?;
        point.measure_limit(budget_us)?;
    }
    Ok(())
}

/// One collective at one size on one rank.
struct Point<'c> {
    comm: &'c mut Communicator,
    collective: Collective,
    size: u64,
    send: Region,
    send_bytes: usize,
    recv_bytes: usize,
    exchange: Exchange,
    choice: Option<Choice>,
}

impl<'c> Point<'c> {
    fn new(comm: &'c mut Communicator, collective: Collective, size: u64) -> Point<'c> {
        let (send, recv) = points::extents(collective, size, comm.size());
        let uniform = Traffic::Generated { spread: 0.0 };
        let (rank, ranks) = (comm.rank(), comm.size());
        let exchange =
            Exchange::of(collective, &uniform, size as usize, DataType::Uint8, rank, ranks);
        // MPI_Bcast has one buffer: it is in place.
        let in_place = collective == Collective::Broadcast;
        let buffer = if in_place { Buffer::Recv } else { Buffer::Send };
        Point {
            comm,
            collective,
            size,
            send: Region { buffer, offset: 0, stride: 0 },
            send_bytes: send as usize,
            recv_bytes: recv as usize,
            exchange,
            choice: None,
        }
    }

    fn operate(&mut self) -> Result<(), Wait> {
        let datatype = if self.collective.reduces() { DataType::Float } else { DataType::Uint8 };
        let call = Call {
            collective: self.collective,
            datatype,
            op: ReduceOp::Sum,
            root: 0,
            count: self.size as usize / datatype.bytes(),
            send: self.send,
            recv: Region { buffer: Buffer::Recv, offset: 0, stride: 0 },
            exchange: &self.exchange,
        };
        let choice = *self.choice.get_or_insert_with(|| self.comm.choice(&call));
        self.comm.run_by(choice, &call)
    }

    /// Seconds of this rank in `iterations` operations, without and with what lies between them.
    fn run(&mut self, touched: bool, iterations: u64) -> Result<(f64, f64), Wait> {
        let (mut timer, begun) = (0.0, Instant::now());
        for iteration in 0..iterations {
            if touched {
                rewrite(self.comm.own(self.send.buffer, 0, self.send_bytes), iteration);
            }
            self.comm.barrier()?;
            let start = Instant::now();
            self.operate()?;
            timer += start.elapsed().as_secs_f64();
            if touched {
                read(self.comm.own(Buffer::Recv, 0, self.recv_bytes));
            }
        }
        Ok((timer, begun.elapsed().as_secs_f64()))
    }

    /// A few for warmth, then as many as rank 0 thinks fit into the budget, as loop.c.
    fn measure(&mut self, touched: bool, budget_us: f64) -> Result<(), Wait> {
        let mut before = Instant::now();
        self.run(touched, 1)?;
        let mut each = before.elapsed().as_secs_f64();
        if self.agree(each)? * 1e6 < budget_us {
            self.run(touched, 3)?;
            before = Instant::now();
            self.run(touched, 3)?;
            each = before.elapsed().as_secs_f64() / 3.0;
        }
        let iterations = (budget_us * 1e-6 / self.agree(each)?).clamp(2.0, 20_000.0) as u64;
        let (operations, whole) = self.run(touched, iterations)?;
        let each = |seconds| seconds / iterations as f64 * 1e6;
        self.print(if touched { "touched" } else { "untouched" }, each(operations))?;
        if touched { self.print("loop", each(whole)) } else { Ok(()) }
    }

    /// The same bytes moved within this rank's own memory by all ranks at once, an n-th of the whole
    /// operation each, without waiting for anyone, by the faster kind of stores: what the memory
    /// allows. Touched like the others.
    fn measure_limit(&mut self, budget_us: f64) -> Result<(), Wait> {
        let (reads, writes) = self.least_bytes();
        if self.size < 64 << 10 || writes == 0 {
            return Ok(());
        }
        let mut from = vec![1f32; reads / 4];
        let mut to = vec![1f32; writes / 4];
        let mut limit = f64::INFINITY;
        for store in [Store::Cached, Store::Streamed] {
            let begun = Instant::now();
            let mut times = Vec::new();
            loop {
                from.fill(times.len() as f32);
                self.comm.barrier()?;
                let start = Instant::now();
                move_bytes(&from, &mut to, store);
                times.push(start.elapsed().as_secs_f64() * 1e6);
                black_box(to.iter().map(|x| u64::from(x.to_bits())).fold(0, u64::wrapping_add));
                let spent = self.agree(begun.elapsed().as_secs_f64())? * 1e6;
                if spent > budget_us / 2.0 && times.len() > 2 {
                    break;
                }
            }
            // The first time fills page tables.
            limit = limit.min(median(&times[1..]).unwrap_or(f64::INFINITY));
        }
        self.print("limit", limit)
    }

    /// Bytes that one rank reads and writes when all share the least work that the operation is.
    fn least_bytes(&self) -> (usize, usize) {
        let (size, ranks) = (self.size as usize, self.comm.size());
        match self.collective {
            Collective::AllReduce | Collective::SendRecv => (size, size),
            Collective::Reduce => (size, size / ranks),
            Collective::ReduceScatter => (size * ranks, size),
            Collective::Broadcast => (size * (ranks - 1) / ranks, size * (ranks - 1) / ranks),
            Collective::Gather | Collective::Scatter => (size, size),
            _ => (size * ranks, size * ranks),
        }
    }

    /// Rank 0's value.
    fn agree(&mut self, value: f64) -> Result<f64, Wait> {
        Ok(self.exchange_values(value)?[0])
    }

    fn exchange_values(&mut self, value: f64) -> Result<Vec<f64>, Wait> {
        let whole = |buffer| Region { buffer, offset: 0, stride: 0 };
        self.comm.own(Buffer::Send, 0, 8).copy_from_slice(&value.to_le_bytes());
        self.comm.run(&Call {
            collective: Collective::AllGather,
            datatype: DataType::Uint8,
            op: ReduceOp::Sum,
            root: 0,
            count: 8,
            send: whole(Buffer::Send),
            recv: whole(Buffer::Recv),
            exchange: &Exchange::default(),
        })?;
        let ranks = self.comm.size();
        let all = self.comm.own(Buffer::Recv, 0, 8 * ranks).as_chunks::<8>().0;
        Ok(all.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    fn print(&mut self, mode: &str, mine: f64) -> Result<(), Wait> {
        let all = self.exchange_values(mine)?;
        if self.comm.rank() == 0 {
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let slowest = all.iter().copied().fold(0.0, f64::max);
            println!("{mode} {} {} {mean:.4} {slowest:.4}", self.collective.name(), self.size);
        }
        Ok(())
    }
}

/// Every word changes.
fn rewrite(bytes: &mut [u8], salt: u64) {
    let word = ((salt % 1024) as f32).to_le_bytes();
    bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|to| *to = word);
}

/// Reads every word.
fn read(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    black_box(words.fold(0, u64::wrapping_add));
}

/// Copies `from` to `to`, or adds as many parts of `from` as it is longer.
fn move_bytes(from: &[f32], to: &mut [f32], store: Store) {
    let parts: Vec<&[f32]> = from.chunks_exact(to.len()).collect();
    match parts[..] {
        [only] => copy_slice(only, to, store),
        _ => sum_slices(&parts, to, store),
    }
    black_box(to);
}
