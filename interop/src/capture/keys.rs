//! Packet protection keys (RFC 9001 §5, RFC 9369 §3.3), derived from the secrets in a key log.

use aws_lc_rs::aead::quic::{self, HeaderProtectionKey};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, KeyType, Prk};
use aws_lc_rs::hmac;

use super::header::V2;

const V1_SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const V2_SALT: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];

/// A TLS 1.3 cipher suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    /// Returns the cipher suite with this TLS code point.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        match number {
            0x1301 => Some(Self::Aes128),
            0x1302 => Some(Self::Aes256),
            0x1303 => Some(Self::ChaCha20),
            _ => None,
        }
    }

    fn hash(self) -> hkdf::Algorithm {
        match self {
            Self::Aes256 => hkdf::HKDF_SHA384,
            Self::Aes128 | Self::ChaCha20 => hkdf::HKDF_SHA256,
        }
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 => &aead::AES_128_GCM,
            Self::Aes256 => &aead::AES_256_GCM,
            Self::ChaCha20 => &aead::CHACHA20_POLY1305,
        }
    }

    fn header(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128 => &quic::AES_128,
            Self::Aes256 => &quic::AES_256,
            Self::ChaCha20 => &quic::CHACHA20,
        }
    }
}

/// The secret for one direction and one encryption level.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    suite: Suite,
    version: u32,
    bytes: Vec<u8>,
}

/// The keys that protect packet payloads.
pub(crate) struct PayloadKeys {
    key: LessSafeKey,
    iv: Vec<u8>,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Computes TLS 1.3 HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
fn expand(hash: hkdf::Algorithm, secret: &[u8], label: &str, length: usize) -> Option<Vec<u8>> {
    let label = format!("tls13 {label}");
    let size = u16::try_from(length).ok()?.to_be_bytes();
    let label_size = [u8::try_from(label.len()).ok()?];
    let info = [&size[..], &label_size, label.as_bytes(), &[0]];
    let mut output = vec![0; length];
    let prk = Prk::new_less_safe(hash, secret);
    prk.expand(&info, Length(length)).ok()?.fill(&mut output).ok()?;
    Some(output)
}

impl Secret {
    pub(crate) fn new(suite: Suite, version: u32, bytes: Vec<u8>) -> Self {
        Self { suite, version, bytes }
    }

    /// Returns the client's and the server's Initial secrets, given the Destination Connection ID
    /// of the client's first packet.
    pub(crate) fn initial(version: u32, destination_id: &[u8]) -> Option<[Self; 2]> {
        let salt = if version == V2 { V2_SALT } else { V1_SALT };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &salt);
        let common = hmac::sign(&key, destination_id);
        let derive = |label| {
            let bytes = expand(hkdf::HKDF_SHA256, common.as_ref(), label, 32)?;
            Some(Self::new(Suite::Aes128, version, bytes))
        };
        Some([derive("client in")?, derive("server in")?])
    }

    fn derive(&self, what: &str, length: usize) -> Option<Vec<u8>> {
        let prefix = if self.version == V2 { "quicv2" } else { "quic" };
        expand(self.suite.hash(), &self.bytes, &format!("{prefix} {what}"), length)
    }

    pub(crate) fn payload_keys(&self) -> Option<PayloadKeys> {
        let algorithm = self.suite.aead();
        let key = self.derive("key", algorithm.key_len())?;
        let iv = self.derive("iv", aead::NONCE_LEN)?;
        Some(PayloadKeys { key: LessSafeKey::new(UnboundKey::new(algorithm, &key).ok()?), iv })
    }

    pub(crate) fn header_key(&self) -> Option<HeaderProtectionKey> {
        let algorithm = self.suite.header();
        HeaderProtectionKey::new(algorithm, &self.derive("hp", algorithm.key_len())?).ok()
    }

    /// Returns the secret after a key update (RFC 9001 §6.1).
    pub(crate) fn next(&self) -> Option<Self> {
        let bytes = self.derive("ku", self.bytes.len())?;
        Some(Self { bytes, ..self.clone() })
    }
}

impl PayloadKeys {
    /// Decrypts the packet that consists of `header` and `payload`, and returns its payload; `None`
    /// if authentication fails.
    pub(crate) fn open(&self, number: u64, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let mut nonce: [u8; aead::NONCE_LEN] = self.iv.as_slice().try_into().ok()?;
        for (byte, part) in nonce.iter_mut().rev().zip(number.to_le_bytes()) {
            *byte ^= part;
        }
        let mut buffer = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(header), &mut buffer).ok()?.len();
        buffer.truncate(opened);
        Some(buffer)
    }
}

