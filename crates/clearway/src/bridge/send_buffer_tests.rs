use core::task::Waker;

use super::super::Shared;
use super::super::held::CONNECTION_BUFFER;
use super::super::tests::{Bare, waiting};
use super::*;

fn carry_out(mut effects: Effects<Bare>) {
    effects.carry_out(&Shared::new(None));
}

fn room(buffer: &mut SendBuffer<()>) -> Option<usize> {
    let mut effects = Effects::<Bare>::default();
    match buffer.poll_room(&Context::from_waker(Waker::noop()), &mut effects) {
        Poll::Ready(room) => Some(room),
        Poll::Pending => None,
    }
}

/// Lets the transport take `bytes` of the buffered data.
fn hand_over(buffer: &mut SendBuffer<()>, mut bytes: usize) {
    buffer.unblock();
    let taken = buffer.hand_over(|data, _| {
        let taken = data.len().min(bytes);
        bytes -= taken;
        Ok::<_, ()>(taken)
    });
    assert_eq!(taken, Ok(buffer.is_empty()));
}

#[test]
fn a_writer_is_woken_when_half_of_the_buffer_is_free() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut buffer = SendBuffer::<()>::new(None);
    // A piece of any size is accepted while there is some room.
    assert_eq!(room(&mut buffer), Some(STREAM_BUFFER));
    buffer.push(vec![0; STREAM_BUFFER * 2].into());
    assert!(buffer.poll_room(&context, &mut Effects::<Bare>::default()).is_pending());
    for (taken, wakes) in [(STREAM_BUFFER, 0), (STREAM_BUFFER / 2 + 63, 0), (1, 1), (9, 1)] {
        hand_over(&mut buffer, taken);
        assert!(!buffer.is_sendable(), "until the transport reports that it accepts more");
        let mut effects = Effects::<Bare>::default();
        buffer.wake_for_room(&mut effects);
        carry_out(effects);
        assert_eq!(counter.count(), wakes, "after {taken} more");
    }
    assert_eq!(room(&mut buffer), Some(STREAM_BUFFER / 2 + 9));
}

#[cfg(feature = "http3")]
#[test]
fn a_task_that_waits_for_the_end_is_not_woken_for_room() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut buffer = SendBuffer::<()>::new(None);
    let mut effects = Effects::<Bare>::default();
    buffer.push(vec![0; 100].into());
    buffer.finish();
    buffer.watch_end(&context, &mut effects);
    hand_over(&mut buffer, 100);
    buffer.wake_for_room(&mut effects);
    carry_out(effects);
    assert_eq!(counter.count(), 0);
    let mut effects = Effects::<Bare>::default();
    buffer.end(SendState::Delivered, &mut effects);
    carry_out(effects);
    assert_eq!(counter.count(), 1);
}

#[test]
fn tiny_pieces_use_up_the_buffer_too() {
    let mut buffer = SendBuffer::<()>::new(None);
    let mut pieces = 0;
    while room(&mut buffer).is_some() {
        buffer.push(Bytes::from_static(b"x"));
        pieces += 1;
    }
    assert!(pieces <= STREAM_BUFFER / PIECE_OVERHEAD);
    hand_over(&mut buffer, usize::MAX);
    assert_eq!(room(&mut buffer), Some(STREAM_BUFFER));
}

#[test]
fn streams_share_a_limit_and_none_is_starved() {
    let total = Total::default();
    let mut streams: Vec<_> = (0..100).map(|_| SendBuffer::<()>::new(Some(&total))).collect();
    let chunk = Bytes::from(vec![0; 64 << 10]);
    let mut held = 0;
    loop {
        let before = held;
        for buffer in &mut streams {
            if room(buffer).is_some() {
                buffer.push(chunk.clone());
                held += chunk.len();
            }
        }
        if held == before {
            break;
        }
    }
    assert!(held <= CONNECTION_BUFFER + 100 * chunk.len(), "{held} bytes are held");
    // A stream that has handed over all of its data can continue, no matter how much others buffer.
    hand_over(&mut streams[7], usize::MAX);
    assert_eq!((room(&mut streams[7]), room(&mut streams[8])), (Some(STREAM_BUFFER), None));
    drop(streams);
    assert_eq!(total.bytes(), 0);
}

#[test]
fn a_reset_discards_the_buffered_data_at_once() {
    let total = Total::default();
    let mut buffer = SendBuffer::<()>::new(Some(&total));
    buffer.push(vec![0; 1000].into());
    buffer.reset(VarInt::from_u32(7));
    assert_eq!((total.bytes(), buffer.is_over(), buffer.is_sendable()), (0, false, false));
    assert_eq!(*buffer.state(), SendState::Resetting(VarInt::from_u32(7)));
    // After a reset, the stream cannot be finished.
    buffer.finish();
    assert_eq!(*buffer.state(), SendState::Resetting(VarInt::from_u32(7)));
}
