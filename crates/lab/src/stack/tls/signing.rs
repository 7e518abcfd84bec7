//! Signatures of a constant size, so that a handshake has the same size in every run.

use std::sync::Arc;

use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// The most frequent size of an ECDSA P-256 signature in bytes. Half of all signatures have this
/// size; most others are one byte shorter or longer, because the two integers in a signature take
/// 32 or 33 bytes each, depending on their first bit.
const ECDSA_P256_SIGNATURE: usize = 71;
/// The maximum number of attempts. The probability that none of this many signatures has the most
/// frequent size is 2^-128.
const ATTEMPTS: usize = 128;

/// An ECDSA P-256 key whose signatures all have the same size.
#[derive(Debug)]
pub(super) struct EqualSignatures(pub(super) Arc<dyn SigningKey>);

impl SigningKey for EqualSignatures {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(EqualSigner(self.0.choose_scheme(offered)?)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct EqualSigner(Box<dyn Signer>);

impl Signer for EqualSigner {
    /// Signs until the signature has the right size.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        for _ in 0..ATTEMPTS {
            let signature = self.0.sign(message)?;
            if signature.len() == ECDSA_P256_SIGNATURE {
                return Ok(signature);
            }
        }
        Err(Error::General("no signature had the most common size".to_owned()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::sign::any_ecdsa_type;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    #[test]
    fn all_signatures_have_one_size() {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = any_ecdsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()).into()).unwrap();
        let equal = EqualSignatures(key);
        let signer = equal.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
        for message in 0..50_u8 {
            assert_eq!(signer.sign(&[message]).unwrap().len(), ECDSA_P256_SIGNATURE);
        }
    }
}
