//! TCP connections that do not belong to a connection, and peers that break the protocol.
//! Not every frame that can be (`fuzz`, target `wire`).

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use nccl_plugin_busbw::network::Network;

use crate::loopback::{address, connected, hello, network, soon};

#[test]
fn a_message_longer_than_its_place_is_an_error() {
    let network = network();
    for bytes in [100, 1 << 20] {
        let (mut sender, mut receiver) = connected(&network);
        let data = vec![1u8; bytes];
        let mut place = vec![0u8; bytes - 1];
        // SAFETY: the data outlive the connection.
        let received = unsafe {
            sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
            receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap()
        };
        let failure = soon(|| receiver.test(received).err());
        assert!(failure.text.contains("the two sides disagree"), "{failure}");
        assert!(place.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn connections_without_the_secret_are_refused() {
    let network = network();
    let mut handle = [0; 128];
    let mut listener = network.listen(0, &mut handle).unwrap();
    let right = hello(&handle);
    let altered = |at: usize| {
        let mut other = right;
        other[at] ^= 1;
        other.to_vec()
    };
    // Another mark, version, secret, number of paths; noise; nothing more than a beginning.
    let handshakes = [
        altered(0),
        altered(2),
        altered(8),
        altered(23),
        altered(34),
        vec![7; 48],
        right[..20].to_vec(),
    ];
    for said in handshakes {
        let mut client = TcpStream::connect(address(&handle)).unwrap();
        client.write_all(&said).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{said:?}: {answer:?}");
        assert!(listener.accept().unwrap().is_none());
    }
    // A listener that is not there.
    let mut client = TcpStream::connect(address(&handle)).unwrap();
    client.write_all(&altered(24)).unwrap();
    let mut answer = [0; 8];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x62, 0x7b, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn a_path_that_breaks_the_protocol_is_an_error() {
    // Noise; kind 9; chunk 1 of 1; chunks of 1 byte; a message longer than its place.
    let chunk = |message: u64, total: u64, chunk: u32, index: u32| {
        let mut header = vec![0x62, 0x7b, 1, 0];
        header.extend(index.to_le_bytes());
        header.extend(message.to_le_bytes());
        header.extend(total.to_le_bytes());
        header.extend(chunk.to_le_bytes());
        header.extend([0; 4]);
        header
    };
    let wrong = [
        vec![1; 32],
        [&[0x62, 0x7b, 9][..], &[0; 29]].concat(),
        chunk(0, 100, 1 << 14, 1),
        chunk(0, 100, 1, 0),
        chunk(0, u64::MAX, 1 << 14, 0),
        chunk(0, 101, 1 << 14, 0),
    ];
    let network = network();
    for said in wrong {
        let mut handle = [0; 128];
        let mut listener = network.listen(0, &mut handle).unwrap();
        let mut client = TcpStream::connect(address(&handle)).unwrap();
        client.write_all(&[&hello(&handle)[..], &said].concat()).unwrap();
        let mut receiver = soon(|| listener.accept().unwrap());
        let mut place = [0u8; 100];
        // SAFETY: the place outlives the connection.
        let request = unsafe { receiver.receive(place.as_mut_ptr(), place.len()) };
        let failure = match request {
            Err(failure) => failure,
            Ok(request) => soon(|| receiver.test(request.unwrap()).err()),
        };
        assert!(!failure.text.is_empty(), "{said:?}");
        assert_eq!(place, [0; 100], "{said:?}");
    }
}
