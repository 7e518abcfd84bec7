use core::fmt::Debug;

use super::*;
use crate::Random;

fn returns<T: Pack + PartialEq + Debug>(state: T) -> usize {
    let bytes = packed(&state);
    let mut unpacker = Unpacker::new(&bytes);
    assert_eq!(T::unpack(&mut unpacker), state);
    assert!(unpacker.0.is_empty(), "{state:?}: all bytes are read");
    bytes.len()
}

#[test]
fn every_number_returns_in_as_few_bytes_as_it_needs() {
    assert_eq!([0, 1, 0xf7].map(returns::<u64>), [1; 3]);
    assert_eq!([0xf8, 0xff].map(returns::<u64>), [2; 2]);
    for bytes in 2..=8 {
        let least = 1_u64 << (8 * (bytes - 1));
        let greatest = u64::MAX >> (64 - 8 * bytes);
        assert_eq!([least, greatest].map(returns), [bytes + 1; 2], "{bytes}");
    }
    let mut random = Random::from_number(1);
    for _ in 0..10_000 {
        let bits = random.below(64) as u32;
        returns(random.number() >> bits);
    }
}

#[test]
fn what_is_packed_returns() {
    returns((u8::MAX, (u16::MAX, u32::MAX)));
    returns((usize::MAX, (true, false)));
    for number in [0, 1, -1, i32::MIN, i32::MAX] {
        returns(number);
    }
    for number in [0.0, -0.0, 1.0, 1452.0, 0.1, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY] {
        returns(number);
    }
    assert_eq!(returns(1452.0), 4);
    for duration in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        returns(duration);
    }
    for time in [Timestamp::ORIGIN, Timestamp::FAR_FUTURE, Timestamp::from_nanos(5)] {
        returns((time, Some(ReleaseTime::at(time))));
    }
    returns((Rate::from_bytes_per_second(u64::MAX), Some(None::<u64>)));
    returns([Some(Box::new(3_u64)), None]);
    returns((vec![1_u64, 2], VecDeque::from([Some(7_u32), None])));
    returns((BTreeSet::from([3_u64, 300]), Vec::<bool>::new()));
}

/// An enum with one variant of every kind that the derive macro supports.
#[derive(Pack, PartialEq, Debug)]
enum State<T> {
    First,
    Second((u8, u8), Counts<T, Vec<u8>>),
    Third,
    Fourth {
        /// A field that is never read.
        only: Place,
    },
}

#[derive(Pack, PartialEq, Debug)]
struct Place(pub(crate) u64);

#[derive(Pack, PartialEq, Debug)]
struct Nothing;

#[derive(Pack, PartialEq, Debug)]
pub(super) struct Counts<T, U> {
    pub(super) first: Option<(T, U)>,
    #[cfg(test)]
    second: T,
    nothing: Nothing,
}

#[test]
fn what_is_derived_packs_each_field_in_order_after_the_number_of_the_variant() {
    let counts = Counts { first: Some((5, vec![6])), second: 7_u64, nothing: Nothing };
    let states = [
        (State::First, vec![0]),
        (State::Second((3, 4), counts), vec![1, 3, 4, 1, 5, 1, 6, 7]),
        (State::Fourth { only: Place(9) }, vec![3, 9]),
    ];
    for (state, bytes) in states {
        assert_eq!(*packed(&state), bytes, "{state:?}");
        returns(state);
    }
    assert_eq!(unpacked::<State<u64>>(&[4]), State::First, "no variant has this number");
}

#[test]
fn beyond_the_end_there_are_zeros() {
    let mut unpacker = Unpacker::new(&[0xff, 1]);
    assert_eq!((unpacker.number(), unpacker.number()), (1, 0));
    assert_eq!(Unpacker::new(&[1]).array(), [0; 2]);
    assert_eq!(unpacked::<Vec<u64>>(&[2, 5]), [5, 0]);
}

/// Previous contents of a buffer are not read, and a buffer that is much too large is not reused.
#[test]
fn a_state_is_packed_in_memory_that_it_fits_in() {
    let packed_in = |numbers: &[u64], room: Box<[u8]>| {
        let mut packer = Packer::new();
        numbers.to_vec().pack(&mut packer);
        packer.finish_in(room)
    };
    for (room, kept) in [(0, 32), (3, 32), (4, 4), (64, 64), (65, 32), (4000, 32)] {
        let bytes = packed_in(&[1, 2, 3], vec![7; room].into());
        assert_eq!(bytes.len(), kept, "{room}");
        assert_eq!(unpacked::<Vec<u64>>(&bytes), [1, 2, 3]);
        assert!(bytes.iter().skip(4).all(|byte| *byte == 0));
    }
    let many: Vec<u64> = (0..1000).map(|bit| 1 << (bit % 64)).collect();
    assert_eq!(unpacked::<Vec<u64>>(&packed_in(&many, Box::default())), many);
}
