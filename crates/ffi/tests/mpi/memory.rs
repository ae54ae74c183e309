//! Memory of a rank of the test, as elements and as a buffer. Not what is done with it.

use busbw_ffi::mpi::{Buffer, Element};

/// Elements of one type, with as many bytes as they say.
pub struct Memory {
    bytes: Vec<u8>,
    element: Element,
}

impl Memory {
    /// From whole numbers; each must fit the type.
    pub fn of(element: Element, numbers: impl IntoIterator<Item = u64>) -> Memory {
        let bytes = numbers.into_iter().flat_map(|number| encoded(element, number)).collect();
        Memory { bytes, element }
    }

    /// So many elements that nobody sends.
    pub fn poisoned(element: Element, count: usize) -> Memory {
        Memory { bytes: vec![0xAB; count * element.bytes()], element }
    }

    /// The whole of it. The caller waits for every operation before the memory goes or is read.
    pub fn buffer(&mut self) -> Buffer {
        // SAFETY: the tests keep the memory until their operations are done.
        unsafe { Buffer::new(self.bytes.as_mut_ptr().cast(), self.bytes.len()) }
    }

    /// Compares it with whole numbers.
    ///
    /// # Errors
    /// The first difference.
    pub fn is(&self, what: &str, numbers: impl IntoIterator<Item = u64>) -> Result<(), String> {
        let wanted = Memory::of(self.element, numbers);
        if self.bytes == wanted.bytes {
            return Ok(());
        }
        let differ = |(a, b): (&u8, &u8)| a != b;
        let at = self.bytes.iter().zip(&wanted.bytes).position(differ);
        Err(format!(
            "{what} of {:?}: {} and {} bytes, first different at {at:?}",
            self.element,
            self.bytes.len(),
            wanted.bytes.len()
        ))
    }
}

fn encoded(element: Element, number: u64) -> Vec<u8> {
    match element {
        Element::Float => (number as f32).to_ne_bytes().to_vec(),
        Element::Double => (number as f64).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes()[..element.bytes()].to_vec(),
    }
}
