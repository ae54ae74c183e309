//! Messages: what arrives, where, and how requests complete.
//! Not how connections begin or end.

use nccl_plugin_abi::net::MAX_REQUESTS;

use super::with_device;
use crate::plugin::check::{
    RuleOutcome,
    subject::{DEVICE, Message, Outcome, Subject, until, words},
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Messages of these sizes go through one connection.
fn go(subject: &Subject, sizes: impl IntoIterator<Item = usize>) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let (messages, bytes) = Message::row(sizes);
        let mut line = subject.line(bytes)?;
        line.exchange(&messages)?;
        line.close()
    })
}

pub(super) fn zero(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let mut line = subject.line(4 * KIB)?;
        let empty = Message { at: 0, bytes: 0, room: 0 };
        let roomy = Message { at: 64, bytes: 0, room: 64 };
        let full = Message { at: 256, bytes: 100, room: 100 };
        line.exchange(&[empty, full, roomy, Message { at: 512, ..full }, empty])?;
        line.close()
    })
}

pub(super) fn sizes(subject: &Subject) -> Outcome<RuleOutcome> {
    let most = match subject.devices {
        0 => usize::MAX,
        _ => subject.plugin.properties(DEVICE).map_err(words)?.max_p2p_bytes.unwrap_or(usize::MAX),
    };
    let around = [1, 2, 4, 8, 64, 128, 4 * KIB, 8 * KIB, 64 * KIB, 128 * KIB, MIB, 4 * MIB];
    let all = around.into_iter().flat_map(|size| [size - 1, size, size + 1]);
    let all = all.chain([3 * MIB + 12345, 16 * MIB + 7]);
    go(subject, all.filter(|size| (1..=most).contains(size)).collect::<Vec<_>>())
}

pub(super) fn larger(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let mut line = subject.line(2 * MIB)?;
        let small = Message { at: 0, bytes: 1000, room: 5000 };
        let one = Message { at: 8 * KIB, bytes: 1, room: 64 * KIB };
        let large = Message { at: MIB, bytes: 300 * KIB, room: MIB };
        line.exchange(&[small, one, large])?;
        line.close()
    })
}

/// Sizes that rise and fall: in another order they would not fit.
pub(super) fn in_order(subject: &Subject) -> Outcome<RuleOutcome> {
    go(subject, (0..24_usize).map(|n| 1 + n * 7919 % 24 * 5 * KIB))
}

/// As NCCL with its default buffers: eight in flight, and only the oldest tested.
pub(super) fn oldest(subject: &Subject) -> Outcome<RuleOutcome> {
    go(subject, [512 * KIB; 8])
}

pub(super) fn requests(subject: &Subject) -> Outcome<RuleOutcome> {
    go(subject, [64 * KIB; 2 * MAX_REQUESTS])
}

/// Nobody receives yet: a plugin may refuse a request at any time, and must accept one later.
pub(super) fn null_requests(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let each = MIB;
        let mut line = subject.line(MAX_REQUESTS * each)?;
        let mut sends = Vec::new();
        for number in 0..MAX_REQUESTS {
            let from = number * each..(number + 1) * each;
            line.write(number, from.clone())?;
            match line.sender.isend(&line.out, from, 0).map_err(words)? {
                Some(ticket) => sends.push(ticket),
                None => break,
            }
        }
        let mut begun = sends.len();
        for number in 0..MAX_REQUESTS {
            let room = number * each..(number + 1) * each;
            let mut ticket = None;
            let bytes = until(&format!("message {number}, with {begun} started"), || {
                if ticket.is_none() {
                    ticket = line.receiver.irecv(&line.back, room.clone(), 0).map_err(words)?;
                }
                if begun < MAX_REQUESTS {
                    let from = begun * each..(begun + 1) * each;
                    line.write(begun, from.clone())?;
                    if let Some(sent) = line.sender.isend(&line.out, from, 0).map_err(words)? {
                        sends.push(sent);
                        begun += 1;
                    }
                }
                if let Some(oldest) = sends.first().copied()
                    && line.sender.test(oldest).map_err(words)?
                {
                    sends.remove(0);
                }
                match ticket {
                    Some(ticket) => line.receiver.test(ticket).map_err(words),
                    None => Ok(None),
                }
            })?;
            if bytes != each {
                return Err(format!("message {number}: {bytes} bytes of {each}"));
            }
            line.holds(number, room, each)?;
        }
        Ok(())
    })
}

