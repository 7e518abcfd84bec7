use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, PacketNumber, TransportErrorCode, Version};
use proptest::prelude::*;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, DirectionalKeys, Keys, PacketKey, PacketKeySet, Tag};

use super::{OpenError, Protection};
use crate::handshake::session::KeySchedule;
use crate::handshake::tests::{hex, vectors};
use crate::{Side, SpaceId, TransportError, initial_keys};

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);
/// The probe timeout of these tests.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(Duration::from_nanos(1)).unwrap()
}

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

fn sample_keys(version: Version, side: Side) -> Keys {
    let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
    initial_keys(version, side, &id).unwrap()
}

fn initial_of(version: Version, side: Side) -> Protection {
    let mut protection = Protection::new();
    protection.install(SpaceId::Initial, sample_keys(version, side));
    protection
}

fn initial(side: Side) -> Protection {
    initial_of(Version::V1, side)
}

fn chacha20() -> &'static dyn Algorithm {
    TLS13_CHACHA20_POLY1305_SHA256.tls13().unwrap().quic.unwrap()
}

/// A packet key whose limits are small enough to reach.
struct LimitedKey {
    key: Box<dyn PacketKey>,
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl PacketKey for LimitedKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, rustls::Error> {
        self.key.encrypt_in_place(packet_number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        self.key.decrypt_in_place(packet_number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

const CLIENT_SECRET: u8 = 0;
const SERVER_SECRET: u8 = 100;

/// Returns the packet key of a side in a key phase.
fn packet_key(secret: u8, generation: u8, limit: u64) -> Box<dyn PacketKey> {
    let byte = secret + generation;
    let key = chacha20().packet_key(AeadKey::from([byte; 32]), Iv::from([byte; 12]));
    Box::new(LimitedKey { key, confidentiality_limit: limit, integrity_limit: limit })
}

fn directional(secret: u8, limit: u64) -> DirectionalKeys {
    let header = chacha20().header_protection_key(AeadKey::from([secret + 99; 32]));
    DirectionalKeys { header, packet: packet_key(secret, 0, limit) }
}

struct Schedule {
    local: u8,
    remote: u8,
    generation: u8,
    limit: u64,
}

impl KeySchedule for Schedule {
    fn next_packet_keys(&mut self) -> PacketKeySet {
        self.generation += 1;
        PacketKeySet {
            local: packet_key(self.local, self.generation, self.limit),
            remote: packet_key(self.remote, self.generation, self.limit),
        }
    }
}

fn end_with_limit(side: Side, limit: u64) -> Protection {
    let (local, remote) = match side {
        Side::Client => (CLIENT_SECRET, SERVER_SECRET),
        Side::Server => (SERVER_SECRET, CLIENT_SECRET),
    };
    let keys = Keys { local: directional(local, limit), remote: directional(remote, limit) };
    let mut protection = Protection::new();
    let schedule = Schedule { local, remote, generation: 0, limit };
    protection.install_application(keys, Box::new(schedule));
    protection.on_handshake_complete();
    protection
}

/// Returns both endpoints of a connection whose handshake is complete.
fn ends() -> (Protection, Protection) {
    (end_with_limit(Side::Client, 1 << 20), end_with_limit(Side::Server, 1 << 20))
}

/// Seals a 1-RTT packet with a zero-length connection ID and a four-byte packet number.
fn try_seal(sender: &mut Protection, value: u32) -> Result<Vec<u8>, TransportError> {
    let mut packet = vec![0x43 | u8::from(sender.key_phase()) << 2];
    packet.extend(value.to_be_bytes());
    packet.extend([1; 20]);
    packet.extend([0; 16]);
    sender.seal(SpaceId::Application, number(value.into()), 1, 5, &mut packet)?;
    Ok(packet)
}

fn seal(sender: &mut Protection, value: u32) -> Vec<u8> {
    try_seal(sender, value).unwrap()
}

/// The result of opening a packet, without its number and payload.
#[derive(PartialEq, Eq, Debug)]
enum Told {
    Current,
    Previous,
    Updated,
}

fn open_at(receiver: &mut Protection, now: Timestamp, packet: &[u8]) -> Result<Told, OpenError> {
    let mut packet = packet.to_vec();
    let opened = receiver.open(SpaceId::Application, now, None, 1, &mut packet)?;
    assert_eq!(opened.payload, [1; 20]);
    assert!(!opened.reserved_bits_set);
    Ok(match (opened.key_phase_changed, opened.with_previous_keys) {
        (true, _) => Told::Updated,
        (false, true) => Told::Previous,
        (false, false) => Told::Current,
    })
}

fn open(receiver: &mut Protection, packet: &[u8]) -> Result<Told, OpenError> {
    open_at(receiver, NOW, packet)
}

fn acknowledge(sender: &mut Protection, value: u64) {
    sender.on_acknowledged(NOW, SpaceId::Application, number(value), false).unwrap();
}

fn is_key_update_error(result: Result<Told, OpenError>) -> bool {
    matches!(result, Err(OpenError::Close(error)) if error.code == TransportErrorCode::KEY_UPDATE_ERROR)
}

/// Returns endpoints that have each sent and received packet 0; the client's packet is
/// acknowledged.
fn talking() -> (Protection, Protection) {
    let (mut client, mut server) = ends();
    assert_eq!(open(&mut server, &seal(&mut client, 0)), Ok(Told::Current));
    assert_eq!(open(&mut client, &seal(&mut server, 0)), Ok(Told::Current));
    acknowledge(&mut client, 0);
    (client, server)
}

#[test]
fn the_sample_client_initials_are_sealed_and_opened() {
    let mut payload = hex(vectors::CLIENT_CRYPTO);
    payload.resize(1162, 0);
    for (version, header, sealed) in [
        (Version::V1, vectors::CLIENT_HEADER, vectors::CLIENT_PACKET),
        (Version::V2, vectors::CLIENT_HEADER_2, vectors::CLIENT_PACKET_2),
    ] {
        let mut packet = hex(header);
        packet.extend(&payload);
        packet.extend([0; 16]);
        let mut client = initial_of(version, Side::Client);
        client.seal(SpaceId::Initial, number(2), 18, 22, &mut packet).unwrap();
        assert_eq!(packet, hex(sealed));
        let mut server = initial_of(version, Side::Server);
        let opened = server.open(SpaceId::Initial, NOW, None, 18, &mut packet).unwrap();
        assert_eq!(opened.payload, payload);
        assert_eq!(packet[..22], hex(header));
    }
}

#[test]
fn the_sample_server_initials_are_sealed_and_opened() {
    let payload = hex(vectors::SERVER_PAYLOAD);
    for (version, header, sealed) in [
        (Version::V1, vectors::SERVER_HEADER, vectors::SERVER_PACKET),
        (Version::V2, vectors::SERVER_HEADER_2, vectors::SERVER_PACKET_2),
    ] {
        let mut packet = hex(header);
        packet.extend(&payload);
        packet.extend([0; 16]);
        let mut server = initial_of(version, Side::Server);
        server.seal(SpaceId::Initial, number(1), 18, 20, &mut packet).unwrap();
        assert_eq!(packet, hex(sealed));
        let mut client = initial_of(version, Side::Client);
        let opened = client.open(SpaceId::Initial, NOW, None, 18, &mut packet).unwrap();
        assert_eq!((opened.number, opened.payload), (number(1), &payload[..]));
    }
}

/// RFC 9369 §4.1: a server that has switched versions decrypts Initial packets of both versions.
#[test]
fn initial_packets_of_another_version_have_keys_of_their_own() {
    let mut server = initial(Side::Server);
    server.install_other_initial(sample_keys(Version::V2, Side::Server));
    server.exchange_initial();
    for _ in 0..2 {
        let open = |server: &mut Protection, is_other: bool, packet: &str| {
            let mut packet = hex(packet);
            let opened = match is_other {
                true => server.open_other_initial(NOW, None, 18, &mut packet),
                false => server.open(SpaceId::Initial, NOW, None, 18, &mut packet),
            };
            opened.map(|opened| opened.number)
        };
        let failed = Err(OpenError::Authentication);
        assert_eq!(open(&mut server, true, vectors::CLIENT_PACKET), Ok(number(2)));
        assert_eq!(open(&mut server, false, vectors::CLIENT_PACKET_2), Ok(number(2)));
        assert_eq!(open(&mut server, false, vectors::CLIENT_PACKET), failed);
        assert_eq!(open(&mut server, true, vectors::CLIENT_PACKET_2), failed);
    }
    server.discard(SpaceId::Initial);
    assert!(!server.has_other_initial());
    let mut packet = hex(vectors::CLIENT_PACKET);
    assert_eq!(server.open_other_initial(NOW, None, 18, &mut packet), Err(OpenError::NoKeys));
}

#[test]
fn the_sample_short_header_packet_is_sealed_and_opened() {
    let key: [u8; 32] =
        hex("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8").try_into().unwrap();
    let iv: [u8; 12] = hex("e0459b3474bdd0e44a41c144").try_into().unwrap();
    let header: [u8; 32] =
        hex("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4").try_into().unwrap();
    let keys = || DirectionalKeys {
        header: chacha20().header_protection_key(AeadKey::from(header)),
        packet: chacha20().packet_key(AeadKey::from(key), Iv::from(iv)),
    };
    let mut protection = Protection::new();
    protection.install_application(
        Keys { local: keys(), remote: keys() },
        Box::new(Schedule { local: 0, remote: 1, generation: 0, limit: 1 }),
    );
    let mut packet = hex("4200bff401");
    packet.extend([0; 16]);
    protection.seal(SpaceId::Application, number(654_360_564), 1, 4, &mut packet).unwrap();
    assert_eq!(packet, hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
    protection.on_handshake_complete();
    let largest = Some(number(654_360_563));
    let opened = protection.open(SpaceId::Application, NOW, largest, 1, &mut packet).unwrap();
    assert_eq!((opened.number, opened.payload), (number(654_360_564), &[1][..]));
}

#[test]
fn one_rtt_packets_wait_for_the_handshake() {
    let (mut client, mut server) = ends();
    server.is_handshake_complete = false;
    assert!(server.can_seal(SpaceId::Application) && !server.can_open(SpaceId::Application));
    let packet = seal(&mut client, 0);
    assert_eq!(open(&mut server, &packet), Err(OpenError::NoKeys));
    server.on_handshake_complete();
    assert_eq!(open(&mut server, &packet), Ok(Told::Current));
}

#[test]
fn without_keys_nothing_is_sealed_or_opened() {
    let mut protection = initial(Side::Client);
    protection.discard(SpaceId::Initial);
    let mut packet = hex(vectors::SERVER_PACKET);
    let before = packet.clone();
    for space in SpaceId::ALL {
        assert!(!protection.can_seal(space) && !protection.can_open(space));
        let opened = protection.open(space, NOW, None, 18, &mut packet);
        assert_eq!(opened, Err(OpenError::NoKeys));
        assert!(protection.seal(space, number(0), 18, 20, &mut packet).is_err());
    }
    assert_eq!(packet, before);
    assert_eq!(protection.authentication_failures(), 0);
}

#[test]
fn reserved_bits_are_reported() {
    for (space, first, is_set) in [
        (SpaceId::Application, 0x43, false),
        (SpaceId::Application, 0x4b, true),
        (SpaceId::Application, 0x53, true),
        (SpaceId::Initial, 0xc3, false),
        (SpaceId::Initial, 0xc7, true),
        (SpaceId::Initial, 0xcb, true),
    ] {
        let (mut client, mut server) = match space {
            SpaceId::Application => ends(),
            _ => (initial(Side::Client), initial(Side::Server)),
        };
        let mut packet = vec![first, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        packet.extend([0; 16]);
        client.seal(space, number(0), 1, 5, &mut packet).unwrap();
        let opened = server.open(space, NOW, None, 1, &mut packet).unwrap();
        assert_eq!(opened.reserved_bits_set, is_set, "{first:#x}");
    }
}

#[test]
fn any_changed_bit_fails_authentication_and_is_counted() {
    let (mut client, mut server) = ends();
    let packet = seal(&mut client, 0);
    for bit in 0..packet.len() * 8 {
        let mut changed = packet.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&mut server, &changed), Err(OpenError::Authentication), "bit {bit}");
    }
    assert_eq!(server.authentication_failures(), packet.len() as u64 * 8);
    assert_eq!(open(&mut server, &packet), Ok(Told::Current));
}

#[test]
fn too_many_forgeries_close_the_connection() {
    let mut client = end_with_limit(Side::Client, 10);
    let mut server = end_with_limit(Side::Server, 3);
    let mut packet = seal(&mut client, 0);
    packet[20] ^= 1;
    for _ in 0..3 {
        assert_eq!(open(&mut server, &packet), Err(OpenError::Authentication));
    }
    let Err(OpenError::Close(error)) = open(&mut server, &packet) else { panic!() };
    assert_eq!(error.code, TransportErrorCode::AEAD_LIMIT_REACHED);
}

#[test]
fn an_update_is_due_long_before_the_limit_of_the_keys() {
    let mut client = end_with_limit(Side::Client, 10);
    for value in 0..10 {
        assert_eq!(client.is_update_due(), value >= 5);
        seal(&mut client, value);
    }
    let error = try_seal(&mut client, 10).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::AEAD_LIMIT_REACHED);
    acknowledge(&mut client, 3);
    assert!(client.initiate_update(NOW, true));
    assert!(!client.is_update_due());
    seal(&mut client, 10);
    client.set_update_after(Some(1));
    assert!(client.is_update_due());
}

#[test]
fn an_update_is_initiated_and_answered() {
    let (mut client, mut server) = talking();
    assert!(client.initiate_update(NOW, true));
    assert!(client.key_phase());
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Updated));
    assert!(server.key_phase());
    assert_eq!(open(&mut client, &seal(&mut server, 1)), Ok(Told::Current));
    assert_eq!((client.key_updates(), server.key_updates()), (1, 1));

    acknowledge(&mut server, 1);
    let later = NOW + PROBE_TIMEOUT * 3;
    assert!(!server.initiate_update(just_before(later), true));
    assert!(server.initiate_update(later, true));
    assert!(!server.key_phase());
    assert_eq!(open_at(&mut client, later, &seal(&mut server, 2)), Ok(Told::Updated));
    assert_eq!(open_at(&mut server, later, &seal(&mut client, 2)), Ok(Told::Current));
}

#[test]
fn an_update_needs_confirmation_and_acknowledgment() {
    let (mut client, mut server) = ends();
    assert!(!client.initiate_update(NOW, true), "nothing was sent");
    seal(&mut client, 0);
    assert!(!client.initiate_update(NOW, true), "nothing was acknowledged");
    acknowledge(&mut client, 0);
    assert!(!client.initiate_update(NOW, false), "the handshake is not confirmed");
    assert!(client.initiate_update(NOW, true));
    seal(&mut client, 1);
    acknowledge(&mut client, 0);
    let far = NOW + PROBE_TIMEOUT * 100;
    assert!(!client.initiate_update(far, true), "only the old phase was acknowledged");
    assert!(!server.initiate_update(NOW, true));
}

#[test]
fn both_ends_may_update_at_once() {
    let (mut client, mut server) = talking();
    acknowledge(&mut server, 0);
    assert!(client.initiate_update(NOW, true) && server.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Current));
    assert_eq!(open(&mut client, &seal(&mut server, 1)), Ok(Told::Current));
    assert_eq!((client.key_updates(), server.key_updates()), (1, 1));
}

