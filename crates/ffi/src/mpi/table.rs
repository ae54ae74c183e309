//! MPI's functions with the types of mpi.h, for handles of type `H`: `c_int` in MPICH and its family,
//! pointers in Open MPI and in the standard ABI. Not what they are called for.

use std::ffi::{c_char, c_int, c_void};

use dynamic_library::{Library, LoadError};

/// A handle of one of the ABIs. busbw keeps handles as numbers, so that its types do not depend on the ABI.
pub(super) trait Handle: Copy + 'static {
    fn of(bits: usize) -> Self;
    fn bits(self) -> usize;
}

impl Handle for c_int {
    fn of(bits: usize) -> c_int {
        bits as c_int
    }

    fn bits(self) -> usize {
        self as u32 as usize
    }
}

impl Handle for *mut c_void {
    fn of(bits: usize) -> *mut c_void {
        bits as *mut c_void
    }

    fn bits(self) -> usize {
        self as usize
    }
}

/// The count argument: `int`, or MPI_Count in the functions that end in `_c`.
pub(super) trait Count {
    fn of(count: usize) -> Self;
}

impl Count for c_int {
    fn of(count: usize) -> c_int {
        count as c_int
    }
}

/// MPI_Count, 64 bits in all three ABIs.
impl Count for i64 {
    fn of(count: usize) -> i64 {
        count as i64
    }
}

