//! Mutual authentication of two processes of a job: each sends an HMAC tag over the other's nonce, so that the
//! secret never travels.
//! Not the secret: the launcher's, or, without one, the job's name.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Which end computes a tag. It is part of the tag, so that neither end can reflect the other's.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// Process 0.
    Coordinator,
    /// Any other process.
    Worker,
}

/// The authentication tag of `side` over `nonce`: HMAC-SHA256 (RFC 2104) under `key`, hexadecimal.
pub fn auth_tag(key: &str, side: Side, nonce: &str) -> String {
    let Ok(mut code) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        // Unreachable: HMAC takes keys of any length.
        return String::new();
    };
    code.update(format!("{side:?} {nonce}").as_bytes());
    hexadecimal(&code.finalize().into_bytes())
}

/// Whether `tag` is the authentication tag of `side` over `nonce`. Compares in constant time.
pub fn verify_auth_tag(tag: &str, key: &str, side: Side, nonce: &str) -> bool {
    let expected = auth_tag(key, side, nonce);
    let differences = expected.bytes().zip(tag.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    !expected.is_empty() && expected.len() == tag.len() && differences == 0
}

/// SHA-256 of `of` in hexadecimal digits: a name of fixed length that does not reveal `of`.
pub fn hashed_name(of: &str) -> String {
    hexadecimal(&Sha256::digest(of.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_side_and_nonce() {
        let tag = auth_tag("key", Side::Worker, "1");
        assert!(verify_auth_tag(&tag, "key", Side::Worker, "1"));
        assert!(!verify_auth_tag(&tag, "key", Side::Coordinator, "1"));
        assert!(!verify_auth_tag(&tag, "key", Side::Worker, "2"));
        assert!(!verify_auth_tag(&tag, "other", Side::Worker, "1"));
        assert!(!verify_auth_tag(&tag[1..], "key", Side::Worker, "1"));
        assert!(!verify_auth_tag("", "key", Side::Worker, "1"));
    }

    /// RFC 6234's SHA-256 of "abc".
    #[test]
    fn names_are_sha256() {
        assert!(hashed_name("abc").starts_with("ba7816bf8f01cfea"));
    }
}