#[test]
fn delayed_packets_are_opened_with_the_previous_keys_for_a_while() {
    let (mut client, mut server) = talking();
    let delayed: Vec<_> = (1..4).map(|value| seal(&mut client, value)).collect();
    assert!(client.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 4)), Ok(Told::Updated));
    assert_eq!(open(&mut server, &delayed[1]), Ok(Told::Previous));
    assert_eq!(open(&mut server, &delayed[0]), Ok(Told::Previous));
    assert_eq!(open(&mut server, &seal(&mut client, 5)), Ok(Told::Current));

    let deadline = NOW + PROBE_TIMEOUT * 3;
    assert_eq!(server.deadline(), Some(deadline));
    server.on_deadline(just_before(deadline));
    assert_eq!(server.deadline(), Some(deadline));
    server.on_deadline(deadline);
    assert_eq!(server.deadline(), None);
    assert_eq!(open(&mut server, &delayed[2]), Err(OpenError::Authentication));
    assert_eq!(open(&mut server, &seal(&mut client, 6)), Ok(Told::Current));
}

#[test]
fn old_keys_are_kept_for_three_probe_timeouts() {
    let (mut client, mut server) = talking();
    server.set_probe_timeout(Duration::from_millis(40));
    assert!(client.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Updated));
    assert_eq!(server.deadline(), Some(NOW + Duration::from_millis(120)));
}

