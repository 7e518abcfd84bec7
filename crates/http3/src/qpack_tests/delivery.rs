//! Property tests of encoder and decoder, with all data between them delivered in any order that
//! streams allow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// A section is sent on a stream.
    Send(u64, Vec<Owned>),
    /// Bytes of the encoder stream arrive.
    Encoder(usize),
    /// Bytes of the decoder stream arrive.
    Decoder(usize),
    /// The next section of a stream arrives.
    Section(u64),
    /// The receiver abandons a stream.
    Cancel(u64),
    /// The encoder stream is blocked or unblocked.
    Stall(bool),
}

/// Generates fields, many of which are repeated.
fn field() -> impl Strategy<Value = Owned> {
    let name = prop_oneof![
        Just("x-short"),
        Just("user-agent"),
        Just(":path"),
        Just("cookie"),
        Just("a"),
        Just("accept"),
    ];
    let value = prop_oneof![
        4 => (0usize..4).prop_map(|kind| "v".repeat(kind * 9)),
        1 => "[a-z]{0,60}",
    ];
    (name, value, proptest::bool::weighted(0.1))
        .prop_map(|(name, value, sensitive)| owned(name, &value, sensitive))
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || (0u64..12).prop_map(|stream| stream * 4);
    let fields = proptest::collection::vec(field(), 0..6);
    prop_oneof![
        4 => (stream(), fields).prop_map(|(stream, fields)| Step::Send(stream, fields)),
        3 => (0usize..80).prop_map(Step::Encoder),
        2 => (0usize..8).prop_map(Step::Decoder),
        4 => stream().prop_map(Step::Section),
        1 => stream().prop_map(Step::Cancel),
        1 => any::<bool>().prop_map(Step::Stall),
    ]
}

/// A section in transit, and its expected fields.
type Sent = (Vec<u8>, Vec<Owned>);

#[derive(Default)]
struct World {
    encoder: Encoder,
    decoder: Decoder,
    max_blocked: u64,
    is_stalled: bool,
    to_decoder: VecDeque<u8>,
    to_encoder: VecDeque<u8>,
    sections: BTreeMap<u64, VecDeque<Sent>>,
    blocked: BTreeMap<u64, Sent>,
    /// Abandoned streams, on which nothing more is sent.
    cancelled: BTreeSet<u64>,
    decoded: usize,
}

impl World {
    fn new(capacities: (u64, u64), max_blocked: u64) -> Self {
        let mut world =
            Self { decoder: Decoder::new(capacities.0), max_blocked, ..Self::default() };
        world.encoder.allow(capacities.0, capacities.1, max_blocked);
        world
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Send(stream, _) if self.cancelled.contains(&stream) => {}
            Step::Send(stream, fields) => {
                let mut section = Vec::new();
                self.encoder.encode(stream, &lines(&fields), !self.is_stalled, &mut section);
                assert!(!self.is_stalled || self.encoder.instructions().is_empty());
                self.to_decoder.extend(self.encoder.instructions().drain(..));
                self.sections.entry(stream).or_default().push_back((section, fields));
            }
            Step::Encoder(length) => {
                let length = length.min(self.to_decoder.len());
                let bytes: Vec<u8> = self.to_decoder.drain(..length).collect();
                self.decoder.receive(&bytes).unwrap();
                let waiting = core::mem::take(&mut self.blocked);
                for (stream, section) in waiting {
                    self.decode(stream, section);
                }
                self.decoder.acknowledge_insertions();
            }
            Step::Decoder(length) => {
                self.to_encoder.extend(self.decoder.feedback().drain(..));
                let length = length.min(self.to_encoder.len());
                let bytes: Vec<u8> = self.to_encoder.drain(..length).collect();
                self.encoder.receive(&bytes).unwrap();
            }
            Step::Section(stream) => {
                let next =
                    self.sections.get_mut(&stream).filter(|_| !self.blocked.contains_key(&stream));
                if let Some(section) = next.and_then(VecDeque::pop_front) {
                    self.decode(stream, section);
                }
            }
            Step::Cancel(stream) => {
                if !self.cancelled.insert(stream) {
                    return;
                }
                self.sections.remove(&stream);
                self.blocked.remove(&stream);
                self.decoder.cancel(stream);
            }
            Step::Stall(is_stalled) => self.is_stalled = is_stalled,
        }
        assert!(self.blocked.len() as u64 <= self.max_blocked, "too many blocked streams");
        self.encoder.check_caches();
        self.decoder.check_caches();
    }

    fn decode(&mut self, stream: u64, (section, expected): Sent) {
        let mut fields = Vec::new();
        let decoded = self.decoder.decode(stream, &section, 1 << 20, |field| {
            fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
            Ok::<_, ()>(())
        });
        match decoded.unwrap() {
            Decoded::Whole => {
                assert_eq!(fields, expected);
                self.decoded += 1;
            }
            Decoded::Blocked { .. } => {
                self.blocked.insert(stream, (section, expected));
            }
        }
    }

    /// Delivers all data in transit.
    fn settle(&mut self) {
        self.take(Step::Encoder(usize::MAX));
        for stream in self.sections.keys().copied().collect::<Vec<_>>() {
            while !self.sections[&stream].is_empty() {
                self.take(Step::Section(stream));
                assert!(self.blocked.is_empty(), "stream {stream} waits for nothing");
            }
        }
        self.take(Step::Decoder(usize::MAX));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// In every order, the decoded fields equal the encoded ones, and no section waits forever.
    #[test]
    fn everything_is_decoded_in_any_order(
        steps in proptest::collection::vec(step(), 0..120),
        capacities in (prop_oneof![Just(0), 31u64..400], 0u64..400),
        max_blocked in 0u64..4,
    ) {
        let mut world = World::new(capacities, max_blocked);
        let mut sent = 0;
        for step in steps {
            sent += usize::from(matches!(step, Step::Send(..)));
            world.take(step);
        }
        world.settle();
        prop_assert!(world.decoded <= sent);
        // All references were released, so any entry can be evicted and the table can still be
        // used.
        world.is_stalled = false;
        for round in 0..20 {
            let fields = vec![owned("x-round", &format!("{round}"), false)];
            world.take(Step::Send(400 + round * 4, fields));
            world.settle();
        }
        prop_assert!(world.encoder.is_settled());
    }
}
