//! How two processes of a job prove to each other that they are of it, without telling what they know.
//! Not what they know: the launcher's secret, or only the job's name.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Which of the two proves: one's proof is of no use as the other's.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// The first process.
    Door,
    /// Any other.
    Guest,
}

/// The proof of `side`, for whoever asked with `nonce`: HMAC-SHA256 (RFC 2104) under `key`.
pub fn prove(key: &str, side: Side, nonce: &str) -> String {
    let Ok(mut code) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        // HMAC takes keys of any length.
        return String::new();
    };
    code.update(format!("{side:?} {nonce}").as_bytes());
    hexadecimal(&code.finalize().into_bytes())
}

/// Whether that is what `shown` proves. In constant time.
pub fn proves(shown: &str, key: &str, side: Side, nonce: &str) -> bool {
    let right = prove(key, side, nonce);
    let differences = right.bytes().zip(shown.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    !right.is_empty() && right.len() == shown.len() && differences == 0
}

/// A name of fixed length, from which nobody learns what it was made of.
pub fn name(of: &str) -> String {
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
        let proof = prove("key", Side::Guest, "1");
        assert!(proves(&proof, "key", Side::Guest, "1"));
        assert!(!proves(&proof, "key", Side::Door, "1"));
        assert!(!proves(&proof, "key", Side::Guest, "2"));
        assert!(!proves(&proof, "other", Side::Guest, "1"));
        assert!(!proves(&proof[1..], "key", Side::Guest, "1"));
        assert!(!proves("", "key", Side::Guest, "1"));
    }

    /// RFC 6234's SHA-256 of "abc".
    #[test]
    fn names_are_sha256() {
        assert!(name("abc").starts_with("ba7816bf8f01cfea"));
    }
}
