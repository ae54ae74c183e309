//! What is due at which virtual time; of two events at the same time, the one that was added first comes first.
//! Not what events do.

use std::{cmp::Reverse, collections::BinaryHeap};

use busbw_multipath::Time;

/// Events in the order of their times.
#[derive(Debug)]
pub struct Queue<E> {
    due: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// The events themselves: the heap moves numbers only.
    events: Vec<Option<E>>,
    free: Vec<usize>,
    added: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue { due: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), added: 0 }
    }
}

impl<E> Queue<E> {
    /// Adds an event.
    pub fn add(&mut self, at: Time, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.due.push(Reverse((at, self.added, place)));
        self.added += 1;
    }

    /// The next event, if it is due by then, and its time.
    pub fn next(&mut self, until: Time) -> Option<(Time, E)> {
        let &Reverse((at, _, place)) = self.due.peek()?;
        if at > until {
            return None;
        }
        self.due.pop();
        self.free.push(place);
        Some((at, self.events[place].take()?))
    }

    /// Events that are not due yet.
    pub fn len(&self) -> usize {
        self.due.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_addition() {
        let mut queue = Queue::default();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (9, 'e')] {
            queue.add(Time(at), name);
        }
        let order: String =
            std::iter::from_fn(|| queue.next(Time(8))).map(|(_, name)| name).collect();
        assert_eq!(order, "bdac");
        assert_eq!((queue.len(), queue.next(Time(9))), (1, Some((Time(9), 'e'))));
    }
}
