use aws_lc_rs::{digest, hkdf, hmac};
use rustls::crypto::tls13::{Hkdf as _, HkdfExpander, OkmBlock};

use super::{Expander, Hkdf, hmac as hmac_of};
use crate::handshake::tests::hex;

/// RFC 5869 §A.1 and §A.2: one block and a part of the next, and parts that are too long to be joined.
#[test]
fn the_sample_secrets_have_these_values() {
    let info = hex("f0f1f2f3f4f5f6f7f8f9");
    let salt = hex("000102030405060708090a0b0c");
    let expander = Hkdf::new(&digest::SHA256).extract(Some(&salt), &[0x0b; 22]);
    let mut output = [0; 42];
    expander.expand(&[&info], &mut output).unwrap();
    let expected =
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(output.to_vec(), hex(expected));
    let bytes = |from: u8, to: u8| (from..=to).collect::<Vec<_>>();
    let hkdf = Hkdf::new(&digest::SHA256);
    let expander = hkdf.extract(Some(&bytes(0x60, 0xaf)), &bytes(0x00, 0x4f));
    let mut output = [0; 82];
    expander.expand(&[&bytes(0xb0, 0xff)], &mut output).unwrap();
    let expected = "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87";
    assert_eq!(output.to_vec(), hex(expected));
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[test]
fn it_expands_what_aws_lc_expands() {
    let suites = [(&digest::SHA256, hkdf::HKDF_SHA256), (&digest::SHA384, hkdf::HKDF_SHA384)];
    for (ours, theirs) in suites {
        let secret = vec![7; ours.output_len()];
        let expander = Expander::new(ours, &secret);
        let prk = hkdf::Prk::new_less_safe(theirs, &secret);
        for part in [&b""[..], b"short", &[9; 100], &[9; 300]] {
            for length in [1, 12, 32, 48, 200] {
                let (mut output, mut expected) = (vec![0; length], vec![0; length]);
                expander.expand(&[part, b"and more"], &mut output).unwrap();
                let info = [part, b"and more"];
                prk.expand(&info, Length(length)).unwrap().fill(&mut expected).unwrap();
                assert_eq!(output, expected);
            }
        }
    }
}

#[test]
fn its_codes_are_those_of_aws_lc() {
    for (ours, theirs) in
        [(&digest::SHA256, hmac::HMAC_SHA256), (&digest::SHA384, hmac::HMAC_SHA384)]
    {
        for key_len in [0, 1, 32, 64, 65, 128, 129, 300] {
            for length in [0, 55, 56, 191, 192, 193, 256, 1000] {
                let (key, message) = (vec![3; key_len], vec![4; length]);
                let expected = hmac::sign(&hmac::Key::new(theirs, &key), &message);
                let code = hmac_of(ours, &key, core::iter::once(&message[..]));
                assert_eq!(code.as_ref(), expected.as_ref(), "{key_len} {length}");
            }
        }
    }
}

#[test]
fn more_than_255_blocks_are_refused() {
    let expander = Expander::new(&digest::SHA256, &[1; 32]);
    assert!(expander.expand(&[], &mut vec![0; 255 * 32]).is_some());
    assert!(expander.expand(&[], &mut vec![0; 255 * 32 + 1]).is_none());
}

#[test]
fn the_early_secret_is_the_same_each_time() {
    let hkdf = Hkdf::new(&digest::SHA256);
    let derive = || hkdf.extract_from_zero_ikm(None).expand_block(&[b"derived"]).as_ref().to_vec();
    let expected = hkdf.extract(None, &[0; 32]).expand_block(&[b"derived"]);
    assert_eq!(derive(), expected.as_ref());
    assert_eq!(derive(), expected.as_ref());
}

/// An application may export with the labels of record keys; then there is a context, the hash of nothing.
#[test]
fn only_the_keys_of_records_are_left_out() {
    let expander = Expander::new(&digest::SHA256, &[1; 32]);
    for label in [&b"key"[..], b"iv"] {
        let info = |context| [&[0, 12][..], &[9], b"tls13 ", label, &[0], context];
        let mut output = [0; 12];
        HkdfExpander::expand_slice(&expander, &info(b""), &mut output).unwrap();
        assert_eq!(output, [0; 12]);
        HkdfExpander::expand_slice(&expander, &info(b"context"), &mut output).unwrap();
        assert_ne!(output, [0; 12]);
        assert_ne!(expander.expand_block(&info(b"")).as_ref(), OkmBlock::new(&[0; 32]).as_ref());
    }
}
