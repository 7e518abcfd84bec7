//! Property tests with arbitrary input in arbitrary chunks.

use proptest::prelude::*;

use super::pair::{Alone, control, data, events, frame, headers, plain, request, response};
use crate::{Config, Event, Role, Transport};

const BUFFERED: usize = 2000;

fn config() -> Config {
    Config { max_buffered_field_sections: BUFFERED, max_field_section_size: 500, ..plain() }
}

/// An action of the peer.
#[derive(Clone, Debug)]
enum Step {
    Unidirectional(Vec<u8>),
    Bidirectional(Vec<u8>),
    Say(usize, Vec<u8>),
    Fin(usize),
    Reset(usize),
    Stop(usize),
    Read(usize, usize),
}

/// Generates arbitrary bytes, or almost valid frames.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..30);
    let small = bytes.clone().prop_flat_map(|payload| {
        (0u64..14).prop_map(move |frame_type| frame(frame_type, &payload))
    });
    let known = prop_oneof![
        Just(request("POST", &[])),
        Just(request("GET", &[("content-length", "3")])),
        Just(response("200", &[])),
        Just(response("103", &[])),
        Just(headers(&[("x", "1")])),
        Just(data(b"abc")),
        Just(control(&[])),
        Just(control(&frame(0x07, &[0]))),
        Just(vec![0x02]),
        Just(vec![0x03, 0x40]),
        // A table of 220 bytes with `:authority: a.example`, and requests that reference it.
        Just(b"\x02\x3f\xbd\x01\xc0\x09a.example".to_vec()),
        Just(b"\xc0\x09a.example\x00".to_vec()),
        Just(frame(0x01, &[0x02, 0x00, 0xd1, 0xd7, 0x80, 0xc1])),
        Just(frame(0x01, &[0x03, 0x80, 0xd1, 0xd7, 0x10, 0xc1])),
        Just(control(&frame(0x04, &[0x01, 0x40, 0xdc, 0x07, 0x04]))),
        Just(frame(0xf0700, b"\x00u=1, i")),
        Just(frame(0xf0700, b"\x08u=9")),
        Just(vec![0x01, 0x41]),
    ];
    prop_oneof![
        bytes,
        small,
        known.clone(),
        known.prop_flat_map(|whole| {
            (0..=whole.len()).prop_map(move |length| whole[..length].to_vec())
        })
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => piece().prop_map(Step::Unidirectional),
        3 => piece().prop_map(Step::Bidirectional),
        5 => (0usize..8, piece()).prop_map(|(stream, bytes)| Step::Say(stream, bytes)),
        2 => (0usize..8).prop_map(Step::Fin),
        1 => (0usize..8).prop_map(Step::Reset),
        1 => (0usize..8).prop_map(Step::Stop),
        3 => (0usize..8, 0usize..50).prop_map(|(stream, max)| Step::Read(stream, max)),
    ]
}

fn take(alone: &mut Alone, step: Step) {
    let streams = alone.link.streams();
    let is_server = alone.connection.role() == Role::Client;
    let nth = |place: usize| streams.get(place % streams.len().max(1)).copied();
    let can_send = |alone: &mut Alone, stream: u64| {
        let half = alone.link.half(stream, is_server);
        !half.finished && half.reset.is_none() && half.stopped.is_none()
    };
    match step {
        Step::Unidirectional(bytes) => {
            alone.open_unidirectional(&bytes);
        }
        // If a server opened a bidirectional stream, that would be an immediate connection error,
        // which would hide everything else.
        Step::Bidirectional(bytes) if !is_server => {
            alone.open_bidirectional(&bytes);
        }
        Step::Bidirectional(bytes) => {
            if can_send(alone, 0) {
                alone.say(0, &bytes);
            }
        }
        Step::Say(place, bytes) => {
            if let Some(stream) = nth(place)
                && can_send(alone, stream)
            {
                alone.say(stream, &bytes);
            }
        }
        Step::Fin(place) => {
            if let Some(stream) = nth(place)
                && can_send(alone, stream)
            {
                alone.fin(stream);
            }
        }
        Step::Reset(place) => {
            if let Some(stream) = nth(place) {
                alone.peer_end().reset(stream, 7);
            }
        }
        Step::Stop(place) => {
            if let Some(stream) = nth(place) {
                alone.peer_end().stop_sending(stream, 7);
            }
        }
        Step::Read(place, max) => {
            if let Some(stream) = nth(place) {
                let (connection, mut end) = alone.split();
                let _ = connection.read_body(&mut end, stream, max);
            }
        }
    }
}

