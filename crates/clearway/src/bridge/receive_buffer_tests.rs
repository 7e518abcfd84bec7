use super::super::held::{CONNECTION_BUFFER, STREAM_BUFFER};
use super::super::tests::{Bare, waiting};
use super::super::{SendBuffer, Shared};
use super::*;

/// Returns whether there is room, with unlimited windows.
fn has_room(buffer: &ReceiveBuffer<()>) -> bool {
    buffer.has_room([u64::MAX; 2])
}

#[test]
fn tiny_pieces_use_up_the_buffer_too() {
    let mut buffer = ReceiveBuffer::<()>::new(None);
    let mut pieces = 0;
    while has_room(&buffer) {
        buffer.push(Bytes::from_static(b"x"));
        pieces += 1;
    }
    assert!(pieces <= STREAM_BUFFER / PIECE_OVERHEAD);
}

#[test]
fn many_small_pieces_are_a_small_multiple_of_their_bytes() {
    let mut buffer = ReceiveBuffer::<()>::new(None);
    let mut bytes = 0;
    while !buffer.is_fragmented() {
        buffer.push(Bytes::from_static(b"x"));
        bytes += 1;
    }
    assert_eq!(bytes, MAX_PIECES);
    // There is room for one more piece per 512 bytes.
    buffer.push(vec![0; 10 * BYTES_PER_PIECE].into());
    assert!(!buffer.is_fragmented());
    while let Some(taken) = buffer.take(3) {
        assert!((1..=3).contains(&taken.len()));
    }
    assert!(buffer.is_empty() && !buffer.is_fragmented());
    assert_eq!(buffer.held.bytes(), 0);
}

#[test]
fn no_more_waits_than_windows_permit() {
    let total = Total::default();
    let [mut first, mut second] = [(); 2].map(|()| ReceiveBuffer::<()>::new(Some(&total)));
    assert!(first.has_room([0, 0]), "there is always room for one piece");
    first.push(vec![0; 1000].into());
    assert!(first.has_room([1065, 4000]) && !first.has_room([1064, 4000]));
    second.push(vec![0; 1000].into());
    assert!(first.has_room([4000, 2129]) && !first.has_room([4000, 2128]), "all together");
    second.clear();
    assert!(second.has_room([0, 0]) && first.has_room([4000, 2128]));
    first.push(vec![0; STREAM_BUFFER].into());
    assert!(!has_room(&first), "a large window is not a large buffer");
}

#[test]
fn unread_streams_share_a_limit_and_an_empty_one_may_always_continue() {
    let total = Total::default();
    let piece = Bytes::from(vec![0; 1 << 15]);
    let mut all: Vec<ReceiveBuffer<()>> = Vec::new();
    for _ in 0..100 {
        let mut buffer = ReceiveBuffer::new(Some(&total));
        while has_room(&buffer) {
            buffer.push(piece.clone());
        }
        all.push(buffer);
    }
    let held: usize = all.iter().map(|buffer| buffer.held.bytes()).sum();
    assert!(held <= CONNECTION_BUFFER + 101 * (piece.len() + PIECE_OVERHEAD), "{held} bytes");
    // When a task has read everything, its stream has room again, no matter how much other streams
    // have buffered.
    all[50].take_all(&mut VecDeque::new());
    assert!(has_room(&all[50]) && !has_room(&all[51]));
    assert!(SendBuffer::<()>::new(Some(&Total::default())).has_room());
    all.clear();
    assert!(has_room(&ReceiveBuffer::new(Some(&total))));
}

#[test]
fn data_received_before_a_failure_is_read_first() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut effects = Effects::<Bare>::default();
    let mut buffer = ReceiveBuffer::new(None);
    buffer.watch(&context, &mut effects);
    assert!(buffer.is_awaited());
    buffer.push(Bytes::from_static(b"content"));
    buffer.finish(Err("cut off"), &mut effects);
    buffer.finish(Ok(()), &mut effects);
    effects.carry_out(&Shared::new(None));
    assert_eq!(counter.count(), 1);
    assert!(!buffer.is_awaited());
    assert_eq!(buffer.take(usize::MAX), Some(Bytes::from_static(b"content")));
    assert_eq!((buffer.take(1), buffer.end()), (None, Some(&Err("cut off"))));
}
