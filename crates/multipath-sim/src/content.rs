//! Bytes on their way: real ones that are shared, not copied; or a length only, where nobody compares them.
//! Not who sends them.

use std::{collections::VecDeque, ops::Range, sync::Arc};

/// A run of bytes.
#[derive(Debug, Clone)]
pub struct Content {
    /// Nothing: zeros.
    data: Option<(Arc<[u8]>, usize)>,
    bytes: usize,
}

impl Content {
    /// These bytes.
    #[must_use]
    pub fn of(data: Arc<[u8]>) -> Content {
        Content { bytes: data.len(), data: Some((data, 0)) }
    }

    /// So many zeros, which cost nothing.
    #[must_use]
    pub fn zeros(bytes: usize) -> Content {
        Content { data: None, bytes }
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A part of it.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Content {
        assert!(range.start <= range.end && range.end <= self.bytes);
        Content {
            data: self.data.as_ref().map(|(data, from)| (data.clone(), from + range.start)),
            bytes: range.end - range.start,
        }
    }

    /// The bytes, if they are real.
    #[must_use]
    pub fn slice(&self) -> Option<&[u8]> {
        self.data.as_ref().map(|(data, from)| &data[*from..from + self.bytes])
    }

    /// Copies it to `to`, which is as long.
    pub fn copy_to(&self, to: &mut [u8]) {
        match self.slice() {
            Some(bytes) => to.copy_from_slice(bytes),
            None => to.fill(0),
        }
    }
}

/// What was written to a stream and not read from it, in order.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    parts: VecDeque<Content>,
}

impl Stream {
    pub(crate) fn write(&mut self, content: Content) {
        if content.bytes > 0 {
            self.parts.push_back(content);
        }
    }

    /// The next bytes, at most so many, which were written; fewer where a part ends.
    pub(crate) fn read(&mut self, most: usize) -> Option<Content> {
        let front = self.parts.front_mut()?;
        if front.bytes <= most {
            return self.parts.pop_front();
        }
        let read = front.part(0..most);
        *front = front.part(most..front.bytes);
        Some(read)
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_gives_what_was_written_to_it() {
        let mut stream = Stream::default();
        stream.write(Content::of((0..100).collect()));
        stream.write(Content::zeros(50));
        stream.write(Content::of((100..200).collect()).part(10..20));
        let mut all = Vec::new();
        while let Some(content) = stream.read(7) {
            let from = all.len();
            all.resize(from + content.bytes(), 9);
            content.copy_to(&mut all[from..]);
        }
        assert_eq!(all, (0..100).chain([0; 50]).chain(110..120).collect::<Vec<u8>>());
    }
}
