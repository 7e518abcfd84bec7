use rustls::crypto::aws_lc_rs::DEFAULT_CIPHER_SUITES;
use rustls::quic::{self, Keys};
use rustls::{Side, Tls13CipherSuite};

use super::*;

/// Returns the keys of both sides, created once with aws-lc-rs's cipher for the suite and once with
/// ours.
fn keys(suite: &'static Tls13CipherSuite, side: Side) -> [Keys; 2] {
    let ours: &dyn quic::Algorithm = Cipher::of(suite.common.suite).unwrap();
    let theirs = suite.quic.unwrap();
    assert_eq!(ours.aead_key_len(), theirs.aead_key_len());
    [theirs, ours]
        .map(|cipher| Keys::initial(quic::Version::V1, suite, cipher, b"connection", side))
}

/// Packets that one library protects are decrypted by the other, for every suite and for payloads
/// of every length modulo the block size.
#[test]
fn packets_are_those_of_another_library() {
    let suites = DEFAULT_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13());
    for suite in suites {
        let (clients, servers) = (keys(suite, Side::Client), keys(suite, Side::Server));
        for (client, server) in [(&clients[0], &servers[1]), (&clients[1], &servers[0])] {
            for length in (0..70).chain(1_380..1_460).chain([65_000]) {
                let content: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
                let mut payload = content.clone();
                let number = 0xdead_0000_0000 + length as u64;
                let tag = client.local.packet.encrypt_in_place(number, b"header", &mut payload);
                payload.extend_from_slice(tag.unwrap().as_ref());
                let mut damaged = payload.clone();
                damaged[length / 2] ^= 1;
                for (number, header, payload) in [
                    (number, &b"header"[..], &mut damaged),
                    (number ^ 1, b"header", &mut payload.clone()),
                    (number, b"Header", &mut payload.clone()),
                ] {
                    let opened = server.remote.packet.decrypt_in_place(number, header, payload);
                    assert_eq!(opened, Err(Error::DecryptError));
                }
                let opened = server.remote.packet.decrypt_in_place(number, b"header", &mut payload);
                assert_eq!(opened.unwrap(), content);
            }
        }
    }
}

#[test]
fn masks_are_those_of_another_library() {
    let suites = DEFAULT_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13());
    for suite in suites {
        let [theirs, ours] = keys(suite, Side::Client).map(|keys| keys.local.header);
        assert_eq!(ours.sample_len(), theirs.sample_len());
        for first in 0..=u8::MAX {
            let sample = [first.wrapping_mul(3); 16];
            let header = [first, 1, 2, 3, 4];
            let mut masked = [header; 2];
            for (key, [first, number @ ..]) in [&theirs, &ours].into_iter().zip(&mut masked) {
                key.encrypt_in_place(&sample, first, number).unwrap();
            }
            assert_eq!(masked[0], masked[1]);
            let [_, [first, number @ ..]] = &mut masked;
            ours.decrypt_in_place(&sample, first, number).unwrap();
            assert_eq!(masked[1], header);
        }
        assert!(ours.encrypt_in_place(&[0; 15], &mut 0, &mut [0; 4]).is_err());
        assert!(ours.encrypt_in_place(&[0; 16], &mut 0, &mut [0; 5]).is_err());
    }
}

/// The confidentiality and integrity limits (RFC 9001 §6.6) match those of aws-lc-rs's ciphers.
#[test]
fn limits_are_those_of_another_library() {
    let suites = DEFAULT_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13());
    for suite in suites {
        let [theirs, ours] = keys(suite, Side::Client).map(|keys| keys.local.packet);
        assert_eq!(ours.tag_len(), theirs.tag_len());
        assert_eq!(ours.confidentiality_limit(), theirs.confidentiality_limit());
        assert_eq!(ours.integrity_limit(), theirs.integrity_limit());
    }
}

#[test]
fn nothing_is_sent_or_received_with_an_unusable_key() {
    let key = unusable_key();
    assert!(key.encrypt_in_place(0, &[], &mut [0; 4]).is_err());
    assert!(key.decrypt_in_place(0, &[], &mut [0; 20]).is_err());
    assert!(Cipher::of(CipherSuite::TLS13_AES_128_CCM_SHA256).is_none());
    for suite in [AES_128_CIPHER.key_len(), AES_256_CIPHER.key_len()] {
        assert!(CHACHA20_CIPHER.header_key(&vec![0; suite - 1]).is_none());
    }
}
