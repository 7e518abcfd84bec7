//! Replacing connection IDs after the generator's configuration changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_wire::Reader;

use super::*;

/// Generates IDs whose first octet is the configuration number.
#[derive(Debug, Default)]
struct Rotating(AtomicU64);

impl Rotating {
    fn rotate(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl ConnectionIdGenerator for Rotating {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<8>();
        id[0] = self.rotation() as u8;
        ConnectionId::new(&id).unwrap()
    }

    fn len(&self) -> usize {
        8
    }

    fn rotation(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A peer that follows RFC 9000 §5.1.2, and checks that the endpoint under test follows §5.1.1 and
/// §19.15.
struct Peer {
    limit: usize,
    active: BTreeMap<u64, ConnectionId>,
    retire_prior_to: u64,
    retired: BTreeSet<u64>,
    /// RETIRE_CONNECTION_ID frames in transit.
    retiring: Vec<u64>,
    /// The connection ID first received with each sequence number.
    seen: BTreeMap<u64, ConnectionId>,
}

impl Peer {
    fn new(limit: usize, first: ConnectionId) -> Self {
        let active = BTreeMap::from([(0, first)]);
        let (seen, retired) = (active.clone(), BTreeSet::new());
        Self { limit, active, retire_prior_to: 0, retired, retiring: Vec::new(), seen }
    }

    fn retire(&mut self, sequence: u64) {
        self.active.remove(&sequence);
        if self.retired.insert(sequence) {
            self.retiring.push(sequence);
        }
    }

    fn receive(&mut self, frame: &frame::NewConnectionId) {
        let (sequence, prior) = (frame.sequence.get(), frame.retire_prior_to.get());
        assert!(prior <= sequence, "§19.15");
        assert_eq!(*self.seen.entry(sequence).or_insert(frame.id), frame.id, "§19.15");
        self.retire_prior_to = self.retire_prior_to.max(prior);
        let old: Vec<u64> = self.active.range(..self.retire_prior_to).map(|(it, _)| *it).collect();
        old.into_iter().for_each(|sequence| self.retire(sequence));
        if sequence < self.retire_prior_to {
            self.retire(sequence);
        } else if !self.retired.contains(&sequence) {
            self.active.insert(sequence, frame.id);
        }
        assert!(self.active.len() <= self.limit, "CONNECTION_ID_LIMIT_ERROR: {:?}", self.active);
        assert!(!self.active.is_empty());
    }
}

/// Both endpoints, and the frames in transit between them.
struct Both {
    generator: Arc<Rotating>,
    ids: LocalIds,
    random: Random,
    peer: Peer,
    /// NEW_CONNECTION_ID frames in transit.
    frames: Vec<frame::NewConnectionId>,
    routes: BTreeSet<ConnectionId>,
}

impl Both {
    fn new(limit: usize) -> Self {
        Self::with(limit, |_, _| {})
    }

    /// Calls `change` before the peer's limit is known.
    fn with(limit: usize, change: impl FnOnce(&Rotating, &mut LocalIds)) -> Self {
        let (generator, mut random) = (Arc::new(Rotating::default()), Random::from_number(1));
        let key = ResetKey::new(&[9; 32]);
        let mut ids = LocalIds::new(generator.clone(), &key, &mut random);
        let peer = Peer::new(limit, ids.first());
        let routes = BTreeSet::from([ids.first()]);
        change(&generator, &mut ids);
        ids.set_peer_limit(limit as u64, &mut random);
        Self { generator, ids, random, peer, frames: Vec::new(), routes }
    }

    fn rotate(&mut self) {
        self.generator.rotate();
        self.ids.replace(&mut self.random);
    }

    /// Sends the pending frames that fit.
    fn send(&mut self, room: usize) {
        let mut buffer = vec![0; room];
        let mut writer = Writer::new(&mut buffer);
        self.ids.write_frames(&mut PacketContents::new(&mut writer, &mut Vec::new()));
        let written = writer.written();
        let mut reader = Reader::new(&buffer[..written]);
        while !reader.is_empty() {
            let Ok(Frame::NewConnectionId(frame)) = Frame::decode(&mut reader) else {
                panic!("another frame")
            };
            self.frames.push(frame);
        }
    }

    fn deliver(&mut self, position: usize) {
        if !self.frames.is_empty() {
            let frame = self.frames.remove(position % self.frames.len());
            self.peer.receive(&frame);
            self.ids.on_acked(frame.sequence.get());
        }
    }

    /// Reports a frame as lost. If `is_lost`, the frame is really lost; otherwise, it still
    /// arrives.
    fn lose(&mut self, position: usize, is_lost: bool) {
        if !self.frames.is_empty() {
            let position = position % self.frames.len();
            self.ids.on_lost(self.frames[position].sequence.get());
            if is_lost {
                self.frames.remove(position);
            }
        }
    }

    /// Delivers one of the peer's RETIRE_CONNECTION_ID frames.
    fn retire(&mut self, position: usize) {
        if !self.peer.retiring.is_empty() {
            let position = position % self.peer.retiring.len();
            let sequence = self.peer.retiring.remove(position);
            let current = *self.peer.active.values().next().unwrap();
            self.ids.on_retire(&retire(sequence), current, &mut self.random).unwrap();
        }
    }

    /// The peer migrates and retires its oldest ID.
    fn migrate(&mut self) {
        if self.peer.active.len() > 1 {
            let sequence = *self.peer.active.keys().next().unwrap();
            self.peer.retire(sequence);
        }
    }

    /// Checks the invariants.
    fn check(&mut self) {
        while let Some(change) = self.ids.next_routing_change() {
            match change {
                RoutingChange::Added(id) => assert!(self.routes.insert(id)),
                RoutingChange::Removed(id) => assert!(self.routes.remove(&id)),
            }
        }
        assert_eq!(self.routes, self.ids.active().collect());
        assert!(self.peer.active.values().all(|id| self.routes.contains(id)), "unroutable");
        assert!(self.routes.len() <= 2 * self.peer.limit.min(MAX_ACTIVE as usize));
        let sequences: Vec<u64> = self.ids.active.iter().map(|issued| issued.sequence).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b));
    }

    /// Delivers everything until nothing is left to do.
    fn finish(&mut self) {
        while self.ids.has_pending() || !self.frames.is_empty() || !self.peer.retiring.is_empty() {
            self.send(1200);
            self.deliver(0);
            self.retire(0);
            self.check();
        }
    }

    /// Checks that the peer has as many IDs as it stores, all of the newest configuration.
    fn assert_replaced(&self) {
        let newest = self.generator.rotation() as u8;
        let peer = &self.peer;
        assert!(peer.active.values().all(|id| id.as_bytes()[0] == newest), "{:?}", peer.active);
        assert_eq!(peer.active.len(), peer.limit.min(MAX_ACTIVE as usize));
        assert_eq!(self.ids.active().count(), peer.active.len());
        let numbers: Vec<u64> = peer.seen.keys().copied().collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "each one more");
    }
}