/// A packet whose header protection has been removed.
pub(crate) struct Unprotected {
    /// The unprotected first byte of the packet.
    pub(crate) first: u8,
    /// The unprotected header, including the packet number.
    pub(crate) header: Vec<u8>,
    /// The truncated packet number and its length in bytes.
    pub(crate) number: (u64, usize),
}

/// Removes the header protection of a packet whose packet number starts at `offset` (RFC 9001
/// §5.4).
pub(crate) fn unprotect(
    key: &HeaderProtectionKey,
    packet: &[u8],
    offset: usize,
) -> Option<Unprotected> {
    let sample = packet.get(offset + 4..offset + 20)?;
    let mask = key.new_mask(sample).ok()?;
    let long = packet.first()? & 0x80 != 0;
    let first = packet.first()? ^ mask[0] & if long { 0x0f } else { 0x1f };
    let length = usize::from(first & 0b11) + 1;
    let mut header = packet.get(..offset + length)?.to_vec();
    header[0] = first;
    let mut number = 0;
    for (byte, mask) in header[offset..].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
        number = number << 8 | u64::from(*byte);
    }
    Some(Unprotected { first, header, number: (number, length) })
}

/// Returns the packet number that ends with the `length` bytes in `truncated` and is closest to the
/// one after `largest` (RFC 9000 §A.3).
pub(crate) fn full_number(largest: Option<u64>, truncated: u64, length: usize) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1_u64 << (8 * length);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::header::{self, Kind, V1};

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    /// The server's Initial packet in RFC 9001 §A.3.
    const SERVER_INITIAL: &str = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
        5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bd
        ed74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee";

    #[test]
    fn the_sample_of_rfc_9001_is_opened() {
        let packet = hex(SERVER_INITIAL);
        let headers = header::packets(&packet);
        assert_eq!((headers.len(), headers[0].kind), (1, Kind::Initial));
        assert_eq!(headers[0].source_id, hex("f067a5502a4262b5"));
        let [_, server] = Secret::initial(V1, &hex("8394c8f03e515708")).unwrap();
        let key = server.header_key().unwrap();
        let plain = unprotect(&key, &packet, headers[0].number_offset).unwrap();
        assert_eq!((plain.first, plain.number), (0xc1, (1, 2)));
        let payload = &packet[plain.header.len()..];
        let opened = server.payload_keys().unwrap().open(1, &plain.header, payload).unwrap();
        assert!(opened.starts_with(&hex("02000000000600405a020000560303")));
    }

    /// The ChaCha20-Poly1305 packet in RFC 9001 §A.5.
    #[test]
    fn the_chacha20_sample_of_rfc_9001_is_opened() {
        let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let secret = Secret::new(Suite::ChaCha20, V1, secret);
        let packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
        let plain = unprotect(&secret.header_key().unwrap(), &packet, 1).unwrap();
        let number = full_number(Some(654_360_563), plain.number.0, plain.number.1);
        assert_eq!(number, 654_360_564);
        let payload = &packet[plain.header.len()..];
        let keys = secret.payload_keys().unwrap();
        assert_eq!(keys.open(number, &plain.header, payload), Some(vec![1]));
        let next = hex("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9");
        assert_eq!(secret.next().unwrap().bytes, next);
    }

    /// The Initial secret in RFC 9369 §A.1.
    #[test]
    fn the_initial_secret_of_version_2_is_that_of_rfc_9369() {
        let [client, _] = Secret::initial(V2, &hex("8394c8f03e515708")).unwrap();
        let expected = hex("14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b");
        assert_eq!(client.bytes, expected);
        assert_eq!(client.derive("key", 16).unwrap(), hex("8b1a0bc121284290a29e0971b5cd045d"));
    }

    #[test]
    fn packet_numbers_are_completed() {
        assert_eq!(full_number(Some(0xa82f_30ea), 0x9b32, 2), 0xa82f_9b32);
        assert_eq!(full_number(None, 0, 1), 0);
        assert_eq!(full_number(Some(255), 0, 1), 256);
        assert_eq!(full_number(Some(256), 254, 1), 254);
    }
}
