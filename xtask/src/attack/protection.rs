//! Packet protection, and generation of random bytes.

use clearway_wire::ConnectionId;
use rustls::quic::{DirectionalKeys, Keys, Version};

/// The length of the authentication tag.
pub(super) const TAG_LEN: usize = 16;
/// The length of all packet numbers that the endpoint sends.
pub(super) const NUMBER_LEN: usize = 4;
/// Offset of the header protection sample from the start of the packet number (RFC 9001 §5.4.2).
pub(super) const SAMPLE_DISTANCE: usize = 4;

/// Fills a slice with random bytes.
pub(super) fn random(bytes: &mut [u8]) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(bytes).expect("random bytes of the kernel");
}

/// Returns the Initial keys of both directions (RFC 9001 §5.2).
pub(super) fn initial_keys(destination: &ConnectionId, is_client: bool) -> Keys {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite = suite.tls13().expect("a suite of TLS 1.3");
    let algorithm = suite.quic.expect("a suite of QUIC");
    let side = if is_client { rustls::Side::Client } else { rustls::Side::Server };
    Keys::initial(Version::V1, suite, algorithm, destination.as_bytes(), side)
}

/// Encrypts a packet whose payload ends at `end`, and protects its header.
pub(super) fn protect(
    keys: &DirectionalKeys,
    packet: &mut [u8],
    number_at: usize,
    end: usize,
    number: u64,
) {
    let (head, rest) = packet.split_at_mut(number_at + NUMBER_LEN);
    let (payload, tag) = rest.split_at_mut(end - number_at - NUMBER_LEN);
    let made = keys.packet.encrypt_in_place(number, head, payload).expect("a payload to encrypt");
    tag[..TAG_LEN].copy_from_slice(made.as_ref());
    let (head, sampled) = packet.split_at_mut(number_at + SAMPLE_DISTANCE);
    let (first, rest) = head.split_at_mut(1);
    let sample = &sampled[..keys.header.sample_len()];
    keys.header
        .encrypt_in_place(sample, &mut first[0], &mut rest[number_at - 1..])
        .expect("a sample of the right length");
}
