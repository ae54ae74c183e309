//! Whether a library takes buffers in a GPU's memory: by its own word, and by nothing else. A pointer that it
//! does not know ends in a segmentation fault, or in a wrong result.
//! Not where buffers are (`memory`), and not how the library moves what is in them.

use std::{
    ffi::{CStr, c_int},
    fmt::Write as _,
};

use super::{
    library::{Implementation, Mpi},
    session::Session,
};
use crate::gpu::Vendor;

/// MPIX_Query_cuda_support and its kin (Open MPI from 2.0, MPICH from 4.0, MVAPICH2 from 2.3.4): 0 is no.
type Query = unsafe extern "C" fn() -> c_int;
/// MPIX_GPU_query_support (MPICH from 4.0, Cray MPICH): which GPUs, and 0 in return for no.
type QueryOf = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;

/// What it said: `name() is 0`, several by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    text: String,
    yes: bool,
}

impl Said {
    /// One answer more. Several must agree: one no is a no.
    fn add(&mut self, what: &str, yes: bool) {
        let comma = if self.text.is_empty() { "" } else { ", " };
        let _ = write!(self.text, "{comma}{what}");
        self.yes &= yes;
    }
}

impl Session {
    /// Asks the library whether it takes the memory of that vendor's GPUs; only now, since Open MPI from 5.0 on
    /// does not know before MPI_Init.
    ///
    /// # Errors
    /// What it said, and what to do: no, or nothing at all.
    pub fn takes_memory_of(&self, vendor: Vendor) -> Result<(), String> {
        let mpi = self.mpi();
        let said = mpi.says_of(vendor);
        match said {
            Some(Said { yes: true, .. }) => Ok(()),
            said => Err(refusal(mpi, vendor, said.as_ref())),
        }
    }
}

impl Mpi {
    /// Every answer that it has; none where it has no such function.
    fn says_of(&self, vendor: Vendor) -> Option<Said> {
        let mut said = Said { text: String::new(), yes: true };
        // The numbers are MPICH's MPIX_GPU_SUPPORT_CUDA and MPIX_GPU_SUPPORT_HIP.
        let (number, queries): (c_int, &[&CStr]) = match vendor {
            Vendor::Nvidia => (0, &[c"MPIX_Query_cuda_support"]),
            Vendor::Amd => (2, &[c"MPIX_Query_rocm_support", c"MPIX_Query_hip_support"]),
        };
        for name in queries {
            // SAFETY: the type is that of mpi-ext.h and of MPICH's mpi.h.
            let Some(query) = (unsafe { self.library().function::<Query>(name) }) else { continue };
            // SAFETY: it takes nothing; MPI has been started.
            let answer = unsafe { query() };
            said.add(&format!("{}() is {answer}", name.to_string_lossy()), answer != 0);
        }
        // SAFETY: the type is that of MPICH's mpi.h.
        let query = unsafe { self.library().function::<QueryOf>(c"MPIX_GPU_query_support") };
        if let Some(query) = query {
            let mut answer = 0;
            // SAFETY: it writes one int; MPI has been started.
            let status = unsafe { query(number, &mut answer) };
            let yes = status == 0 && answer != 0;
            said.add(&format!("MPIX_GPU_query_support({number}) says {}", c_int::from(yes)), yes);
        }
        if said.text.is_empty() {
            return None;
        }
        // MVAPICH's function tells how it was built; whether it looks at addresses at all is this variable's.
        if self.implementation() == Implementation::Mvapich {
            let names = variables_of_mvapich(vendor);
            let on = names.iter().any(|name| std::env::var(name).is_ok_and(|value| value == "1"));
            let word = if on { "1" } else { "not 1" };
            said.add(&format!("{} is {word}", names.join(" or ")), on);
        }
        Some(said)
    }
}

/// Of MVAPICH2, and of MVAPICH from 3.0 on.
fn variables_of_mvapich(vendor: Vendor) -> [&'static str; 2] {
    match vendor {
        Vendor::Nvidia => ["MV2_USE_CUDA", "MVP_USE_CUDA"],
        Vendor::Amd => ["MV2_USE_ROCM", "MVP_USE_ROCM"],
    }
}

fn refusal(mpi: &Mpi, vendor: Vendor, said: Option<&Said>) -> String {
    let (gpus, with) = match vendor {
        Vendor::Nvidia => ("CUDA", "--with-cuda"),
        Vendor::Amd => ("ROCm", "--with-rocm"),
    };
    let said = said.map_or("it has no function that would say so", |said| &said.text);
    let advice = match mpi.implementation() {
        Implementation::OpenMpi | Implementation::Other => format!("one configured {with}"),
        Implementation::Mpich => format!("one configured {with}, without MPIR_CVAR_ENABLE_GPU=0"),
        Implementation::Cray => "Cray's with MPICH_GPU_SUPPORT_ENABLED=1".to_owned(),
        Implementation::Intel => "another than Intel's".to_owned(),
        Implementation::Mvapich => {
            format!("one configured {with}, with {}=1", variables_of_mvapich(vendor).join("=1 or "))
        }
    };
    format!(
        "{} at {} takes no buffers in GPUs' memory: {said}. Use an MPI that is aware of {gpus} ({advice}; --mpi or \
         BUSBW_MPI names it), or leave buffers on the host (--buffers host; H under OSU's names)",
        mpi.version(),
        mpi.path().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_no_is_a_no() {
        let mut said = Said { text: String::new(), yes: true };
        said.add("MPIX_Query_cuda_support() is 1", true);
        assert!(said.yes);
        said.add("MPIX_GPU_query_support(0) says 0", false);
        said.add("MV2_USE_CUDA or MVP_USE_CUDA is 1", true);
        assert!(!said.yes);
        assert_eq!(said.text.matches(", ").count(), 2, "{}", said.text);
    }
}
