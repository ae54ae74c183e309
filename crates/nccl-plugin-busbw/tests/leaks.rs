//! A thousand connections, one after the other: no file and no thread is left. In a process of its own.
//! Not what goes over them.
#![allow(clippy::unwrap_used)]

mod loopback;

use loopback::{lo, meet, over, soon};
use nccl_plugin_busbw::network::Network;

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn nothing_is_left() {
    let network = over(vec![lo(1)], 2, None);
    // The first call starts the threads.
    drop(network.listen(0, &mut [0; 128]).unwrap());
    let (files, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
    for cycle in 0..1000 {
        let mut handle = [0; 128];
        let mut listener = network.listen(0, &mut handle).unwrap();
        if cycle % 7 == 0 {
            // Nobody comes.
            continue;
        }
        let (mut sender, mut receiver) = meet(&network, listener.as_mut(), &mut handle);
        drop(listener);
        let data = [7u8; 100];
        let mut place = [0u8; 100];
        // SAFETY: both outlive the requests.
        let request = unsafe {
            sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
            receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap()
        };
        soon(|| receiver.test(request).unwrap());
        assert_eq!(place, data);
        if cycle % 2 == 0 {
            drop(receiver);
            drop(sender);
        }
    }
    soon(|| {
        let left = (count("/proc/self/fd"), count("/proc/self/task"));
        (left.0 <= files && left.1 <= threads).then_some(())
    });
}
