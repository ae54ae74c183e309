//! Every collective, for every type it takes, out of place and in place. Not messages.

use busbw_core::ReduceOp;
use busbw_ffi::mpi::{Communicator, Element, Elements, MpiError, Side};

use crate::memory::Memory;

/// Element `i` that rank `r` sends; small enough for products of four in a byte.
fn sent(r: usize, i: usize) -> u64 {
    1 + ((r + i) % 3) as u64
}

fn said(error: MpiError) -> String {
    error.to_string()
}

/// All of them on this communicator.
///
/// # Errors
/// What differed, or what MPI said.
pub fn all(world: &Communicator) -> Result<(), String> {
    let reducible = [
        Element::Int8,
        Element::Uint8,
        Element::Int32,
        Element::Uint32,
        Element::Int64,
        Element::Uint64,
        Element::Float,
        Element::Double,
    ];
    for count in [0, 1, 7, 5000] {
        for element in Element::ALL {
            let elements = world.elements(element, count).map_err(said)?;
            moved(world, element, count, elements)?;
            if reducible.contains(&element) {
                reduced(world, element, count, elements)?;
            }
        }
    }
    // Elements of several: what a message of more than 2^31 - 1 elements is made of.
    for count in [6000, 6001] {
        let gathered = world.elements_within(Element::Int32, count, 1000).map_err(said)?;
        moved(world, Element::Int32, count, gathered)?;
        sums(world, Element::Int32, count, gathered)?;
    }
    let gathered = world.elements_within(Element::Int32, 6000, 1000).map_err(said)?;
    let mut buffer = Memory::poisoned(Element::Int32, 6000 * world.ranks());
    let sum = world.operator(ReduceOp::Sum).map_err(|e| e.to_string())?;
    let refused = world.reduce_scatter(Side::InPlace, buffer.buffer(), sum, gathered);
    if !refused.as_ref().is_err_and(|e| e.text.contains("large counts")) {
        return Err(format!("a reduce-scatter of gathered elements: {refused:?}"));
    }
    // MPI 4's functions, where the library has them.
    for element in [Element::Int8, Element::Double] {
        if let Some(large) = world.elements_of_large_count(element, 700) {
            moved(world, element, 700, large)?;
            reduced(world, element, 700, large)?;
        }
    }
    let too_many = world.elements_within(Element::Byte, usize::MAX, usize::MAX);
    if !too_many.as_ref().is_err_and(|e| e.text.contains("more than one message can hold")) {
        return Err(format!("2^64 - 1 elements: {too_many:?}"));
    }
    unequal(world)
}

fn moved(
    w: &Communicator,
    element: Element,
    count: usize,
    elements: Elements,
) -> Result<(), String> {
    let (me, n) = (w.rank(), w.ranks());
    let mine = || Memory::of(element, (0..count).map(|i| sent(me, i)));
    let everyone = || (0..n).flat_map(|r| (0..count).map(move |i| sent(r, i)));
    for root in [0, n - 1] {
        let mut buffer = if me == root { mine() } else { Memory::poisoned(element, count) };
        w.broadcast(buffer.buffer(), root, elements).map_err(said)?;
        buffer.is("broadcast", (0..count).map(|i| sent(root, i)))?;

        for in_place in [false, true] {
            let (mut send, mut recv) = (mine(), Memory::poisoned(element, count * n));
            let mut side = Side::Buffer(send.buffer());
            if in_place && me == root {
                let own = |r: usize| move |i: usize| if r == me { sent(r, i) } else { 0 };
                recv = Memory::of(element, (0..n).flat_map(|r| (0..count).map(own(r))));
                side = Side::InPlace;
            }
            w.gather(side, recv.buffer(), root, elements).map_err(said)?;
            if me == root {
                recv.is("gather", everyone())?;
            }

            let (mut send, mut recv) =
                (Memory::of(element, everyone()), Memory::poisoned(element, count));
            let own = in_place && me == root;
            let side = if own { Side::InPlace } else { Side::Buffer(recv.buffer()) };
            w.scatter(send.buffer(), side, root, elements).map_err(said)?;
            if !own {
                recv.is("scatter", (0..count).map(|i| sent(me, i)))?;
            }
        }
    }
    for in_place in [false, true] {
        let (mut send, mut recv) = (mine(), Memory::poisoned(element, count * n));
        let mut side = Side::Buffer(send.buffer());
        if in_place {
            let own = |r: usize| move |i: usize| if r == me { sent(r, i) } else { 0 };
            recv = Memory::of(element, (0..n).flat_map(|r| (0..count).map(own(r))));
            side = Side::InPlace;
        }
        w.all_gather(side, recv.buffer(), elements).map_err(said)?;
        recv.is("all_gather", everyone())?;

        // Chunk `to` of rank `from` begins at element 2 * from + to of the pattern.
        let chunk = |from: usize, to: usize| (0..count).map(move |i| sent(2 * from + to, i));
        let input = || Memory::of(element, (0..n).flat_map(|to| chunk(me, to)));
        let (mut send, mut recv) = (input(), Memory::poisoned(element, count * n));
        let mut side = Side::Buffer(send.buffer());
        if in_place {
            (recv, side) = (input(), Side::InPlace);
        }
        w.all_to_all(side, recv.buffer(), elements).map_err(said)?;
        recv.is("all_to_all", (0..n).flat_map(|from| chunk(from, me)))?;
    }
    Ok(())
}

