//! Element types, counts and operators as MPI takes them.
//! Not memory: `buffer` is.

use std::ffi::c_int;

use busbw_core::{DataType, ReduceOp};
use thiserror::Error;

use super::{
    abi::{Bits, with},
    communicator::Communicator,
    library::{Mpi, MpiError},
    session::call,
    table::Handle,
};

/// An element type that MPI knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// MPI_INT8_T.
    Int8,
    /// MPI_UINT8_T.
    Uint8,
    /// MPI_INT32_T.
    Int32,
    /// MPI_UINT32_T.
    Uint32,
    /// MPI_INT64_T.
    Int64,
    /// MPI_UINT64_T.
    Uint64,
    /// MPI_FLOAT.
    Float,
    /// MPI_DOUBLE.
    Double,
    /// MPI_CHAR; MPI does not reduce it.
    Char,
    /// MPI_BYTE; MPI does not reduce it either.
    Byte,
}

/// A feature that MPI lacks: its name and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NotPossible(pub String);

impl Element {
    /// All types.
    pub const ALL: [Element; 10] = [
        Element::Int8,
        Element::Uint8,
        Element::Int32,
        Element::Uint32,
        Element::Int64,
        Element::Uint64,
        Element::Float,
        Element::Double,
        Element::Char,
        Element::Byte,
    ];

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Element::Int8 | Element::Uint8 | Element::Char | Element::Byte => 1,
            Element::Int32 | Element::Uint32 | Element::Float => 4,
            Element::Int64 | Element::Uint64 | Element::Double => 8,
        }
    }

    /// The type for reductions of elements of `datatype`.
    ///
    /// # Errors
    /// MPI has no such type.
    pub fn reduced(datatype: DataType) -> Result<Element, NotPossible> {
        Element::of(datatype).ok_or_else(|| {
            NotPossible(format!(
                "MPI has no {} to reduce (MPI 4.1, section 3.2.2); it can be moved, as bytes",
                datatype.name()
            ))
        })
    }

    /// The type for moving `count` elements of `datatype`, and the count: bytes where MPI does not
    /// know the type.
    pub fn moved(datatype: DataType, count: usize) -> (Element, usize) {
        let bytes = (Element::Byte, count.saturating_mul(datatype.bytes()));
        Element::of(datatype).map_or(bytes, |element| (element, count))
    }

    fn of(datatype: DataType) -> Option<Element> {
        Some(match datatype {
            DataType::Int8 => Element::Int8,
            DataType::Uint8 => Element::Uint8,
            DataType::Int32 => Element::Int32,
            DataType::Uint32 => Element::Uint32,
            DataType::Int64 => Element::Int64,
            DataType::Uint64 => Element::Uint64,
            DataType::Float => Element::Float,
            DataType::Double => Element::Double,
            DataType::Half | DataType::Bfloat16 | DataType::F8e4m3 | DataType::F8e5m2 => {
                return None;
            }
        })
    }
}

/// A reduction operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator(pub(super) Bits);

impl Mpi {
    pub(super) fn operator(&self, op: ReduceOp) -> Result<Operator, NotPossible> {
        let [sum, prod, max, min] = self.constants.operators;
        match op {
            ReduceOp::Sum => Ok(Operator(sum)),
            ReduceOp::Prod => Ok(Operator(prod)),
            ReduceOp::Max => Ok(Operator(max)),
            ReduceOp::Min => Ok(Operator(min)),
            ReduceOp::Avg | ReduceOp::Mulsum => {
                Err(NotPossible(format!("MPI has no operator {}", op.name())))
            }
        }
    }

    fn handle_of(&self, element: Element) -> Bits {
        self.constants.elements[element as usize]
    }
}

/// A number of elements of a type, prepared for one library ahead of the timed calls.
#[derive(Debug, Clone, Copy)]
pub struct Elements {
    /// The type that is counted.
    pub(super) datatype: Bits,
    pub(super) count: usize,
    /// Whether the count needs the functions that end in `_c`.
    pub(super) large: bool,
    /// The type and number of elements, where `datatype` holds several of them.
    pub(super) base: Bits,
    pub(super) base_count: usize,
    /// The largest count that is passed to MPI.
    pub(super) most: usize,
    element: Element,
}

impl Elements {
    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.base_count * self.element.bytes()
    }

    /// Whether one counted type holds several elements, so that MPI cannot reduce it.
    pub(super) fn gathered(&self) -> bool {
        self.count != self.base_count
    }

    pub(super) fn element_bytes(&self) -> usize {
        self.element.bytes()
    }
}

