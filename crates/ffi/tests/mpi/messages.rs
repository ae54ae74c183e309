//! Messages between ranks, parts of the world, errors that come back. Not collectives.

use std::time::{Duration, Instant};

use busbw_ffi::mpi::{Communicator, Element, MpiError, Requests, Source, WaitError};

use crate::memory::Memory;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Number `i` of what rank `r` sends.
fn sent(r: usize, i: usize) -> u64 {
    (17 * r + i) as u64 % 120
}

/// All of it on this communicator.
///
/// # Errors
/// What differed, or what MPI said.
pub fn all(world: &Communicator) -> Result<(), String> {
    let (me, n) = (world.rank(), world.ranks());
    let (next, before) = ((me + 1) % n, (me + n - 1) % n);
    for element in Element::ALL {
        // Below and above what either library sends without asking the receiver first.
        for (count, most) in
            [(0, 8), (3, 8), (50_000, 100_000), (50_000, 1000), (50_021, 1000), (50_000, 0)]
        {
            let large =
                if most == 0 { world.elements_of_large_count(element, count) } else { None };
            let most = if most == 0 { count } else { most };
            let within = || world.elements_within(element, count, most).map_err(said);
            let elements = large.map_or_else(within, Ok)?;
            let mut send = Memory::of(element, (0..count).map(|i| sent(me, i)));
            let wanted = || (0..count).map(|i| sent(before, i));

            let mut recv = Memory::poisoned(element, count);
            let pair = (recv.buffer(), Source::Rank(before));
            world.send_recv((send.buffer(), next), pair, elements, 5).map_err(said)?;
            recv.is("send_recv", wanted())?;

            let mut recv = Memory::poisoned(element, count);
            let mut requests = Requests::new(world, 2);
            let from = if count == 3 { Source::Any } else { Source::Rank(before) };
            requests.recv(world, recv.buffer(), elements, from, 6).map_err(said)?;
            requests.send(world, send.buffer(), elements, next, 6).map_err(said)?;
            let full = requests.send(world, send.buffer(), elements, next, 6);
            if !full.is_err_and(|e| e.text.contains("room for 2")) {
                return Err("a full list took another message".to_owned());
            }
            requests.wait_all().map_err(said)?;
            recv.is("recv and send under way", wanted())?;

            let mut recv = Memory::poisoned(element, count);
            requests.recv(world, recv.buffer(), elements, Source::Rank(before), 7).map_err(said)?;
            requests.send(world, send.buffer(), elements, next, 7).map_err(said)?;
            let soon = Instant::now() + Duration::from_secs(20);
            requests.wait_all_until(soon, || false).map_err(said)?;
            recv.is("with a deadline", wanted())?;
            if requests.open() != 0 {
                return Err("messages are under way after the wait".to_owned());
            }

            // Along a chain, so that blocking calls cannot wait for each other.
            let mut recv = Memory::poisoned(element, count);
            if me > 0 {
                world.recv(recv.buffer(), elements, Source::Rank(me - 1), 8).map_err(said)?;
                recv.is("recv", (0..count).map(|i| sent(me - 1, i)))?;
            }
            if me + 1 < n {
                world.send(send.buffer(), elements, me + 1, 8).map_err(said)?;
            }
        }
    }
    parts(world)?;
    errors(world)
}

fn parts(world: &Communicator) -> Result<(), String> {
    let (me, n) = (world.rank(), world.ranks());
    let host = world.of_host().map_err(said)?;
    if (host.rank(), host.ranks()) != (me, n) {
        return Err(format!("rank {} of {} on this host", host.rank(), host.ranks()));
    }
    host.barrier().map_err(said)?;
    host.free().map_err(said)?;
    // Even and odd ranks, the last one first; rank 2 takes no part.
    let colour = (me != 2).then_some(me as u32 % 2);
    let part = world.split(colour, -(me as i32)).map_err(said)?;
    let others = (0..n).filter(|r| *r != 2 && r % 2 == me % 2);
    let place = others.clone().filter(|r| *r > me).count();
    match (&part, colour) {
        (None, None) => {}
        (Some(part), Some(_)) if (part.rank(), part.ranks()) == (place, others.count()) => {}
        (part, _) => return Err(format!("the part of rank {me} is {part:?}")),
    }
    part.map_or(Ok(()), |part| part.free().map_err(said))
}

/// A failed call comes back as an error and does not end the process.
fn errors(world: &Communicator) -> Result<(), String> {
    let elements = world.elements(Element::Int32, 4).map_err(said)?;
    let mut buffer = Memory::poisoned(Element::Int32, 4);
    let nobody = world.send(buffer.buffer(), elements, world.ranks() + 3, 1);
    if !nobody.as_ref().is_err_and(|e| e.call == "MPI_Send" && e.text.contains("rank")) {
        return Err(format!("a send to no rank: {nobody:?}"));
    }
    let short = buffer.buffer().part(0, 15).ok_or("no part")?;
    let refused: Vec<Result<(), MpiError>> = vec![
        world.send(short, elements, 0, 1),
        world.recv(short, elements, Source::Any, 1),
        world.broadcast(short, 0, elements),
        world.all_gather(short.into(), buffer.buffer(), elements),
    ];
    match refused.iter().find(|r| !r.as_ref().is_err_and(|e| e.text.contains("do not fit"))) {
        Some(taken) => Err(format!("a buffer that is too small: {taken:?}")),
        None => Ok(()),
    }
}

/// A message that comes late: the wait ends at its deadline or when the run is given up, and the
/// message still arrives.
///
/// # Errors
/// What went otherwise.
pub fn deadline(world: &Communicator) -> Result<(), String> {
    let elements = world.elements(Element::Double, 100).map_err(said)?;
    let numbers = || (0..100).map(|i| sent(0, i));
    if world.rank() == 1 {
        let mut recv = Memory::poisoned(Element::Double, 100);
        let mut requests = Requests::new(world, 1);
        requests.recv(world, recv.buffer(), elements, Source::Rank(0), 1).map_err(said)?;
        let began = Instant::now();
        let late = requests.wait_all_until(began + Duration::from_millis(200), || false);
        if late != Err(WaitError::Late { open: 1 }) {
            return Err(format!("past the deadline: {late:?}"));
        }
        let mut looks = 0;
        let given_up = requests.wait_all_until(began + Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        });
        if given_up != Err(WaitError::Aborted { open: 1 }) {
            return Err(format!("given up: {given_up:?}"));
        }
        world.barrier().map_err(said)?;
        requests.wait_all_until(began + Duration::from_secs(30), || false).map_err(said)?;
        recv.is("a late message", numbers())
    } else {
        world.barrier().map_err(said)?;
        let mut send = Memory::of(Element::Double, numbers());
        world.send(send.buffer(), elements, 1, 1).map_err(said)
    }
}