/// Returns the connection's events for `stream`, with content joined and without `Data`.
fn heard(role: Role, stream: &[u8], sizes: &[usize], fin: bool) -> Vec<String> {
    let mut alone = match role {
        Role::Server => Alone::server(),
        Role::Client => Alone::client(),
    };
    alone.link.sizes = sizes.to_vec();
    let id = match role {
        Role::Server => alone.open_bidirectional(&[]),
        Role::Client => 0,
    };
    // Sends chunks that a transport would not return together.
    for part in stream.chunks(sizes[0]) {
        alone.say(id, part);
    }
    if fin {
        alone.fin(id);
    }
    let (mut log, mut content) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut happened = alone.events();
        let (connection, mut end) = alone.split();
        while let Some(chunk) = connection.read_body(&mut end, id, sizes[sizes.len() - 1]) {
            content.extend_from_slice(&chunk);
        }
        happened.extend(events(&mut alone.connection));
        for event in happened {
            if !matches!(event, Event::Data { .. }) {
                log.push(format!("{event:?}"));
            }
        }
    }
    // Content before an error may have been delivered in part.
    if alone.connection.error().is_none()
        && alone.link.half(id, role == Role::Server).reset.is_none()
    {
        log.push(format!("{content:?}"));
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn anything_is_survived_within_the_limits(
        is_server in any::<bool>(),
        method in prop_oneof![Just("GET"), Just("HEAD"), Just("CONNECT")],
        sizes in proptest::collection::vec(1usize..20, 1..4),
        steps in proptest::collection::vec(step(), 0..25),
    ) {
        let mut alone = if is_server {
            Alone::new(Role::Server, config())
        } else {
            Alone::client_with(method)
        };
        alone.link.sizes = sizes;
        let mut closed = 0;
        for step in steps {
            take(&mut alone, step);
            let heard = alone.events();
            closed += heard.iter().filter(|event| matches!(event, Event::Closed(_))).count();
            prop_assert!(alone.connection.buffered <= BUFFERED);
        }
        prop_assert_eq!(closed, usize::from(alone.connection.is_closed()));
        prop_assert_eq!(alone.link.closed.is_some(), alone.connection.is_closed());
    }

    #[test]
    fn any_cut_means_the_same(
        is_server in any::<bool>(),
        pieces in proptest::collection::vec(piece(), 0..6),
        sizes in proptest::collection::vec(1usize..30, 1..5),
        fin in any::<bool>(),
    ) {
        let role = if is_server { Role::Server } else { Role::Client };
        let stream = pieces.concat();
        let whole = heard(role, &stream, &[usize::MAX], fin);
        prop_assert_eq!(heard(role, &stream, &[1], fin), whole.clone());
        prop_assert_eq!(heard(role, &stream, &sizes, fin), whole);
    }

    /// Valid messages are included, so that the test does not only compare errors.
    #[test]
    fn any_cut_of_a_message_means_the_same(
        content in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..5),
        sizes in proptest::collection::vec(1usize..30, 1..5),
        missing in 0usize..3,
    ) {
        let length = content.iter().map(Vec::len).sum::<usize>() + missing;
        let mut stream = request("POST", &[("content-length", &length.to_string())]);
        for part in &content {
            stream.extend(data(part));
            stream.extend(frame(0x21, part));
        }
        stream.extend(headers(&[("x", "1")]));
        let whole = heard(Role::Server, &stream, &[usize::MAX], true);
        let last = &whole[whole.len() - usize::from(missing == 0) - 1];
        prop_assert_eq!(last.starts_with("Finished"), missing == 0, "{:?}", whole);
        prop_assert_eq!(heard(Role::Server, &stream, &[1], true), whole.clone());
        prop_assert_eq!(heard(Role::Server, &stream, &sizes, true), whole);
    }
}
