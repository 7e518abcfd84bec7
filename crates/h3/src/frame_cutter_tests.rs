use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns a frame with `length` bytes of payload.
fn frame(kind: u64, length: usize) -> Vec<u8> {
    let mut frame = varint(kind);
    frame.extend(varint(length as u64));
    frame.resize(frame.len() + length, kind as u8);
    frame
}

/// Encodes an integer in eight bytes, or in one if it fits.
fn varint(value: u64) -> Vec<u8> {
    match u8::try_from(value) {
        Ok(byte @ ..64) => vec![byte],
        _ => (value | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// Cuts a stream that is received in pieces of `size` bytes.
fn cut(mut cutter: FrameCutter, stream: &[u8], size: usize) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for chunk in stream.chunks(size) {
        let mut received = Bytes::copy_from_slice(chunk);
        while let Some(piece) = cutter.next(&mut received).unwrap() {
            pieces.push(piece);
        }
        assert!(received.is_empty());
    }
    pieces.extend(cutter.finish());
    assert_eq!(cutter.finish(), None);
    pieces
}

#[test]
fn headers_and_payloads_are_separate() {
    let stream = [frame(1, 3), frame(0, 2), frame(0, 0), frame(0, 1)].concat();
    let expected: [&[u8]; 7] = [&[1, 3], &[1, 1, 1], &[0, 2], &[0, 0], &[0, 0], &[0, 1], &[0]];
    assert_eq!(cut(FrameCutter::request(), &stream, usize::MAX), expected);
}

#[test]
fn data_frames_are_split_where_they_arrive() {
    let expected: [&[u8]; 6] = [&[0, 2], &[0, 0], &[0, 4], &[0, 0, 0, 0], &[0, 1], &[0]];
    assert_eq!(cut(FrameCutter::request(), &frame(0, 7), 4), expected);
}

#[test]
fn ignored_frames_are_dropped() {
    let stream = [frame(0x21, 9), frame(1, 1), frame(0x40, 0), frame(0x4000, 70)].concat();
    assert_eq!(cut(FrameCutter::request(), &stream, usize::MAX), [&[1, 1][..], &[1]]);
}

#[test]
fn an_incomplete_ignored_frame_is_reported() {
    let stream = frame(0x21, 9);
    for end in 1..stream.len() {
        let pieces = cut(FrameCutter::request(), &stream[..end], usize::MAX);
        assert_eq!(pieces, [if end == 1 { &[0x21] } else { INCOMPLETE }], "{end} bytes");
    }
}

#[test]
fn only_control_streams_carry_frames() {
    let frames = [frame(4, 1), frame(7, 1)].concat();
    let control = [varint(0), frames.clone()].concat();
    let expected: [&[u8]; 5] = [&[0], &[4, 1], &[4], &[7, 1], &[7]];
    assert_eq!(cut(FrameCutter::unidirectional(), &control, usize::MAX), expected);
    let other = [varint(2), frames.clone()].concat();
    assert_eq!(cut(FrameCutter::unidirectional(), &other, usize::MAX), [&[2][..], &frames[..]]);
}

#[test]
fn a_webtransport_stream_is_unframed() {
    let stream = [&[0x40, 0x41], &frame(0x21, 9)[..]].concat();
    let pieces = cut(FrameCutter::request(), &stream, usize::MAX);
    assert_eq!(pieces, [&stream[..2], &stream[2..]]);
}

#[test]
fn only_data_frames_may_be_large() {
    let large = |kind| {
        let header = [varint(kind), varint(MAX_WHOLE_FRAME + 1)].concat();
        FrameCutter::request().next(&mut header.into())
    };
    for kind in [0, 0x21] {
        assert!(large(kind).is_ok(), "{kind:#x}");
    }
    for kind in [1, 4, 5, 8] {
        assert_eq!(large(kind), Err(FrameTooLarge { kind, length: MAX_WHOLE_FRAME + 1 }));
    }
}

type Frames = Vec<(u64, usize)>;

fn frames(kinds: impl Strategy<Value = u64>) -> impl Strategy<Value = Frames> {
    vec((kinds, 0_usize..100), 0..10)
}

fn encode(frames: &[(u64, usize)]) -> Vec<u8> {
    frames.iter().flat_map(|(kind, length)| frame(*kind, *length)).collect()
}

/// Returns the frames that h3 receives, and whether the last one is complete.
///
/// Asserts that nothing is left after each step of h3.
fn receive(pieces: Vec<Bytes>) -> (Frames, bool) {
    let mut frames: Frames = vec![];
    let mut buffer = BytesMut::new();
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        buffer.extend_from_slice(&piece);
        let mut reader = Reader::new(&buffer);
        let Ok(Header::Frame { kind, length }) = header(&mut reader) else { continue };
        let length = length as usize;
        if kind == DATA {
            assert_eq!(reader.remaining(), 0);
            if length > 0 {
                assert_eq!(pieces.next().unwrap().len(), length);
            }
        } else if reader.remaining() < length {
            continue;
        } else {
            assert_eq!(reader.remaining(), length);
        }
        buffer.clear();
        frames.push((kind, length));
    }
    (joined(frames), buffer.is_empty())
}

/// Joins successive DATA frames.
fn joined(frames: Frames) -> Frames {
    let mut joined: Frames = vec![];
    for (kind, length) in frames {
        match joined.last_mut() {
            Some(last) if (last.0, kind) == (DATA, DATA) => last.1 += length,
            _ => joined.push((kind, length)),
        }
    }
    joined
}

proptest! {
    /// However a stream arrives, h3 receives the frames that it processes.
    #[test]
    fn pieces_end_with_frames(mut frames in frames(0_u64..0x30), size in 1_usize..200) {
        let stream = encode(&frames);
        let (received, is_complete) = receive(cut(FrameCutter::request(), &stream, size));
        frames.retain(|(kind, _)| !is_ignored(*kind));
        prop_assert_eq!(received, joined(frames));
        prop_assert!(is_complete);
    }

    /// h3 learns that a stream ends within a frame, and receives all content before that.
    #[test]
    fn incomplete_frames_are_reported(
        mut frames in frames(0_u64..0x0a),
        last in 0_u64..0x0a,
        length in 0_usize..100,
        missing in 1_usize..100,
        size in 1_usize..200,
    ) {
        let mut stream = encode(&frames);
        let mut incomplete = frame(last, length);
        incomplete.truncate(incomplete.len().saturating_sub(missing).max(1));
        prop_assume!(incomplete.len() < frame(last, length).len());
        let content = incomplete.len().saturating_sub(frame(last, length).len() - length);
        if last == DATA && content > 0 {
            frames.push((DATA, content));
        }
        stream.extend(incomplete);
        let (received, is_complete) = receive(cut(FrameCutter::request(), &stream, size));
        prop_assert_eq!(received, joined(frames));
        prop_assert!(!is_complete);
    }
}
