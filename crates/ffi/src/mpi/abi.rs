//! The differences between MPI's three ABIs: the width of a handle, and the constants.
//! Not the functions (`table`), which have the same names in all of them.

use std::ffi::{CStr, c_int, c_void};

use super::{
    element::Element,
    table::{Functions, Handle},
};
use dynamic_library::{Library, LoadError};

/// The functions of a library, for its width of handles.
#[derive(Debug)]
pub(super) enum Abi {
    /// MPICH, Intel MPI, Cray MPICH, MVAPICH: `int`.
    Ints(Functions<c_int>),
    /// Open MPI and the standard ABI: pointers.
    Pointers(Functions<*mut c_void>),
}

/// Runs `$what` with `$functions` bound to the table of the library's ABI: a branch that is always
/// predicted.
macro_rules! with {
    ($mpi:expr, $functions:ident => $what:expr) => {
        match &$mpi.abi {
            $crate::mpi::abi::Abi::Ints($functions) => $what,
            $crate::mpi::abi::Abi::Pointers($functions) => $what,
        }
    };
}
pub(super) use with;

/// MPI_UNDEFINED, the same in all three ABIs.
pub(super) const UNDEFINED: c_int = -32766;

/// A handle stored as a number: the bits of an `int`, or of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bits(pub(super) usize);

impl Bits {
    /// The handle, in the width of the functions that take it.
    pub(super) fn get<H: Handle>(self) -> H {
        H::of(self.0)
    }
}

/// Constants of an ABI. Sources: mpi.h of Open MPI 4.1.4 (Debian libopenmpi-dev 4.1.4-3), where
/// handles are the addresses of variables; mpi.h of MPICH 4.0.2 (Debian libmpich-dev 4.0.2-3), whose
/// family promises the same (MPICH ABI Compatibility Initiative); mpi.h of mpi-forum/mpi-abi-stubs
/// 14ef69e, the standard ABI of MPI 5.0, chapter 20. The first two as printed by a C program.
#[derive(Debug)]
pub(super) struct Constants {
    pub(super) comm_world: Bits,
    pub(super) comm_self: Bits,
    pub(super) comm_null: Bits,
    pub(super) info_null: Bits,
    pub(super) errors_return: Bits,
    /// In the order of [`Element::ALL`].
    pub(super) elements: [Bits; Element::ALL.len()],
    /// Sum, product, maximum, minimum.
    pub(super) operators: [Bits; 4],
    pub(super) in_place: usize,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE, the same number in every ABI.
    pub(super) status_ignore: usize,
    pub(super) any_source: c_int,
    /// Single, funneled, serialized, multiple.
    pub(super) threads: [c_int; 4],
    pub(super) shared: c_int,
}

/// Bytes for any text of MPI: MPI_MAX_LIBRARY_VERSION_STRING is 256 in Open MPI and 8192 in the
/// others; MPI_MAX_ERROR_STRING 256 and 512.
pub(super) const MAX_TEXT_BYTES: usize = 8192;

impl Constants {
    /// The constants of MPICH and its family.
    pub(super) fn of_mpich() -> Constants {
        Constants {
            comm_world: Bits(0x4400_0000),
            comm_self: Bits(0x4400_0001),
            comm_null: Bits(0x0400_0000),
            info_null: Bits(0x1c00_0000),
            errors_return: Bits(0x5400_0001),
            elements: [
                0x4c00_0137,
                0x4c00_013b,
                0x4c00_0439,
                0x4c00_043d,
                0x4c00_083a,
                0x4c00_083e,
                0x4c00_040a,
                0x4c00_080b,
                0x4c00_0101,
                0x4c00_010d,
            ]
            .map(Bits),
            operators: [0x5800_0003, 0x5800_0004, 0x5800_0001, 0x5800_0002].map(Bits),
            in_place: usize::MAX,
            status_ignore: 1,
            any_source: -2,
            threads: [0, 1, 2, 3],
            shared: 1,
        }
    }

    /// The constants of the standard ABI.
    pub(super) fn of_standard() -> Constants {
        Constants {
            comm_world: Bits(0x101),
            comm_self: Bits(0x102),
            comm_null: Bits(0x100),
            info_null: Bits(0x130),
            errors_return: Bits(0x142),
            elements: [0x240, 0x241, 0x250, 0x251, 0x258, 0x259, 0x210, 0x214, 0x243, 0x247]
                .map(Bits),
            operators: [0x21, 0x24, 0x23, 0x22].map(Bits),
            in_place: 1,
            status_ignore: 0,
            any_source: -1,
            threads: [0, 1024, 2048, 4096],
            shared: 221,
        }
    }

    /// The constants of Open MPI: the addresses of its variables.
    ///
    /// # Errors
    /// The library lacks a required function or variable.
    pub(super) fn of_open_mpi(library: &Library) -> Result<Constants, LoadError> {
        let at = |name: &'static CStr| match library.address(name) {
            Some(address) => Ok(Bits(address as usize)),
            None => Err(LoadError::Missing {
                path: library.path().display().to_string(),
                function: name.to_str().unwrap_or("ompi_mpi_"),
                library: "Open MPI",
            }),
        };
        Ok(Constants {
            comm_world: at(c"ompi_mpi_comm_world")?,
            comm_self: at(c"ompi_mpi_comm_self")?,
            comm_null: at(c"ompi_mpi_comm_null")?,
            info_null: at(c"ompi_mpi_info_null")?,
            errors_return: at(c"ompi_mpi_errors_return")?,
            elements: [
                at(c"ompi_mpi_int8_t")?,
                at(c"ompi_mpi_uint8_t")?,
                at(c"ompi_mpi_int32_t")?,
                at(c"ompi_mpi_uint32_t")?,
                at(c"ompi_mpi_int64_t")?,
                at(c"ompi_mpi_uint64_t")?,
                at(c"ompi_mpi_float")?,
                at(c"ompi_mpi_double")?,
                at(c"ompi_mpi_char")?,
                at(c"ompi_mpi_byte")?,
            ],
            operators: [
                at(c"ompi_mpi_op_sum")?,
                at(c"ompi_mpi_op_prod")?,
                at(c"ompi_mpi_op_max")?,
                at(c"ompi_mpi_op_min")?,
            ],
            in_place: 1,
            status_ignore: 0,
            any_source: -1,
            threads: [0, 1, 2, 3],
            shared: 0,
        })
    }
}