#[test]
fn all_ids_are_replaced_and_stay_routable_until_they_are_retired() {
    for limit in [2, 3, 8, 20] {
        let mut both = Both::new(limit);
        both.finish();
        let before = both.routes.clone();
        both.rotate();
        both.check();
        assert_eq!(both.routes.len(), 2 * before.len());
        both.send(1200);
        both.deliver(0);
        assert_eq!(both.peer.active.len(), 1, "one frame is enough to stop the use of the others");
        both.check();
        assert!(both.routes.is_superset(&before));
        both.finish();
        assert!(both.routes.is_disjoint(&before));
        both.assert_replaced();
    }
}

#[test]
fn without_another_configuration_nothing_is_replaced() {
    let mut both = Both::new(4);
    both.finish();
    let before = both.routes.clone();
    both.ids.replace(&mut both.random);
    assert!(!both.ids.has_pending());
    both.check();
    assert_eq!(both.routes, before);
}

/// RFC 9000 §5.1.2: another replacement waits until the peer has retired the IDs of the previous
/// one.
#[test]
fn a_second_change_waits_for_the_first() {
    let mut both = Both::new(3);
    both.finish();
    both.rotate();
    both.send(1200);
    both.rotate();
    both.rotate();
    both.check();
    assert!(!both.ids.has_pending(), "nothing new while the peer retires nothing");
    assert_eq!(both.routes.len(), 6);
    while !both.frames.is_empty() {
        both.deliver(0);
    }
    both.retire(0);
    both.retire(0);
    assert!(!both.ids.has_pending());
    both.retire(0);
    assert!(both.ids.has_pending(), "the last was retired");
    both.finish();
    both.assert_replaced();
}

