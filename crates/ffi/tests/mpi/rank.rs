//! This program as a rank that a launcher started. Not what the ranks do with each other.

use std::{
    process::{Command, ExitCode},
    time::Duration,
};

use busbw_ffi::{
    mpi::{Joined, Meeting, Mpi, Session, Threads},
    search::{Environment, Kind, Standing, candidates},
};

use crate::{PART_VARIABLE, collectives, messages, started};

/// Set for a process that is a rank in its parent's stead.
const CHILD: &str = "BUSBW_TEST_CHILD";

/// Does its part; whoever fails says so and ends the others.
pub fn run(part: &str) -> ExitCode {
    let inside = std::env::var_os(CHILD).is_some();
    let started = started::started();
    let result = match started {
        // The supervisor of the test is no rank: its child is.
        Some(started) if part == "child" && started.rank == 0 && !inside => in_child(),
        // The others join on a thread that is not the main one.
        _ if part == "child" && !inside => {
            std::thread::spawn(|| joined("child")).join().unwrap_or(Err("a panic".to_owned()))
        }
        _ => joined(part),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{part}: {why}");
            // At once: MPI_Finalize would wait for ranks that wait for this one.
            std::process::exit(1)
        }
    }
}

fn in_child() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let status = Command::new(program).env(PART_VARIABLE, "child").env(CHILD, "1").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("the child: {other:?}")),
    }
}

fn joined(part: &str) -> Result<(), String> {
    let found = candidates(Kind::Mpi, &Environment::of_process(), "/".as_ref());
    let used = found.iter().find(|c| c.standing == Standing::Used).ok_or("no MPI was found")?;
    let mpi = Mpi::open(&used.path).map_err(|e| e.to_string())?;
    let session = Session::join(mpi, Threads::Funneled).map_err(|e| e.to_string())?;
    if session.threads() < Threads::Funneled || mpi.standard() < (3, 0) {
        return Err(format!("{:?}, MPI {:?}", session.threads(), mpi.standard()));
    }
    if Session::join(mpi, Threads::Single).is_ok() {
        return Err("MPI started twice".to_owned());
    }
    let world = session.world().map_err(|e| e.to_string())?;
    let (rank, ranks) = (world.rank(), world.ranks());
    let path = mpi.path().display().to_string();
    let us = Joined { implementation: mpi.implementation(), path, rank, ranks };
    let meeting = Meeting::of(started::started(), us);
    match part {
        "meeting" => println!("{meeting}"),
        _ if meeting != Meeting::Whole => return Err(meeting.to_string()),
        "everything" => {
            collectives::all(&world)?;
            messages::all(&world)?;
        }
        "child" => collectives::all(&world)?,
        "deadline" => messages::deadline(&world)?,
        other => return Err(format!("no such part: {other}")),
    }
    world.barrier().map_err(|e| e.to_string())?;
    let before = mpi.wtime();
    std::thread::sleep(Duration::from_millis(2));
    // Open MPI counts from the first call.
    if !(0.002..60.0).contains(&(mpi.wtime() - before)) {
        return Err("MPI's clock counts no seconds".to_owned());
    }
    let held = session.world().map_err(|e| e.to_string())?;
    drop(world);
    drop(held);
    if mpi.is_finalized().map_err(|e| e.to_string())? {
        return Err("finalized before the end".to_owned());
    }
    session.finalize().map_err(|e| e.to_string())?;
    if !mpi.is_finalized().map_err(|e| e.to_string())? {
        return Err("not finalized".to_owned());
    }
    println!("{part}: rank {rank} of {ranks} under {}", mpi.implementation());
    Ok(())
}