/// Counts and displacements of an all-to-all of unequal blocks, one a rank, in elements.
#[derive(Debug, Clone)]
pub struct Blocks {
    pub(super) datatype: Bits,
    pub(super) counts: Vec<i64>,
    pub(super) displacements: Vec<isize>,
    /// The same as `int`, where they fit.
    pub(super) narrow: Option<(Vec<c_int>, Vec<c_int>)>,
    /// Bytes from the buffer's start to the end of the farthest block.
    pub(super) reach: usize,
}

impl Communicator {
    /// `count` elements as this library takes them. Up to 2^31 - 1 that is the count itself.
    /// Beyond, the functions of MPI 4 with large counts are used or, in a library without them,
    /// types that each hold several elements (MPI_Type_contiguous), or one that holds all
    /// (MPI_Type_create_struct). Types are created once and kept until the end:
    /// [`Communicator::elements_within`].
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn elements(&self, element: Element, count: usize) -> Result<Elements, MpiError> {
        let most = c_int::MAX as usize;
        let large = if count > most { self.elements_of_large_count(element, count) } else { None };
        large.map_or_else(|| self.elements_within(element, count, most), Ok)
    }

    /// The same with large counts, however small the count is; `None` where the library has none.
    pub fn elements_of_large_count(&self, element: Element, count: usize) -> Option<Elements> {
        let has = with!(self.joined.mpi, functions => functions.send_c.is_some());
        let bytes = count.checked_mul(element.bytes())?;
        let datatype = self.joined.mpi.handle_of(element);
        (has && bytes <= isize::MAX as usize).then_some(Elements {
            datatype,
            count,
            large: true,
            base: datatype,
            base_count: count,
            most: count,
            element,
        })
    }

    /// The same with no count above `most`: types that each hold several elements, or a single one,
    /// in a message of the same size. Reductions of them run in pieces, and
    /// [`Communicator::reduce_scatter`] refuses them.
    ///
    /// # Errors
    /// There are more bytes than memory can have, or MPI refuses the type.
    pub fn elements_within(
        &self,
        element: Element,
        count: usize,
        most: usize,
    ) -> Result<Elements, MpiError> {
        let base = self.joined.mpi.handle_of(element);
        let most = most.clamp(1, c_int::MAX as usize);
        let parts = Parts::of(count, most);
        let bytes =
            count.checked_mul(element.bytes()).and_then(|bytes| isize::try_from(bytes).ok());
        if bytes.is_none() || c_int::try_from(parts.unit).is_err() {
            let why = format!("{count} elements are more than one message can hold");
            return Err(MpiError::of_no_call("MPI_Type_contiguous", why));
        }
        let (datatype, base_count) = match parts {
            Parts { unit: 1, .. } => (base, count),
            Parts { unit, rest: 0, .. } => (self.contiguous(base, unit)?, count),
            _ => (self.unequal(base, element.bytes(), parts)?, count),
        };
        let count = if parts.rest == 0 { parts.whole } else { 1 };
        Ok(Elements { datatype, count, large: false, base, base_count, most, element })
    }

    /// Blocks of `counts[r]` elements for rank `r` at `displacements[r]`.
    ///
    /// # Errors
    /// There is not one count and one displacement for every rank, or there are too many elements
    /// for a library without large counts.
    pub fn blocks(
        &self,
        element: Element,
        counts: &[usize],
        displacements: &[usize],
    ) -> Result<Blocks, MpiError> {
        let refused = |why: String| MpiError::of_no_call("MPI_Alltoallv", why);
        if counts.len() != self.ranks() || displacements.len() != self.ranks() {
            return Err(refused(format!(
                "{} counts and {} displacements for {} ranks",
                counts.len(),
                displacements.len(),
                self.ranks()
            )));
        }
        let ends = counts.iter().zip(displacements).map(|(count, at)| {
            if *count == 0 { Some(0) } else { count.checked_add(*at)?.checked_mul(element.bytes()) }
        });
        let reach = ends.map(|end| end.unwrap_or(usize::MAX)).max().unwrap_or(0);
        if reach > isize::MAX as usize {
            return Err(refused("a block lies beyond the end of memory".to_owned()));
        }
        let narrow = |numbers: &[usize]| {
            numbers.iter().map(|n| c_int::try_from(*n).ok()).collect::<Option<Vec<c_int>>>()
        };
        let narrow = narrow(counts).zip(narrow(displacements));
        let has_large = with!(self.joined.mpi, functions => functions.alltoallv_c.is_some());
        if narrow.is_none() && !has_large {
            return Err(refused(format!(
                "blocks beyond {} elements need MPI 4's large counts, which this library lacks",
                c_int::MAX
            )));
        }
        Ok(Blocks {
            datatype: self.joined.mpi.handle_of(element),
            counts: counts.iter().map(|n| *n as i64).collect(),
            displacements: displacements.iter().map(|n| *n as isize).collect(),
            narrow,
            reach,
        })
    }