#[test]
fn the_initiator_keeps_the_old_keys_until_it_is_answered() {
    let (mut client, mut server) = talking();
    assert!(client.initiate_update(NOW, true));
    assert_eq!(client.deadline(), None);
    for value in 1..4 {
        assert_eq!(open(&mut client, &seal(&mut server, value)), Ok(Told::Previous));
    }
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Updated));
    assert_eq!(open(&mut client, &seal(&mut server, 4)), Ok(Told::Current));
    assert_eq!(client.deadline(), Some(NOW + PROBE_TIMEOUT * 3));
}

#[test]
fn an_update_before_any_packet_could_be_acknowledged_is_an_error() {
    let (mut client, mut server) = ends();
    assert_eq!(open(&mut server, &seal(&mut client, 0)), Ok(Told::Current));
    acknowledge(&mut client, 0);
    assert!(client.initiate_update(NOW, true));
    assert!(is_key_update_error(open(&mut server, &seal(&mut client, 1))));
}

#[test]
fn a_second_update_without_waiting_is_an_error() {
    let (mut client, mut server) = talking();
    assert!(client.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Updated));
    acknowledge(&mut client, 1);
    assert!(client.initiate_update(NOW + PROBE_TIMEOUT * 3, true));
    assert!(is_key_update_error(open(&mut server, &seal(&mut client, 2))));
}

