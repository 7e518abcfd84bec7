//! Error codes of WebTransport streams: conversion of an application's code of 32 bits into the
//! HTTP/3 error code of RESET_STREAM and STOP_SENDING frames, and back (draft-ietf-webtrans-http3
//! §4.4).
//!
//! HTTP/3 reserves every 31st error code for greasing (RFC 9114 §8.1), so the range skips these.

use clearway::VarInt;

/// The HTTP/3 error code of code 0.
const FIRST: u64 = 0x52e4_a40f_a8db;
/// The HTTP/3 error code of code `u32::MAX`.
const LAST: u64 = 0x52e5_ac98_3162;

/// Converts an application's error code into the HTTP/3 error code that a frame carries.
pub const fn to_http3(code: u32) -> VarInt {
    let code = code as u64;
    VarInt::saturating(FIRST + code + code / 0x1e)
}

/// Converts the HTTP/3 error code of a frame into the application's error code. Returns `None` if
/// the code is not in WebTransport's range, or is reserved for greasing.
pub const fn from_http3(code: VarInt) -> Option<u32> {
    let code = code.get();
    if code < FIRST || code > LAST || (code - 0x21).is_multiple_of(0x1f) {
        return None;
    }
    let offset = code - FIRST;
    Some((offset - offset / 0x1f) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_begins_and_ends_where_the_draft_says() {
        assert_eq!(to_http3(0).get(), FIRST);
        assert_eq!(to_http3(u32::MAX).get(), LAST);
        for outside in [0, 0x100, FIRST - 1, LAST + 1, VarInt::MAX.get()] {
            assert_eq!(from_http3(VarInt::new(outside).unwrap()), None, "{outside:#x}");
        }
    }

    #[test]
    fn each_code_comes_back_and_none_is_reserved() {
        let around = |code: u32| code.saturating_sub(100)..=code.saturating_add(100);
        for code in [0, 1 << 16, 1 << 31, u32::MAX].into_iter().flat_map(around) {
            let sent = to_http3(code);
            assert_ne!((sent.get() - 0x21) % 0x1f, 0, "{code}");
            assert_eq!(from_http3(sent), Some(code));
        }
    }

    /// Every code of the range is either converted or reserved.
    #[test]
    fn codes_follow_each_other_and_skip_reserved_ones() {
        let mut expected = 0;
        for code in FIRST..FIRST + 10_000 {
            match from_http3(VarInt::new(code).unwrap()) {
                Some(found) => {
                    assert_eq!(found, expected);
                    expected += 1;
                }
                None => assert_eq!((code - 0x21) % 0x1f, 0),
            }
        }
    }
}
