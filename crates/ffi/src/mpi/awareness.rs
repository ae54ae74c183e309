//! Whether a library accepts buffers in a GPU's memory, by its own statement alone. A library that
//! does not know a GPU's pointer crashes, or returns a wrong result.
//! Not where buffers are (`memory`), and not how the library moves their content.

use std::ffi::{CStr, c_int};

use super::{
    library::{Implementation, Mpi},
    session::Session,
};
use crate::gpu::Vendor;

/// MPIX_Query_cuda_support and similar functions (Open MPI from 2.0, MPICH from 4.0, MVAPICH2 from
/// 2.3.4): 0 is no.
type Query = unsafe extern "C" fn() -> c_int;
/// MPIX_GPU_query_support (MPICH from 4.0, Cray MPICH): the kind of GPU, and 0 in return for no.
type QueryOf = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;

/// The questions to a library.
trait Answers {
    /// The result of a function without arguments; `None` where the library has no such function.
    fn query(&self, name: &CStr) -> Option<c_int>;
    /// Whether MPIX_GPU_query_support supports this kind of GPU; `None` as above.
    fn supports(&self, gpus: c_int) -> Option<bool>;
    /// Whether a variable of the environment is 1.
    fn is_set(&self, variable: &str) -> bool;
}

impl Answers for Mpi {
    fn query(&self, name: &CStr) -> Option<c_int> {
        // SAFETY: the type is that of mpi-ext.h and of MPICH's mpi.h.
        let query = unsafe { self.library().function::<Query>(name) }?;
        // SAFETY: it takes nothing; MPI has been started.
        Some(unsafe { query() })
    }

    fn supports(&self, gpus: c_int) -> Option<bool> {
        // SAFETY: the type is that of MPICH's mpi.h.
        let query = unsafe { self.library().function::<QueryOf>(c"MPIX_GPU_query_support") }?;
        let mut answer = 0;
        // SAFETY: it writes one int; MPI has been started.
        let status = unsafe { query(gpus, &mut answer) };
        Some(status == 0 && answer != 0)
    }

    fn is_set(&self, variable: &str) -> bool {
        std::env::var(variable).is_ok_and(|value| value == "1")
    }
}

impl Session {
    /// Asks the library whether it accepts the memory of that vendor's GPUs. Call it after
    /// MPI_Init: Open MPI from 5.0 on does not know it before.
    ///
    /// # Errors
    /// The library says no, or nothing at all: its answers, and what to do.
    pub fn takes_memory_of(&self, vendor: Vendor) -> Result<(), String> {
        let mpi = self.mpi();
        decide(mpi, mpi.implementation(), vendor).map_err(|said| refusal(mpi, vendor, &said))
    }
}

/// Every function that the library has must say yes; without any function the answer is no. Returns
/// the answers.
fn decide(
    answers: &impl Answers,
    implementation: Implementation,
    vendor: Vendor,
) -> Result<(), String> {
    // The numbers are MPICH's MPIX_GPU_SUPPORT_CUDA and MPIX_GPU_SUPPORT_HIP.
    let (number, queries): (c_int, &[&CStr]) = match vendor {
        Vendor::Nvidia => (0, &[c"MPIX_Query_cuda_support"]),
        Vendor::Amd => (2, &[c"MPIX_Query_rocm_support", c"MPIX_Query_hip_support"]),
    };
    let mut said: Vec<(String, bool)> = Vec::new();
    for name in queries {
        if let Some(answer) = answers.query(name) {
            said.push((format!("{}() is {answer}", name.to_string_lossy()), answer != 0));
        }
    }
    if let Some(yes) = answers.supports(number) {
        said.push((format!("MPIX_GPU_query_support({number}) says {}", c_int::from(yes)), yes));
    }
    if said.is_empty() {
        return Err("it has no function that reports it".to_owned());
    }
    // MVAPICH's function says how it was built; this variable says whether it checks addresses at
    // all.
    if implementation == Implementation::Mvapich {
        let names = variables_of_mvapich(vendor);
        let on = names.iter().any(|name| answers.is_set(name));
        said.push((format!("{} is {}", names.join(" or "), if on { "1" } else { "not 1" }), on));
    }
    if said.iter().all(|(_, yes)| *yes) {
        return Ok(());
    }
    Err(said.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", "))
}

