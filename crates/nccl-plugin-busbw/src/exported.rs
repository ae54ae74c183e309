//! The symbols that NCCL finds, `ncclNetPlugin_v8` to `v12`, and the boundary behind them: raw pointers and
//! codes on NCCL's side, a network on ours. Nothing that happens here panics into NCCL.
//! No network of its own.

mod calls;
mod chosen;
mod properties;
mod tables;

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

use nccl_plugin_abi::Status;

pub use self::{
    chosen::{Make, replace},
    tables::{
        Table, ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10, ncclNetPlugin_v11,
        ncclNetPlugin_v12,
    },
};
use crate::{
    devices::Device,
    log,
    network::{Failure, Network, REQUESTS, Receiver, Request, Result, Sender},
};

/// A connection as NCCL holds it: a pointer to one of these, in a box.
struct Connection {
    end: End,
    /// Requests as NCCL holds them: pointers into here.
    open: Box<[Open]>,
}

enum End {
    Sends(Box<dyn Sender>),
    Receives(Box<dyn Receiver>),
}

/// A request that may be open.
struct Open {
    connection: *mut Connection,
    number: Request,
}

impl Connection {
    /// A connection in a box that NCCL owns until it closes it.
    fn leaked(end: End) -> *mut Connection {
        let connection = Box::into_raw(Box::new(Connection { end, open: Box::default() }));
        let open = (0..REQUESTS).map(|number| Open { connection, number }).collect();
        // SAFETY: no other pointer to it exists yet.
        unsafe { (*connection).open = open };
        connection
    }

    /// The pointer that NCCL gets for a request.
    fn request(&mut self, number: Request) -> Result<*mut Open> {
        let open = self.open.get_mut(number);
        open.map(std::ptr::from_mut).ok_or_else(|| internal("a request has no slot"))
    }
}

/// Runs a call of NCCL's and returns its code. Failures, panics included, get a line in NCCL's log.
fn guarded(what: &str, act: impl FnOnce() -> Result<()>) -> Status {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(failure)) => {
            log::warn(&format!("NET/{}: {what}: {failure}", tables::name()));
            failure.status
        }
        Err(_) => {
            log::warn(&format!(
                "NET/{}: {what}: a bug of busbw's; please report it",
                tables::name()
            ));
            Status::INTERNAL
        }
    }
}

fn internal(text: &str) -> Failure {
    Failure::new(Status::INTERNAL, text)
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(Status::INVALID_ARGUMENT, text)
}

/// Converts a number of NCCL's.
fn counted<T: TryFrom<N>, N: Copy + std::fmt::Display>(number: N, what: &str) -> Result<T> {
    T::try_from(number).map_err(|_| invalid(format!("{what} {number} is out of range")))
}

/// Writes to a pointer that NCCL gave for a result.
///
/// # Safety
/// It is null, or may be written.
unsafe fn put<T>(place: *mut T, value: T, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(invalid(format!("null pointer for {what}")));
    }
    // SAFETY: as the caller says.
    unsafe { place.write(value) };
    Ok(())
}

/// A device and its number.
fn device(network: &dyn Network, number: c_int) -> Result<(usize, &Device)> {
    let found = counted(number, "device").ok().and_then(|at| Some((at, network.device(at)?)));
    found.ok_or_else(|| {
        invalid(format!("there is no device {number}: there are {}", network.count()))
    })
}
