//! Fuzzes ACK frames: the ranges descend with a gap between any two, and re-encoding the ranges
//! yields the same ranges.
#![no_main]

use clearway_wire::frame::Ack;
use clearway_wire::{Frame, Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for frame_type in [2, 3] {
        let encoded = [&[frame_type], data].concat();
        let Ok(Frame::Ack(ack)) = Frame::decode(&mut Reader::new(&encoded)) else { continue };
        let mut bound = u64::MAX;
        for range in ack.ranges() {
            assert!(range.end().get() < bound && range.start() <= range.end());
            // The next range ends at least two below the start of this range.
            bound = range.start().get().saturating_sub(1);
        }
        let mut buffer = vec![0; encoded.len() + 8];
        let mut writer = Writer::new(&mut buffer);
        let written = Ack::encode_ranges(&mut writer, ack.delay, ack.ranges(), ack.ecn).unwrap();
        let again = Frame::decode(&mut Reader::new(writer.filled()));
        let Ok(Frame::Ack(again)) = again else { panic!("{again:?}") };
        assert!(again.ranges().eq(ack.ranges().take(written)));
    }
});
