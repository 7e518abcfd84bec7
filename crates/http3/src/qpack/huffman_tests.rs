use proptest::prelude::*;

use super::*;

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    encode(text, &mut output);
    output
}

fn decoded(bytes: &[u8]) -> Result<Vec<u8>, HuffmanError> {
    let mut output = Vec::new();
    decode(bytes, 1 << 20, &mut output).map(|()| output)
}

/// The strings of RFC 7541 Appendix C.4 and C.6.
#[test]
fn the_examples_of_the_rfc() {
    let examples: [(&str, &str); 10] = [
        ("www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
        ("no-cache", "a8eb10649cbf"),
        ("custom-key", "25a849e95ba97d7f"),
        ("custom-value", "25a849e95bb8e8b4bf"),
        ("302", "6402"),
        ("private", "aec3771a4b"),
        ("Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
        ("https://www.example.com", "9d29ad171863c78f0b97c8e9ae82ae43d3"),
        ("gzip", "9bd9ab"),
        (
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ),
    ];
    for (text, hexadecimal) in examples {
        let bytes = encoded(text.as_bytes());
        let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, hexadecimal, "{text}");
        assert_eq!(decoded(&bytes).unwrap(), text.as_bytes());
        assert_eq!(encoded_len(text.as_bytes()), bytes.len());
    }
}

/// Tests the first and last code of every length in RFC 7541 Appendix B.
#[test]
fn single_codes_of_the_rfc() {
    for (symbol, code, length) in [
        (0, 0x1ff8, 13),
        (1, 0x7f_ffd8, 23),
        (9, 0xff_ffea, 24),
        (10, 0x3fff_fffc, 30),
        (b'0'.into(), 0x0, 5),
        (b'X'.into(), 0xfc, 8),
        (b'\\'.into(), 0x7_fff0, 19),
        (127, 0xfff_fffc, 28),
        (128, 0xf_ffe6, 20),
        (199, 0x1ff_ffec, 25),
        (203, 0x7ff_ffde, 27),
        (255, 0x3ff_ffee, 26),
        (256, 0x3fff_ffff, 30),
    ] {
        assert_eq!((CODES[symbol], LENGTHS[symbol]), (code, length), "symbol {symbol}");
    }
}

/// A complete prefix code exactly fills the code space.
#[test]
fn the_code_is_complete() {
    let sum: u64 = LENGTHS.iter().map(|&length| 1u64 << (32 - length)).sum();
    assert_eq!(sum, 1 << 32);
}

#[test]
fn every_byte_survives() {
    for byte in 0..=255 {
        assert_eq!(decoded(&encoded(&[byte])).unwrap(), [byte]);
        assert_eq!(decoded(&encoded(&[byte; 9])).unwrap(), [byte; 9]);
    }
}

/// Padding of more than 7 bits, padding that is not the start of EOS, and EOS itself are rejected
/// (RFC 7541 §5.2).
#[test]
fn wrong_padding_is_refused() {
    // The code of 'a' is 00011.
    assert_eq!(decoded(&[0b0001_1111]).unwrap(), b"a");
    assert_eq!(decoded(&[0b0001_1110]), Err(HuffmanError::Invalid));
    assert_eq!(decoded(&[0b0001_1000]), Err(HuffmanError::Invalid));
    assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(HuffmanError::Invalid));
    assert_eq!(decoded(&[0xff]), Err(HuffmanError::Invalid));
    assert_eq!(decoded(&[0xff; 4]), Err(HuffmanError::Invalid));
    assert_eq!(decoded(&[]).unwrap(), b"");
}

#[test]
fn the_limit_is_the_last_byte_decoded() {
    let bytes = encoded(b"0123456789");
    let mut output = Vec::new();
    assert_eq!(decode(&bytes, 10, &mut output), Ok(()));
    output.clear();
    assert_eq!(decode(&bytes, 9, &mut output), Err(HuffmanError::TooLarge));
    assert_eq!(output.len(), 9);
}

proptest! {
    #[test]
    fn any_text_survives(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = encoded(&text);
        prop_assert_eq!(bytes.len(), encoded_len(&text));
        prop_assert_eq!(decoded(&bytes).unwrap(), text);
    }

    /// Every accepted string is the only encoding of its text.
    #[test]
    fn any_bytes_are_refused_or_canonical(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(text) = decoded(&bytes) {
            prop_assert_eq!(encoded(&text), bytes);
        }
    }
}