    /// A type of `unit` elements.
    fn contiguous(&self, base: Bits, unit: usize) -> Result<Bits, MpiError> {
        self.made(base, Parts { unit, whole: 1, rest: 0 }, || {
            let mpi = self.joined.mpi;
            with!(mpi, functions => {
                let mut handle = Handle::of(0);
                call!(mpi, functions, type_contiguous(unit as c_int, base.get(), &mut handle))?;
                call!(mpi, functions, type_commit(&mut handle))?;
                Ok(Bits(handle.bits()))
            })
        })
    }

    /// A type of all elements, of `bytes` bytes each: a number of units, and the rest behind them.
    fn unequal(&self, base: Bits, bytes: usize, parts: Parts) -> Result<Bits, MpiError> {
        let units = self.contiguous(base, parts.unit)?;
        self.made(base, parts, || {
            let mpi = self.joined.mpi;
            let counts = [parts.whole as c_int, parts.rest as c_int];
            let at = [0, (parts.unit * parts.whole * bytes) as isize];
            with!(mpi, functions => {
                let mut handle = Handle::of(0);
                let types = [units.get(), base.get()];
                let (counts, at, types) = (counts.as_ptr(), at.as_ptr(), types.as_ptr());
                call!(mpi, functions, type_struct(2, counts, at, types, &mut handle))?;
                call!(mpi, functions, type_commit(&mut handle))?;
                Ok(Bits(handle.bits()))
            })
        })
    }

    /// A type from the cache, created if it is missing.
    fn made(
        &self,
        base: Bits,
        parts: Parts,
        make: impl FnOnce() -> Result<Bits, MpiError>,
    ) -> Result<Bits, MpiError> {
        let of = (base.0, parts);
        if let Some(handle) = self.joined.derived.borrow().get(&of) {
            return Ok(*handle);
        }
        let handle = make()?;
        self.joined.derived.borrow_mut().insert(of, handle);
        Ok(handle)
    }
}

/// Elements as `whole` times `unit` of them, and `rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parts {
    unit: usize,
    whole: usize,
    rest: usize,
}

impl Parts {
    /// The smallest unit, a power of two, of which there are at most `most`: whole MiB leave no
    /// rest.
    fn of(count: usize, most: usize) -> Parts {
        let unit = count.div_ceil(most.max(1)).next_power_of_two();
        Parts { unit, whole: count / unit, rest: count % unit }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_that_mpi_has_not_are_moved_and_not_reduced() {
        for datatype in DataType::ALL {
            let (element, count) = Element::moved(datatype, 6);
            assert_eq!(element.bytes() * count, 6 * datatype.bytes(), "{}", datatype.name());
            match Element::reduced(datatype) {
                Ok(same) => assert_eq!(same, element),
                Err(why) => assert!(why.to_string().contains(datatype.name()), "{why}"),
            }
        }
        assert!(Element::reduced(DataType::Half).is_err());
        assert!(Element::reduced(DataType::Uint64).is_ok());
    }

    #[test]
    fn each_element_has_its_place_in_the_tables() {
        for (at, element) in Element::ALL.into_iter().enumerate() {
            assert_eq!(element as usize, at);
        }
    }

    #[test]
    fn large_counts() {
        let most = c_int::MAX as usize;
        let parts = |count| {
            let Parts { unit, whole, rest } = Parts::of(count, most);
            (unit, whole, rest)
        };
        assert_eq!(parts(0), (1, 0, 0));
        assert_eq!(parts(most), (1, most, 0));
        assert_eq!(parts(1 << 31), (2, 1 << 30, 0));
        assert_eq!(parts((1 << 31) + 11), (2, (1 << 30) + 5, 1));
        assert_eq!(parts(1 << 32), (4, 1 << 30, 0));
    }

    proptest! {
        #[test]
        fn what_is_counted_holds_all(count in 0_usize..1 << 45, most in 1_usize..1 << 31) {
            let Parts { unit, whole, rest } = Parts::of(count, most);
            prop_assert_eq!(unit * whole + rest, count);
            prop_assert!(whole <= most && rest < unit);
        }
    }
}
