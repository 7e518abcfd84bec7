use core::net::SocketAddr;

use super::*;
use crate::address::SocketIndex;
use crate::path::MtuConfig;

const PTO: Duration = Duration::from_millis(100);
const MTU: MtuConfig = MtuConfig { initial: 1200, maximum: 1200, is_enabled: false };

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn paths() -> (Paths, Random) {
    let remote = SocketAddr::from(([10, 0, 0, 1], 443));
    let arrival =
        Arrival { remote, socket: SocketIndex(0), local_ip: None, ecn: EcnCodepoint::NotEct };
    let paths = Paths::new(arrival, ConnectionId::default(), true, MTU).of_client();
    (paths, Random::from_number(1))
}

fn second() -> PathAddress {
    PathAddress { socket: SocketIndex(1), remote: SocketAddr::from(([10, 0, 0, 1], 443)) }
}

fn begin(paths: &mut Paths, random: &mut Random) {
    paths.begin_candidate(at(0), (second(), None), ConnectionId::default(), true, PTO, random);
}

fn challenge(paths: &mut Paths, now: Timestamp) -> Option<[u8; 8]> {
    match paths.next_candidate_probe(now)?.frame {
        ProbeFrame::Challenge(data) => Some(data),
        ProbeFrame::Response(_) => panic!("no challenge was received"),
    }
}

#[test]
fn the_current_path_stays_until_the_candidate_is_adopted() {
    let (mut paths, mut random) = paths();
    begin(&mut paths, &mut random);
    let data = challenge(&mut paths, at(0)).unwrap();
    paths.on_candidate_sent(1200);
    assert_eq!(paths.current().socket(), SocketIndex(0));
    assert!(paths.holds(second()));
    let ready = Some(CandidateNews::Ready);
    assert_eq!(paths.on_candidate_response(at(50), [9; 8], PTO, &mut random), None);
    assert_eq!(paths.on_candidate_response(at(50), data, PTO, &mut random), ready);
    assert_eq!(paths.adopt_candidate(at(50), PTO), Some(false));
    assert_eq!((paths.current().address(), paths.current().generation()), (second(), 1));
    assert_eq!(paths.sockets().count(), 2);
    assert_eq!(paths.deadline(), Some(at(150)));
    assert_eq!(paths.take_drained(at(149)), None);
    assert_eq!(paths.take_drained(at(150)).map(|drained| drained.socket), Some(SocketIndex(0)));
    assert_eq!(paths.deadline(), None);
}

/// §8.2.1, §8.2.4: challenges are sent at intervals that double, each with its own data; a
/// candidate that does not answer is dropped.
#[test]
fn a_candidate_without_a_response_is_given_up() {
    let (mut paths, mut random) = paths();
    begin(&mut paths, &mut random);
    let mut sent = std::collections::BTreeSet::new();
    let mut now = at(0);
    let news = loop {
        sent.extend(challenge(&mut paths, now));
        assert_eq!(challenge(&mut paths, now), None, "one at a time");
        now = paths.deadline().unwrap();
        if let Some(news) = paths.on_candidate_deadline(now, &mut random) {
            break news;
        }
    };
    assert_eq!((news, sent.len()), (CandidateNews::Failed(second()), 5));
    assert_eq!((paths.candidate(), paths.deadline()), (None, None));
}

/// §8.2.1: the response to a challenge in a small datagram does not validate the path MTU.
#[test]
fn a_small_challenge_is_followed_by_another() {
    let (mut paths, mut random) = paths();
    begin(&mut paths, &mut random);
    let data = challenge(&mut paths, at(0)).unwrap();
    paths.on_candidate_sent(600);
    assert_eq!(paths.on_candidate_response(at(10), data, PTO, &mut random), None);
    assert!(challenge(&mut paths, at(10)).is_some());
}