pub(super) fn without_sizes(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let mut line = subject.line(4 * KIB)?;
        line.write(0, 0..1000)?;
        let back = line.receiver.irecv(&line.back, 0..1000, 0).map_err(words)?;
        let out = line.sender.isend(&line.out, 0..1000, 0).map_err(words)?;
        let (mut back, mut out) = (back, out);
        let (mut came, mut went) = (false, false);
        until("a message", || {
            match back {
                None => back = line.receiver.irecv(&line.back, 0..1000, 0).map_err(words)?,
                Some(ticket) if !came => {
                    came = line.receiver.test_without_sizes(ticket).map_err(words)?;
                }
                Some(_) => {}
            }
            match out {
                None => out = line.sender.isend(&line.out, 0..1000, 0).map_err(words)?,
                Some(ticket) if !went => {
                    went = line.sender.test_without_sizes(ticket).map_err(words)?;
                }
                Some(_) => {}
            }
            Ok((came && went).then_some(()))
        })?;
        line.holds(0, 0..1000, 1000)?;
        line.close()
    })
}

/// NCCL presets the request for it (NCCL_NET_OPTIONAL_RECV_COMPLETION), and still tests it.
pub(super) fn quiet(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let mut line = subject.line(4 * KIB)?;
        line.write(0, 0..1000)?;
        let (mut back, mut out, mut came, mut went) = (None, None, None, false);
        let bytes = until("a message", || {
            if back.is_none() {
                back = line.receiver.irecv_quietly(&line.back, 0..1000, 0).map_err(words)?;
            }
            match out {
                None => out = line.sender.isend(&line.out, 0..1000, 0).map_err(words)?,
                Some(ticket) if !went => went = line.sender.test(ticket).map_err(words)?,
                Some(_) => {}
            }
            if let (Some(ticket), None) = (back, came) {
                came = line.receiver.test(ticket).map_err(words)?;
            }
            Ok(came.filter(|_| went))
        })?;
        if bytes != 1000 {
            return Err(format!("{bytes} bytes of 1000"));
        }
        line.holds(0, 0..1000, 1000)?;
        line.close()
    })
}

pub(super) fn grouped(subject: &Subject) -> Outcome<RuleOutcome> {
    if subject.devices > 0 {
        let most = subject.plugin.properties(DEVICE).map_err(words)?.max_recvs;
        if most == 1 {
            let text = "maxRecvs is 1: NCCL asks for one at a time".to_owned();
            return Ok(RuleOutcome::Waived(text));
        }
    }
    with_device(subject, || {
        let most = subject.plugin.properties(DEVICE).map_err(words)?.max_recvs;
        let count = usize::try_from(most).unwrap_or(1).min(4);
        let mut line = subject.line(count * 64 * KIB)?;
        let room = |number: usize| number * 64 * KIB..number * 64 * KIB + 50 * KIB;
        let bytes = |number: usize| 1000 + number;
        let parts: Vec<_> = (0..count).map(|n| (room(n), n as i32 + 10)).collect();
        for number in 0..count {
            line.write(number, number * 64 * KIB..number * 64 * KIB + bytes(number))?;
        }
        let mut group = None;
        // The last tag first.
        let mut waiting: Vec<usize> = (0..count).collect();
        let mut sends = Vec::new();
        let came = until("a group of receives", || {
            if group.is_none() {
                group = line.receiver.irecv_grouped(&line.back, &parts).map_err(words)?;
            }
            if let Some(number) = waiting.last().copied() {
                let from = number * 64 * KIB..number * 64 * KIB + bytes(number);
                let sent = line.sender.isend(&line.out, from, number as i32 + 10);
                if let Some(ticket) = sent.map_err(words)? {
                    sends.push(ticket);
                    waiting.pop();
                }
            }
            if let Some(oldest) = sends.first().copied()
                && line.sender.test(oldest).map_err(words)?
            {
                sends.remove(0);
            }
            match group {
                Some(group) if waiting.is_empty() => {
                    line.receiver.test_grouped(group).map_err(words)
                }
                _ => Ok(None),
            }
        })?;
        for (number, came) in came.into_iter().enumerate() {
            if came != bytes(number) {
                return Err(format!(
                    "tag {}: {came} bytes arrived of {}",
                    number + 10,
                    bytes(number)
                ));
            }
            line.holds(number, room(number), came)?;
        }
        Ok(())
    })
}