/// IDs that the peer cannot know yet are withdrawn, and no sequence number is skipped.
#[test]
fn ids_that_were_never_sent_are_taken_back() {
    let mut both = Both::new(4);
    both.send(40);
    assert_eq!(both.frames.len(), 1);
    both.rotate();
    both.check();
    assert_eq!(both.routes.len(), 2 + 4);
    both.finish();
    both.assert_replaced();
    assert_eq!(both.peer.seen.len(), 6);
}

/// An ID whose frame was declared lost may still have arrived, so the peer has to retire it.
#[test]
fn a_lost_id_of_an_earlier_configuration_is_sent_again_and_retired() {
    let mut both = Both::new(2);
    both.send(1200);
    both.rotate();
    both.lose(0, true);
    both.send(1200);
    assert_eq!(both.frames.len(), 3);
    both.deliver(0);
    both.check();
    both.finish();
    both.assert_replaced();
}

/// The configuration changed after the first ID was issued and before the handshake was confirmed.
#[test]
fn a_change_during_the_handshake_replaces_what_is_older() {
    let mut both = Both::with(3, |generator, _| generator.rotate());
    both.finish();
    assert_eq!(both.routes.len(), 3, "not before it is requested");
    both.ids.replace(&mut both.random);
    both.check();
    assert_eq!(both.routes.len(), 4, "only the first");
    both.finish();
    both.assert_replaced();
}

#[test]
fn the_id_of_the_preferred_address_is_replaced() {
    let mut preferred = None;
    let mut both = Both::with(2, |_, ids| {
        preferred = Some(ids.add_preferred(&mut Random::from_number(5)));
    });
    both.peer.seen.insert(1, preferred.unwrap());
    both.peer.active.insert(1, preferred.unwrap());
    both.check();
    both.rotate();
    both.finish();
    both.assert_replaced();
    assert!(!both.routes.contains(&preferred.unwrap()));
}

/// RFC 9000 §5.1.1: an endpoint with a zero-length connection ID issues no others.
#[test]
fn an_endpoint_without_ids_issues_none() {
    #[derive(Debug)]
    struct NoIds;
    impl ConnectionIdGenerator for NoIds {
        fn generate(&self, _: &mut Random) -> ConnectionId {
            ConnectionId::default()
        }

        fn len(&self) -> usize {
            0
        }
    }
    let mut random = Random::from_number(1);
    let mut ids = LocalIds::new(Arc::new(NoIds), &ResetKey::new(&[9; 32]), &mut random);
    ids.set_peer_limit(4, &mut random);
    ids.replace(&mut random);
    assert!(!ids.has_pending());
    assert_eq!(ids.active().count(), 1);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Rotate,
    Send(usize),
    Deliver(usize),
    Lose(usize, bool),
    Retire(usize),
    Migrate,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Rotate),
        4 => (0..300_usize).prop_map(Step::Send),
        6 => any::<usize>().prop_map(Step::Deliver),
        2 => any::<(usize, bool)>().prop_map(|(it, is_lost)| Step::Lose(it, is_lost)),
        4 => any::<usize>().prop_map(Step::Retire),
        1 => Just(Step::Migrate),
    ]
}

proptest! {
    /// However frames are lost, delayed and reordered, and whenever the configuration changes: the
    /// peer's limit is respected, all IDs that the peer may use are routable, twice the limit is
    /// never exceeded, and in the end all IDs have the newest configuration.
    #[test]
    fn any_history_ends_with_the_newest_configuration(
        limit in 2..12_usize,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut both = Both::new(limit);
        both.check();
        for step in steps {
            match step {
                Step::Rotate => both.rotate(),
                Step::Send(room) => both.send(room),
                Step::Deliver(position) => both.deliver(position),
                Step::Lose(position, is_lost) => both.lose(position, is_lost),
                Step::Retire(position) => both.retire(position),
                Step::Migrate => both.migrate(),
            }
            both.check();
        }
        both.finish();
        both.assert_replaced();
    }
}