fn reduced(
    w: &Communicator,
    element: Element,
    count: usize,
    elements: Elements,
) -> Result<(), String> {
    sums(w, element, count, elements)?;
    let (me, n) = (w.rank(), w.ranks());
    let all = |op: ReduceOp, i: usize| {
        let numbers = (0..n).map(|r| sent(r, i));
        match op {
            ReduceOp::Prod => numbers.product(),
            ReduceOp::Max => numbers.max().unwrap_or(0),
            ReduceOp::Min => numbers.min().unwrap_or(0),
            _ => numbers.sum::<u64>(),
        }
    };
    for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
        let operator = w.operator(op).map_err(|e| e.to_string())?;
        let whole = || Memory::of(element, (0..n * count).map(|i| sent(me, i)));
        let share = (me * count..(me + 1) * count).map(|i| all(op, i));
        let (mut send, mut recv) = (whole(), Memory::poisoned(element, count));
        w.reduce_scatter(send.buffer().into(), recv.buffer(), operator, elements).map_err(said)?;
        recv.is("reduce_scatter", share.clone())?;

        let (mut send, mut recv) = (whole(), Memory::poisoned(element, count));
        let part = send.buffer().part(0, count * element.bytes()).ok_or("no part")?;
        w.all_reduce(part.into(), recv.buffer(), operator, elements).map_err(said)?;
        recv.is(op.name(), (0..count).map(|i| all(op, i)))?;
    }
    for op in [ReduceOp::Avg, ReduceOp::Mulsum] {
        if w.operator(op).is_ok() {
            return Err(format!("MPI has {}", op.name()));
        }
    }
    Ok(())
}

/// Reduce and all-reduce, in and out of place.
fn sums(
    w: &Communicator,
    element: Element,
    count: usize,
    elements: Elements,
) -> Result<(), String> {
    let (me, n) = (w.rank(), w.ranks());
    let sum = w.operator(ReduceOp::Sum).map_err(|e| e.to_string())?;
    let mine = || Memory::of(element, (0..count).map(|i| sent(me, i)));
    let total = || (0..count).map(move |i| (0..n).map(|r| sent(r, i)).sum::<u64>());
    let (mut send, mut recv) = (mine(), Memory::poisoned(element, count));
    w.all_reduce(send.buffer().into(), recv.buffer(), sum, elements).map_err(said)?;
    recv.is("all_reduce", total())?;
    let mut both = mine();
    w.all_reduce(Side::InPlace, both.buffer(), sum, elements).map_err(said)?;
    both.is("all_reduce in place", total())?;
    for root in [0, n - 1] {
        let (mut send, mut recv) = (mine(), Memory::poisoned(element, count));
        w.reduce(send.buffer().into(), recv.buffer(), sum, root, elements).map_err(said)?;
        if me == root {
            recv.is("reduce", total())?;
        }
        let mut both = mine();
        if let Err(why) = w.may_reduce_in_place(root) {
            let refused = w.reduce(Side::InPlace, both.buffer(), sum, root, elements);
            if !refused.is_err_and(|e| e.text == why.to_string()) {
                return Err("a reduce in place that crashes was made".to_owned());
            }
            continue;
        }
        let (side, to) = if me == root {
            (Side::InPlace, both.buffer())
        } else {
            (Side::Buffer(both.buffer()), both.buffer())
        };
        w.reduce(side, to, sum, root, elements).map_err(said)?;
        if me == root {
            both.is("reduce in place", total())?;
        }
    }
    Ok(())
}

/// Rank `from` sends `from + 2 * to` elements to rank `to`, with a gap of one between blocks.
fn unequal(w: &Communicator) -> Result<(), String> {
    let (me, n) = (w.rank(), w.ranks());
    let lay_out = |counts: Vec<usize>| {
        let mut at = 0;
        let places: Vec<usize> = counts.iter().map(|c| (at, at += c + 1).0).collect();
        (counts, places, at)
    };
    let (counts, places, total) = lay_out((0..n).map(|to| me + 2 * to).collect());
    let (got, got_at, got_total) = lay_out((0..n).map(|from| from + 2 * me).collect());
    let element = Element::Int32;
    let number = |from: usize, to: usize, i: usize| (1000 * from + 100 * to + i) as u64;
    let mut send_numbers = vec![0; total];
    for to in 0..n {
        (0..counts[to]).for_each(|i| send_numbers[places[to] + i] = number(me, to, i));
    }
    let mut wanted = vec![7; got_total];
    for from in 0..n {
        (0..got[from]).for_each(|i| wanted[got_at[from] + i] = number(from, me, i));
    }
    let mut send = Memory::of(element, send_numbers);
    let mut recv = Memory::of(element, vec![7; got_total]);
    let mut sent = w.blocks(element, &counts, &places).map_err(said)?;
    let received = w.blocks(element, &got, &got_at).map_err(said)?;
    w.all_to_all_v((send.buffer(), &sent), (recv.buffer(), &received)).map_err(said)?;
    recv.is("all_to_all_v", wanted.clone())?;
    // Where a block without elements lies does not matter, but no `int` says it.
    if me == 0 {
        let far: Vec<usize> = (0..n).map(|r| if r == 0 { 1 << 32 } else { places[r] }).collect();
        match w.blocks(element, &counts, &far) {
            Ok(far) => sent = far,
            Err(e) if e.text.contains("large counts") => {}
            Err(e) => return Err(said(e)),
        }
    }
    recv = Memory::of(element, vec![7; got_total]);
    w.all_to_all_v((send.buffer(), &sent), (recv.buffer(), &received)).map_err(said)?;
    recv.is("all_to_all_v from afar", wanted)?;
    let short = recv.buffer().part(0, 0).ok_or("no part")?;
    let refused = w.all_to_all_v((send.buffer(), &sent), (short, &received));
    // One rank alone receives nothing but the gap.
    if n > 1 && refused.is_ok() {
        return Err("blocks beyond a buffer were taken".to_owned());
    }
    Ok(())
}