/// Declares the table: functions without which a library is no MPI 3, and functions that some lack.
macro_rules! functions {
    (
        $(#[$attribute:meta])*
        $table:ident<$handle:ident> {
            needed { $( $function:ident = $name:literal ($($argument:ty),*) -> $status:ty; )* }
            if_there { $( $other:ident = $other_name:literal ($($other_argument:ty),*); )* }
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub(super) struct $table<$handle> {
            $( pub(super) $function: unsafe extern "C" fn($($argument),*) -> $status, )*
            $( pub(super) $other: Option<unsafe extern "C" fn($($other_argument),*) -> c_int>, )*
        }

        impl<$handle: Handle> $table<$handle> {
            /// Looks every function up.
            ///
            /// # Errors
            /// [`LoadError::Missing`]: it lacks one that is needed.
            pub(super) fn open(library: &Library) -> Result<$table<$handle>, LoadError> {
                Ok($table {
                    $(
                        // SAFETY: the type is mpi.h's, of which the table is a transcript, and the
                        // caller chose `H` by the library's ABI.
                        $function: unsafe { library.function($name) }.ok_or_else(|| LoadError::Missing {
                            path: library.path().display().to_string(),
                            function: $name.to_str().unwrap_or(stringify!($function)),
                            library: "MPI",
                        })?,
                    )*
                    $(
                        // SAFETY: as above.
                        $other: unsafe { library.function($other_name) },
                    )*
                })
            }
        }

        /// What MPI itself calls an entry of the table, for messages.
        pub(super) fn name_of(entry: &'static str) -> &'static str {
            match entry {
                $( stringify!($function) => $name.to_str().unwrap_or(entry), )*
                $( stringify!($other) => $other_name.to_str().unwrap_or(entry), )*
                _ => entry,
            }
        }
    };
}

type In = *const c_void;
type Out = *mut c_void;
type Status = *mut c_void;

functions! {
    /// Large counts are functions of MPI 4 (Open MPI has them from 5.0, MPICH from 4.0).
    Functions<H> {
        needed {
            initialized = c"MPI_Initialized" (*mut c_int) -> c_int;
            finalized = c"MPI_Finalized" (*mut c_int) -> c_int;
            init_thread = c"MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
            finalize = c"MPI_Finalize" () -> c_int;
            abort = c"MPI_Abort" (H, c_int) -> c_int;
            version = c"MPI_Get_version" (*mut c_int, *mut c_int) -> c_int;
            error_string = c"MPI_Error_string" (c_int, *mut c_char, *mut c_int) -> c_int;
            set_errhandler = c"MPI_Comm_set_errhandler" (H, H) -> c_int;
            wtime = c"MPI_Wtime" () -> f64;
            rank = c"MPI_Comm_rank" (H, *mut c_int) -> c_int;
            size = c"MPI_Comm_size" (H, *mut c_int) -> c_int;
            split = c"MPI_Comm_split" (H, c_int, c_int, *mut H) -> c_int;
            split_type = c"MPI_Comm_split_type" (H, c_int, c_int, H, *mut H) -> c_int;
            free = c"MPI_Comm_free" (*mut H) -> c_int;
            type_contiguous = c"MPI_Type_contiguous" (c_int, H, *mut H) -> c_int;
            type_struct = c"MPI_Type_create_struct"
                (c_int, *const c_int, *const isize, *const H, *mut H) -> c_int;
            type_free = c"MPI_Type_free" (*mut H) -> c_int;
            type_commit = c"MPI_Type_commit" (*mut H) -> c_int;
            send = c"MPI_Send" (In, c_int, H, c_int, c_int, H) -> c_int;
            recv = c"MPI_Recv" (Out, c_int, H, c_int, c_int, H, Status) -> c_int;
            isend = c"MPI_Isend" (In, c_int, H, c_int, c_int, H, *mut H) -> c_int;
            irecv = c"MPI_Irecv" (Out, c_int, H, c_int, c_int, H, *mut H) -> c_int;
            sendrecv = c"MPI_Sendrecv"
                (In, c_int, H, c_int, c_int, Out, c_int, H, c_int, c_int, H, Status) -> c_int;
            waitall = c"MPI_Waitall" (c_int, *mut H, Status) -> c_int;
            testall = c"MPI_Testall" (c_int, *mut H, *mut c_int, Status) -> c_int;
            barrier = c"MPI_Barrier" (H) -> c_int;
            bcast = c"MPI_Bcast" (Out, c_int, H, c_int, H) -> c_int;
            reduce = c"MPI_Reduce" (In, Out, c_int, H, H, c_int, H) -> c_int;
            allreduce = c"MPI_Allreduce" (In, Out, c_int, H, H, H) -> c_int;
            reduce_scatter = c"MPI_Reduce_scatter_block" (In, Out, c_int, H, H, H) -> c_int;
            allgather = c"MPI_Allgather" (In, c_int, H, Out, c_int, H, H) -> c_int;
            alltoall = c"MPI_Alltoall" (In, c_int, H, Out, c_int, H, H) -> c_int;
            alltoallv = c"MPI_Alltoallv"
                (In, *const c_int, *const c_int, H, Out, *const c_int, *const c_int, H, H) -> c_int;
            gather = c"MPI_Gather" (In, c_int, H, Out, c_int, H, c_int, H) -> c_int;
            scatter = c"MPI_Scatter" (In, c_int, H, Out, c_int, H, c_int, H) -> c_int;
        }
        if_there {
            send_c = c"MPI_Send_c" (In, i64, H, c_int, c_int, H);
            recv_c = c"MPI_Recv_c" (Out, i64, H, c_int, c_int, H, Status);
            isend_c = c"MPI_Isend_c" (In, i64, H, c_int, c_int, H, *mut H);
            irecv_c = c"MPI_Irecv_c" (Out, i64, H, c_int, c_int, H, *mut H);
            sendrecv_c = c"MPI_Sendrecv_c"
                (In, i64, H, c_int, c_int, Out, i64, H, c_int, c_int, H, Status);
            bcast_c = c"MPI_Bcast_c" (Out, i64, H, c_int, H);
            reduce_c = c"MPI_Reduce_c" (In, Out, i64, H, H, c_int, H);
            allreduce_c = c"MPI_Allreduce_c" (In, Out, i64, H, H, H);
            reduce_scatter_c = c"MPI_Reduce_scatter_block_c" (In, Out, i64, H, H, H);
            allgather_c = c"MPI_Allgather_c" (In, i64, H, Out, i64, H, H);
            alltoall_c = c"MPI_Alltoall_c" (In, i64, H, Out, i64, H, H);
            alltoallv_c = c"MPI_Alltoallv_c"
                (In, *const i64, *const isize, H, Out, *const i64, *const isize, H, H);
            gather_c = c"MPI_Gather_c" (In, i64, H, Out, i64, H, c_int, H);
            scatter_c = c"MPI_Scatter_c" (In, i64, H, Out, i64, H, c_int, H);
        }
    }
}