/// For MVAPICH2, and MVAPICH from 3.0 on.
fn variables_of_mvapich(vendor: Vendor) -> [&'static str; 2] {
    match vendor {
        Vendor::Nvidia => ["MV2_USE_CUDA", "MVP_USE_CUDA"],
        Vendor::Amd => ["MV2_USE_ROCM", "MVP_USE_ROCM"],
    }
}

fn refusal(mpi: &Mpi, vendor: Vendor, said: &str) -> String {
    let (gpus, with) = match vendor {
        Vendor::Nvidia => ("CUDA", "--with-cuda"),
        Vendor::Amd => ("ROCm", "--with-rocm"),
    };
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
    use Implementation::{Cray, Mpich, Mvapich, OpenMpi};
    use Vendor::{Amd, Nvidia};

    use super::*;

    /// A library's functions with their results, and variables that are 1.
    #[derive(Default)]
    struct Mocked {
        queries: &'static [(&'static CStr, c_int)],
        supported: Option<&'static [c_int]>,
        set: &'static [&'static str],
    }

    impl Answers for Mocked {
        fn query(&self, name: &CStr) -> Option<c_int> {
            self.queries.iter().find(|(known, _)| *known == name).map(|(_, answer)| *answer)
        }

        fn supports(&self, gpus: c_int) -> Option<bool> {
            self.supported.map(|numbers| numbers.contains(&gpus))
        }

        fn is_set(&self, variable: &str) -> bool {
            self.set.contains(&variable)
        }
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        let cuda = |answer: &'static [(&'static CStr, c_int)]| Mocked {
            queries: answer,
            ..Mocked::default()
        };
        let yes = &[(c"MPIX_Query_cuda_support", 1)];
        assert_eq!(decide(&cuda(yes), OpenMpi, Nvidia), Ok(()));
        let no = decide(&cuda(&[(c"MPIX_Query_cuda_support", 0)]), OpenMpi, Nvidia);
        assert_eq!(no, Err("MPIX_Query_cuda_support() is 0".to_owned()));
        // The question was about the other vendor's GPUs, of which it has no answer.
        let silent = Err("it has no function that reports it".to_owned());
        assert_eq!(decide(&cuda(yes), OpenMpi, Amd), silent);
        assert_eq!(decide(&Mocked::default(), Mpich, Nvidia), silent);
        let hip = cuda(&[(c"MPIX_Query_hip_support", 1), (c"MPIX_Query_cuda_support", 0)]);
        assert_eq!(decide(&hip, Mpich, Amd), Ok(()));
    }

    #[test]
    fn one_no_is_a_no() {
        let both = |supported: &'static [c_int]| Mocked {
            queries: &[(c"MPIX_Query_cuda_support", 1), (c"MPIX_Query_rocm_support", 1)],
            supported: Some(supported),
            set: &[],
        };
        assert_eq!(decide(&both(&[0]), Cray, Nvidia), Ok(()));
        assert_eq!(decide(&both(&[2]), Cray, Amd), Ok(()));
        // Intel's GPUs are number 1.
        let no = decide(&both(&[1]), Cray, Nvidia).unwrap_err();
        assert_eq!(no, "MPIX_Query_cuda_support() is 1, MPIX_GPU_query_support(0) says 0");
    }

    #[test]
    fn mvapich_looks_at_addresses_only_when_told_to() {
        let built =
            |set| Mocked { queries: &[(c"MPIX_Query_cuda_support", 1)], supported: None, set };
        let no = decide(&built(&["MV2_USE_ROCM"]), Mvapich, Nvidia).unwrap_err();
        assert!(no.ends_with("MV2_USE_CUDA or MVP_USE_CUDA is not 1"), "{no}");
        for variable in [&["MV2_USE_CUDA"], &["MVP_USE_CUDA"]] {
            assert_eq!(decide(&built(variable), Mvapich, Nvidia), Ok(()));
        }
        // The variable alone makes no library aware.
        let only = Mocked { set: &["MV2_USE_CUDA"], ..Mocked::default() };
        assert!(decide(&only, Mvapich, Nvidia).is_err());
    }
}
