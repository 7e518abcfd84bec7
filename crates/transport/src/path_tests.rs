use clearway_wire::{Reader, Writer};
use proptest::prelude::*;

use super::*;
use crate::ecn::EcnCodepoint;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn remote(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 1000 + number))
}

fn from(number: u16) -> Arrival {
    Arrival {
        remote: remote(number),
        socket: SocketIndex::default(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
    }
}

fn local_id() -> ConnectionId {
    ConnectionId::new(&[1; 8]).unwrap()
}

const MTU: MtuConfig = MtuConfig { initial: 1200, maximum: 1200, is_enabled: false };

const PTO: Duration = Duration::from_millis(100);

fn paths(is_validated: bool) -> (Paths, Random) {
    (Paths::new(from(1), local_id(), is_validated, MTU), Random::from_number(1))
}

/// Returns the paths after the peer has moved from address 1, which is validated, to address 2,
/// from which `bytes` were received.
fn moved(bytes: usize) -> (Paths, Random) {
    let (mut paths, mut random) = paths(true);
    paths.on_datagram_received(from(2), bytes);
    assert!(paths.on_peer_moved(at(0), from(2), local_id(), PTO, &mut random));
    (paths, random)
}

fn respond(paths: &mut Paths, data: [u8; 8]) -> bool {
    paths.on_response(at(1), data, PTO, &mut Random::from_number(2))
}

/// Returns the pending frames of the current path, written into a datagram of full size.
fn written_whole(paths: &mut Paths, now: Timestamp) -> Vec<([u8; 8], bool)> {
    let frames = written(paths, now);
    paths.on_datagram_built(1200);
    frames
}

/// Returns the pending frames of the current path.
fn written(paths: &mut Paths, now: Timestamp) -> Vec<([u8; 8], bool)> {
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    paths.write_frames(now, &mut PacketContents::new(&mut writer, &mut Vec::new()));
    let mut reader = Reader::new(writer.filled());
    let mut frames = Vec::new();
    while let Ok(frame) = Frame::decode(&mut reader) {
        match frame {
            Frame::PathChallenge(frame) => frames.push((frame.data, true)),
            Frame::PathResponse(frame) => frames.push((frame.data, false)),
            other => panic!("{other:?}"),
        }
    }
    frames
}

#[test]
fn three_times_what_came_may_be_sent_until_the_address_is_validated() {
    let (mut paths, _) = paths(false);
    assert_eq!(paths.current().amplification_credit(), 0);
    paths.on_datagram_received(from(1), 1200);
    assert_eq!(paths.current().amplification_credit(), 3600);
    paths.current_mut().on_sent(3000);
    assert_eq!(paths.current().amplification_credit(), 600);
    paths.on_datagram_received(from(2), 1200);
    assert_eq!(paths.current().amplification_credit(), 600, "from elsewhere");
    paths.current_mut().set_validated();
    assert_eq!(paths.current().amplification_credit(), u64::MAX);
}

#[test]
fn a_new_address_is_challenged_and_its_answer_validates_it() {
    let (mut paths, _) = moved(100);
    assert!(!paths.current().is_validated());
    assert_eq!(paths.current().amplification_credit(), 300);
    assert!(paths.has_frames_pending());
    let frames = written_whole(&mut paths, at(0));
    let [(data, true)] = frames[..] else { panic!("{frames:?}") };
    assert!(paths.take_padding() && !paths.take_padding());
    assert!(!respond(&mut paths, [0xff; 8]), "forged");
    assert!(!paths.current().is_validated());
    assert!(respond(&mut paths, data));
    assert!(paths.current().is_validated());
    assert_eq!(paths.deadline(), None);
    assert!(!respond(&mut paths, data), "reported once");
}

/// Returns the data of the PATH_CHALLENGE for the old address.
fn old_challenge(paths: &mut Paths) -> [u8; 8] {
    match paths.next_off_path().map(|probe| probe.frame) {
        Some(ProbeFrame::Challenge(data)) => data,
        other => panic!("{other:?}"),
    }
}

/// §8.2.3: a PATH_RESPONSE validates the path on which its challenge was sent, and no other.
/// Otherwise a peer could use its real address to lift the limit for an address that it spoofs.
#[test]
fn an_answer_to_the_old_paths_challenge_does_not_validate_the_new_one() {
    let (mut paths, _) = moved(100);
    written(&mut paths, at(0));
    let old = old_challenge(&mut paths);
    assert!(!respond(&mut paths, old));
    assert!(!paths.current().is_validated());
    assert_eq!(paths.current().amplification_credit(), 300);
    assert!(paths.deadline().is_some(), "the validation continues");
}

#[test]
fn an_answer_to_a_challenge_of_a_path_in_between_validates_nothing() {
    let (mut paths, mut random) = moved(100);
    let second = written(&mut paths, at(0))[0].0;
    paths.on_datagram_received(from(3), 100);
    paths.on_peer_moved(at(10), from(3), local_id(), PTO, &mut random);
    assert!(!respond(&mut paths, second));
    assert!(!paths.current().is_validated());
}

/// §9.3.3: the old address may be the peer's real one, so a PATH_CHALLENGE is also sent to it.
#[test]
fn the_old_address_is_challenged_as_well() {
    let (mut paths, _) = moved(100);
    let probe = paths.next_off_path().unwrap();
    assert_eq!((probe.address.remote, probe.credit), (remote(1), u64::MAX));
    assert!(matches!(probe.frame, ProbeFrame::Challenge(_)));
    assert!(paths.next_off_path().is_none());
}

/// §8.2.1: a datagram limited by the anti-amplification limit does not validate the path MTU. The
/// response lifts the limit, and another PATH_CHALLENGE is sent in a datagram of full size.
#[test]
fn a_path_that_was_validated_with_a_small_datagram_is_validated_again_with_a_whole_one() {
    let (mut paths, mut random) = moved(100);
    let small = written(&mut paths, at(0))[0].0;
    paths.on_datagram_built(300);
    assert!(respond(&mut paths, small));
    assert!(paths.current().is_validated(), "the address");
    assert!(!paths.is_settled() && paths.has_frames_pending());
    let whole = written_whole(&mut paths, at(1));
    assert_ne!(whole[0].0, small);
    assert!(!respond(&mut paths, small), "reported once");
    // Without a response the path cannot be used.
    let mut unanswered = paths.deadline().unwrap();
    let change = loop {
        written_whole(&mut paths, unanswered);
        if let Some(change) = paths.on_deadline(unanswered, &mut random) {
            break change;
        }
        unanswered = paths.deadline().unwrap();
    };
    assert_eq!((change, paths.current().remote()), (PathChange::Reverted, remote(1)));
}

#[test]
fn an_answer_to_a_whole_datagram_ends_the_validation() {
    let (mut paths, _) = moved(100);
    let small = written(&mut paths, at(0))[0].0;
    paths.on_datagram_built(300);
    assert!(respond(&mut paths, small));
    let whole = written_whole(&mut paths, at(1))[0].0;
    assert!(respond(&mut paths, whole));
    assert!(paths.is_settled() && !paths.has_frames_pending());
}

#[test]
fn a_challenge_is_sent_again_with_other_data_and_any_answer_counts() {
    let (mut paths, mut random) = moved(100);
    let first = written(&mut paths, at(0))[0].0;
    let deadline = paths.deadline().unwrap();
    assert_eq!(deadline, at(100));
    assert_eq!(paths.on_deadline(deadline, &mut random), None);
    let second = written(&mut paths, deadline)[0].0;
    assert_ne!(first, second);
    assert!(respond(&mut paths, first));
}

#[test]
fn without_an_answer_the_path_before_is_used_again() {
    let (mut paths, mut random) = moved(100);
    let generation = paths.current().generation();
    let mut challenges = 0;
    let end = loop {
        challenges += written(&mut paths, at(0)).len();
        let now = paths.deadline().unwrap();
        match paths.on_deadline(now, &mut random) {
            None => {}
            Some(change) => {
                assert_eq!(change, PathChange::Reverted);
                break now;
            }
        }
    };
    // §8.2.4: the timeout is at least three times the larger of the current probe timeout and the
    // probe timeout of a new path.
    assert!(end >= at(2997), "{end:?}");
    assert_eq!(challenges, 6, "after 0, 100, 200, 400, 800 and 1600 ms");
    assert_eq!(paths.current().remote(), remote(1));
    assert!(paths.current().is_validated());
    assert!(paths.current().generation() > generation, "congestion control restarts");
    assert_eq!(paths.deadline(), None);
}

#[test]
fn without_a_path_before_the_connection_has_none() {
    let (mut paths, mut random) = paths(false);
    paths.on_datagram_received(from(2), 100);
    paths.on_peer_moved(at(0), from(2), local_id(), PTO, &mut random);
    let end = at(10_000);
    assert_eq!(paths.on_deadline(end, &mut random), Some(PathChange::Failed));
}

/// After several addresses without a response, the connection returns to the validated address.
#[test]
fn moving_on_before_validation_keeps_the_validated_path() {
    let (mut paths, mut random) = moved(100);
    paths.on_datagram_received(from(3), 100);
    paths.on_peer_moved(at(10), from(3), local_id(), PTO, &mut random);
    assert_eq!(paths.on_deadline(at(10_000), &mut random), Some(PathChange::Reverted));
    assert_eq!(paths.current().remote(), remote(1));
}

#[test]
fn back_at_the_validated_address_there_is_nothing_to_show() {
    let (mut paths, mut random) = moved(100);
    assert!(paths.on_peer_moved(at(10), from(1), local_id(), PTO, &mut random));
    assert!(paths.current().is_validated());
    assert_eq!((paths.deadline(), paths.next_off_path().is_some()), (None, false));
}

#[test]
fn only_the_port_changed() {
    let (mut paths, mut random) = paths(true);
    let mut other_port = from(1);
    other_port.remote.set_port(9);
    paths.on_datagram_received(other_port, 100);
    assert!(!paths.on_peer_moved(at(0), other_port, local_id(), PTO, &mut random));
    assert!(!paths.current().is_validated(), "it is validated all the same (§9.3)");
}

#[test]
fn a_response_goes_back_the_way_the_challenge_came() {
    let (mut paths, _) = paths(true);
    paths.on_datagram_received(from(1), 50);
    paths.on_challenge(from(1), local_id(), [1; 8]);
    paths.on_datagram_received(from(2), 50);
    paths.on_challenge(from(2), local_id(), [2; 8]);
    assert_eq!(written(&mut paths, at(0)), [([1; 8], false)]);
    let probe = paths.next_off_path().unwrap();
    assert_eq!((probe.address.remote, probe.credit), (remote(2), 150));
    assert!(matches!(probe.frame, ProbeFrame::Response(data) if data == [2; 8]));
}

/// Several challenges in one datagram do not multiply the bytes sent in response.
#[test]
fn all_responses_to_an_address_share_its_credit() {
    let (mut paths, _) = paths(true);
    paths.on_datagram_received(from(2), 400);
    for data in 0..4 {
        paths.on_challenge(from(2), local_id(), [data; 8]);
    }
    let mut sent = 0;
    while let Some(probe) = paths.next_off_path() {
        let size = probe.credit.min(1200);
        sent += size;
        paths.on_sent_off_path(probe.address.remote, size);
    }
    assert_eq!(sent, 1200);
}

#[test]
fn what_was_sent_before_a_move_counts_after_it() {
    let (mut paths, mut random) = paths(true);
    paths.on_datagram_received(from(2), 400);
    paths.on_sent_off_path(remote(2), 1000);
    paths.on_peer_moved(at(0), from(2), local_id(), PTO, &mut random);
    assert_eq!(paths.current().amplification_credit(), 200);
}

#[test]
fn a_flood_of_challenges_keeps_the_newest() {
    let (mut paths, _) = paths(true);
    for data in 0..100 {
        paths.on_challenge(from(1), local_id(), [data; 8]);
    }
    let data: Vec<u8> = written(&mut paths, at(0)).iter().map(|(data, _)| data[0]).collect();
    assert_eq!(data, [96, 97, 98, 99]);
}

/// Another local address is another path: the operating system chooses the address, recovery starts
/// again, and whether the spin bit is enabled is decided again (RFC 9000 §17.4).
#[test]
fn a_path_without_the_old_local_address_is_another_path() {
    let arrival = Arrival { local_ip: Some([10, 0, 0, 9].into()), ..from(1) };
    let mut paths = Paths::new(arrival, local_id(), true, MTU);
    paths.current_mut().spin_bit(SpinBit::Enabled, local_id(), &mut Random::from_number(1));
    assert_ne!(paths.current.spin, Spin::default());
    paths.leave_local_ip();
    let path = paths.current();
    assert_eq!((path.local_ip(), path.generation(), path.spin), (None, 1, Spin::default()));
    assert_eq!((path.remote(), path.is_validated()), (remote(1), true));
}

proptest! {
    /// Regardless of which datagrams arrive, an unvalidated address is never sent more than three
    /// times the bytes received from it, and memory is bounded.
    #[test]
    fn the_limit_holds_for_every_address(
        steps in proptest::collection::vec((0..6_u8, 1..6_u16, 1..1500_usize), 0..200)
    ) {
        let (mut paths, mut random) = paths(true);
        let mut now = at(0);
        let (mut received, mut sent) = ([0_u64; 8], [0_u64; 8]);
        for (kind, number, size) in steps {
            let index = usize::from(number);
            match kind {
                0 | 1 => {
                    paths.on_datagram_received(from(number), size);
                    received[index] += size as u64;
                    if kind == 1 {
                        paths.on_challenge(from(number), local_id(), [number as u8; 8]);
                    }
                }
                2 if number != paths.current().remote().port() - 1000 => {
                    paths.on_datagram_received(from(number), size);
                    received[index] += size as u64;
                    paths.on_peer_moved(now, from(number), local_id(), PTO, &mut random);
                }
                3 => {
                    now += Duration::from_millis(size as u64);
                    paths.on_deadline(now, &mut random);
                }
                4 => {
                    let bytes = paths.current().amplification_credit().min(size as u64);
                    paths.current_mut().on_sent(bytes);
                    if !paths.current().is_validated() {
                        sent[usize::from(paths.current().remote().port() - 1000)] += bytes;
                    }
                }
                _ => {
                    if let Some(probe) = paths.next_off_path() {
                        let bytes = probe.credit.min(1200);
                        paths.on_sent_off_path(probe.address.remote, bytes);
                        if probe.credit != u64::MAX {
                            sent[usize::from(probe.address.remote.port() - 1000)] += bytes;
                        }
                    }
                }
            }
            for address in 1..6 {
                prop_assert!(sent[address] <= 3 * received[address], "to {}", address);
            }
            prop_assert!(paths.off_path.responses.len() <= MAX_RESPONSES);
            prop_assert!(paths.off_path.elsewhere.len() <= MAX_ELSEWHERE);
        }
    }
}