#[test]
fn old_keys_between_newer_ones_are_an_error() {
    let (mut client, mut server) = talking();
    let stubborn = seal(&mut client, 7);
    assert!(client.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 5)), Ok(Told::Updated));
    assert_eq!(open(&mut server, &seal(&mut client, 9)), Ok(Told::Current));
    assert!(is_key_update_error(open(&mut server, &stubborn)));
}

#[test]
fn newer_keys_below_old_ones_are_an_error() {
    let (mut client, mut server) = talking();
    let stubborn = seal(&mut client, 7);
    assert!(client.initiate_update(NOW, true));
    assert_eq!(open(&mut server, &seal(&mut client, 9)), Ok(Told::Updated));
    assert_eq!(open(&mut server, &stubborn), Ok(Told::Previous));
    assert!(is_key_update_error(open(&mut server, &seal(&mut client, 5))));
}

#[test]
fn acknowledging_an_update_without_following_it_is_an_error() {
    let (mut client, _) = talking();
    assert!(client.initiate_update(NOW, true));
    seal(&mut client, 1);
    let acknowledged = |client: &mut Protection, value| {
        client.on_acknowledged(NOW, SpaceId::Application, number(value), true)
    };
    assert_eq!(acknowledged(&mut client, 0), Ok(()));
    let error = acknowledged(&mut client, 1).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::KEY_UPDATE_ERROR);
}

