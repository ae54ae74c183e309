//! A child of the process has copies of all sockets: connections end all the same. In a process of its own.
//! Not what is sent.
#![allow(clippy::unwrap_used)]

mod loopback;

use loopback::{connected, soon};
use nccl_plugin_busbw::network::Network;

/// A child that does nothing, as long as this lives; and for a minute at most.
struct Child(libc::pid_t);

impl Child {
    fn new() -> Child {
        // SAFETY: the child does nothing but what may be done between fork and exec.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::alarm(60);
                    libc::pause();
                    libc::_exit(0)
                }
                child => {
                    assert!(child > 0, "no child");
                    Child(child)
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: it is ours, and was not waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn connections_end_though_a_child_has_their_sockets() {
    let network = loopback::network();
    let (mut to_receiver, receiver) = connected(&network);
    let (mut sender, mut of_sender) = connected(&network);
    let mut handle = [0; 128];
    let listener = network.listen(0, &mut handle).unwrap();
    let mut to_listener = soon(|| network.connect(0, &mut handle).unwrap());
    let (data, mut place) = (vec![1u8; 64 << 20], vec![0u8; 64 << 20]);
    // SAFETY: the data and the place outlive the connections.
    let (to_receiver_sent, to_listener_sent, received) = unsafe {
        // More than the kernel takes: every path is in the middle of a chunk.
        sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
        (
            to_receiver.send(data.as_ptr(), data.len()).unwrap().unwrap(),
            to_listener.send(data.as_ptr(), data.len()).unwrap().unwrap(),
            of_sender.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap(),
        )
    };
    let _child = Child::new();
    drop(receiver);
    soon(|| to_receiver.test(to_receiver_sent).err());
    drop(listener);
    soon(|| to_listener.test(to_listener_sent).err());
    drop(sender);
    soon(|| of_sender.test(received).err());
}