#[test]
fn a_forged_key_phase_changes_nothing() {
    let (mut client, mut server) = talking();
    // An attacker who has the header protection key, but not the packet keys, can set the bit.
    let mut forged = vec![0x47, 0, 0, 0, 1];
    forged.extend([9; 36]);
    let key = directional(CLIENT_SECRET, 1).header;
    let (header, sample) = forged.split_at_mut(5);
    let (first, packet_number) = header.split_first_mut().unwrap();
    key.encrypt_in_place(&sample[..16], first, packet_number).unwrap();
    assert_eq!(open(&mut server, &forged), Err(OpenError::Authentication));
    assert!(!server.key_phase());
    assert_eq!(open(&mut server, &seal(&mut client, 1)), Ok(Told::Current));
}

#[test]
fn a_packet_too_short_for_a_sample_is_left_alone() {
    let (mut client, mut server) = ends();
    let packet = seal(&mut client, 0);
    for length in 0..21 {
        assert_eq!(open(&mut server, &packet[..length]), Err(OpenError::TooShort));
    }
    assert_eq!(server.authentication_failures(), 0);
}

proptest! {
    #[test]
    fn no_bytes_make_opening_panic(
        mut packet in proptest::collection::vec(any::<u8>(), 0..100),
        offset in prop_oneof![0_usize..40, Just(usize::MAX)],
        largest in proptest::option::of(0..=PacketNumber::MAX.get()),
    ) {
        let (_, mut server) = ends();
        server.install(SpaceId::Initial, initial_keys(Version::V1, Side::Server, &ConnectionId::default()).unwrap());
        for space in SpaceId::ALL {
            let opened = server.open(space, NOW, largest.map(number), offset, &mut packet);
            prop_assert!(opened.is_err());
        }
    }

    #[test]
    fn no_offsets_make_sealing_panic(
        length in 0_usize..60,
        packet_number_offset in prop_oneof![0_usize..40, Just(usize::MAX)],
        payload_offset in prop_oneof![0_usize..40, Just(usize::MAX)],
    ) {
        let (mut client, _) = ends();
        let mut packet = vec![0x43; length];
        let space = SpaceId::Application;
        let _ = client.seal(space, number(0), packet_number_offset, payload_offset, &mut packet);
    }
}
