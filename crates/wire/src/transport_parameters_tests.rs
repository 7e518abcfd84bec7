use core::net::{SocketAddrV4, SocketAddrV6};

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::Version;
use crate::strategies::{bytes, connection_id, hex, reset_token, varint};

fn from_server(text: &str) -> Result<TransportParameters, DecodeError> {
    TransportParameters::decode(&hex(text), Initiator::Server)
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut output = Vec::new();
    parameters.encode(&mut output, None);
    output
}

fn invalid(field: &'static str, problem: &'static str) -> Result<TransportParameters, DecodeError> {
    Err(DecodeError::invalid(field, problem))
}

const OUT_OF_RANGE: &str = "is outside the range in RFC 9000 §18.2";
const EMPTY: &str = "is empty";
const LONG: &str = "has trailing bytes";
const LONG_ID: &str = "is longer than 20 bytes";
const WITHOUT_IDS: &str = "was sent by a server with a zero-length connection ID";
const FROM_CLIENT: &str = "was sent by a client";

#[test]
fn absent_parameters_have_their_defaults() {
    let parameters = from_server("").unwrap();
    assert_eq!(parameters, TransportParameters::default());
    assert_eq!(parameters.max_udp_payload_size.get(), 65527);
    assert_eq!(parameters.ack_delay_exponent.get(), 3);
    assert_eq!(parameters.max_ack_delay.get(), 25);
    assert_eq!(parameters.active_connection_id_limit.get(), 2);
    assert_eq!(encoded(&parameters), []);
}

/// The quic_transport_parameters extension in the ClientHello of RFC 9001 §A.2.
#[test]
fn client_hello_of_the_rfc() {
    let bytes = hex("0408ffffffffffffffff 05048000ffff 07048000ffff 0801 10 0104 80007530
         0901 10 0f08 8394c8f03e515708 06048000ffff");
    let parameters = TransportParameters::decode(&bytes, Initiator::Client).unwrap();
    let number = |value| VarInt::new(value).unwrap();
    let expected = TransportParameters {
        initial_max_data: VarInt::MAX,
        initial_max_stream_data_bidi_local: number(0xffff),
        initial_max_stream_data_bidi_remote: number(0xffff),
        initial_max_stream_data_uni: number(0xffff),
        initial_max_streams_bidi: number(16),
        initial_max_streams_uni: number(16),
        max_idle_timeout: number(30_000),
        initial_source_connection_id: Some(ConnectionId::new(&hex("8394c8f03e515708")).unwrap()),
        ..TransportParameters::default()
    };
    assert_eq!(parameters, expected);
}

#[test]
fn forbidden_values_are_errors() {
    assert!(from_server("0302 44b0").is_ok());
    assert_eq!(from_server("0302 44af"), invalid("max_udp_payload_size", OUT_OF_RANGE));
    assert!(from_server("0a01 14").is_ok());
    assert_eq!(from_server("0a01 15"), invalid("ack_delay_exponent", OUT_OF_RANGE));
    assert!(from_server("0b02 7fff").is_ok());
    assert_eq!(from_server("0b04 80004000"), invalid("max_ack_delay", OUT_OF_RANGE));
    assert!(from_server("0e01 02").is_ok());
    assert_eq!(from_server("0e01 01"), invalid("active_connection_id_limit", OUT_OF_RANGE));
    assert_eq!(from_server("0e01 00"), invalid("active_connection_id_limit", OUT_OF_RANGE));
    assert!(from_server("0808 d000000000000000").is_ok());
    assert_eq!(
        from_server("0808 d000000000000001"),
        invalid("initial_max_streams_bidi", OUT_OF_RANGE)
    );
    assert!(from_server("0908 d000000000000000").is_ok());
    assert_eq!(
        from_server("0908 d000000000000001"),
        invalid("initial_max_streams_uni", OUT_OF_RANGE)
    );
}

#[test]
fn wrong_lengths_are_errors() {
    assert_eq!(from_server("0102 0505"), invalid("max_idle_timeout", LONG));
    assert_eq!(from_server("0c01 00"), invalid("disable_active_migration", LONG));
    let cut = |field| Err(DecodeError::Truncated { field });
    assert_eq!(from_server("0100"), cut("max_idle_timeout"));
    assert_eq!(from_server("0101 40"), cut("max_idle_timeout"));
    assert_eq!(from_server(&format!("020f {}", "aa".repeat(15))), cut("stateless_reset_token"));
    let long = format!("0211 {}", "aa".repeat(17));
    assert_eq!(from_server(&long), invalid("stateless_reset_token", LONG));
    let long = format!("0f15 {}", "aa".repeat(21));
    assert_eq!(from_server(&long), invalid("initial_source_connection_id", LONG_ID));
    assert_eq!(from_server("2002 05 00"), invalid("max_datagram_frame_size", LONG));
    assert_eq!(from_server("0102 05"), cut("Transport Parameter Value"));
    assert_eq!(from_server("01 ffffffffffffffff 05"), cut("Transport Parameter Value"));
    assert_eq!(from_server("01"), cut("Transport Parameter Value"));
    assert_eq!(from_server("40"), cut("Transport Parameter ID"));
}

#[test]
fn a_parameter_twice() {
    let twice = |id| Err(DecodeError::DuplicateParameter { id });
    assert_eq!(from_server("0101 05 0101 05"), twice(0x01));
    assert_eq!(from_server("0c00 0101 05 0c00"), twice(0x0c));
    assert_eq!(from_server("2001 05 2001 06"), twice(0x20));
    assert_eq!(from_server("1104 00000001 1104 00000001"), twice(0x11));
    assert_eq!(from_server("6ab200 3f00 3f00 6ab200"), twice(0x2ab2));
    // The identifier in another encoding is the same identifier.
    assert_eq!(from_server("0101 05 400101 05"), twice(0x01));
}

#[test]
fn unknown_parameters_are_ignored() {
    let parameters = from_server("1b03 010203 0101 05 4040 00 ffffffffffffffff 01 00 3f00 1200");
    assert_eq!(parameters.unwrap().max_idle_timeout.get(), 5);
}

#[test]
fn a_client_must_not_send_parameters_of_servers() {
    let token = "aa".repeat(16);
    for (name, bytes) in [
        ("original_destination_connection_id", "0001 05".to_string()),
        ("stateless_reset_token", format!("0210 {token}")),
        ("preferred_address", format!("0d2a {} 01 05 {token}", "01".repeat(24))),
        ("retry_source_connection_id", "1001 05".to_string()),
    ] {
        assert!(from_server(&bytes).is_ok(), "{name}");
        let result = TransportParameters::decode(&hex(&bytes), Initiator::Client);
        assert_eq!(result, invalid(name, FROM_CLIENT));
    }
}

#[test]
fn preferred_address_on_the_wire() {
    let token = "aa".repeat(16);
    let ipv6 = "20010db8000000000000000000000001 1f90";
    let bytes = format!("0d2b c0000201 01bb {ipv6} 02 bbcc {token}");
    let parameters = from_server(&bytes).unwrap();
    let expected = PreferredAddress {
        ipv4: Some("192.0.2.1:443".parse().unwrap()),
        ipv6: Some("[2001:db8::1]:8080".parse().unwrap()),
        connection_id: ConnectionId::new(&[0xbb, 0xcc]).unwrap(),
        stateless_reset_token: ResetToken::new([0xaa; 16]),
    };
    assert_eq!(parameters.preferred_address.as_deref(), Some(&expected));
    assert_eq!(encoded(&parameters), hex(&bytes));

    // Zeros represent an address family that the server does not offer.
    let bytes = format!("0d2b 00000000 0000 {ipv6} 02 bbcc {token}");
    let parameters = from_server(&bytes).unwrap();
    assert_eq!(parameters.preferred_address.as_ref().unwrap().ipv4, None);
    assert_eq!(encoded(&parameters), hex(&bytes));

    // An address or a port alone is not zero.
    for (ipv4, ipv6) in [("00000000 01bb", "00 0001"), ("c0000201 0000", "01 0000")] {
        let bytes = format!("0d2b {ipv4} {}{ipv6} 02 bbcc {token}", "00".repeat(15));
        let parameters = from_server(&bytes).unwrap();
        let preferred = parameters.preferred_address.as_ref().unwrap();
        assert!(preferred.ipv4.is_some() && preferred.ipv6.is_some(), "{preferred:?}");
        assert_eq!(encoded(&parameters), hex(&bytes));
    }
}

#[test]
fn preferred_address_needs_connection_ids() {
    let token = "aa".repeat(16);
    let address = "01".repeat(24);
    let empty = format!("0d29 {address} 00 {token}");
    assert_eq!(from_server(&empty), invalid("preferred_address Connection ID", EMPTY));
    let long = format!("0d3e {address} 15 {} {token}", "bb".repeat(21));
    assert_eq!(from_server(&long), invalid("preferred_address Connection ID", LONG_ID));
    // The parameter may precede or follow the one with the server's own zero-length connection ID.
    let bytes = format!("0d2a {address} 01 bb {token} 0f00");
    assert_eq!(from_server(&bytes), invalid("preferred_address", WITHOUT_IDS));
    let bytes = format!("0f00 0d2a {address} 01 bb {token}");
    assert_eq!(from_server(&bytes), invalid("preferred_address", WITHOUT_IDS));
    assert!(from_server(&format!("0f01 cc 0d2a {address} 01 bb {token}")).is_ok());
    let trailing = format!("0d2b {address} 01 bb {token} 00");
    assert_eq!(from_server(&trailing), invalid("preferred_address", LONG));
}

#[test]
fn grease_comes_last_and_is_ignored() {
    let parameters =
        TransportParameters { max_idle_timeout: VarInt::from_u32(9), ..Default::default() };
    let mut output = vec![0xee];
    parameters.encode(&mut output, Some((VarInt::from_u32(27 + 31), &[1, 2])));
    assert_eq!(output, hex("ee 0101 09 3a02 0102"));
    let decoded = TransportParameters::decode(&output[1..], Initiator::Client);
    assert_eq!(decoded, Ok(parameters));
}

#[test]
fn version_information_on_the_wire() {
    let parameters = from_server("110c 6b3343cf 00000001 6b3343cf").unwrap();
    let expected =
        VersionInformation { chosen: Version::V2, available: vec![Version::V1, Version::V2] };
    assert_eq!(parameters.version_information, Some(expected));
    assert_eq!(encoded(&parameters), hex("110c 6b3343cf 00000001 6b3343cf"));
    // A server may be about to remove the version that it has chosen, even if that is its only one.
    let parameters = from_server("1104 6b3343cf").unwrap();
    let expected = VersionInformation { chosen: Version::V2, available: Vec::new() };
    assert_eq!(parameters.version_information, Some(expected));
    assert_eq!(from_server("").unwrap().version_information, None);
}

/// Tests the rules of RFC 9368 §4.
#[test]
fn version_information_that_cannot_be_parsed() {
    let from = |text: &str, from| TransportParameters::decode(&hex(text), from);
    for initiator in [Initiator::Client, Initiator::Server] {
        let short = Err(DecodeError::Truncated { field: "version_information" });
        assert_eq!(from("1100", initiator), short);
        for text in ["1103 000000", "1105 0000000100", "110b 00000001 00000001 000000"] {
            assert_eq!(
                from(text, initiator),
                invalid("version_information", "ends in the middle of a version")
            );
        }
        for text in ["1108 00000000 00000001", "110c 00000001 00000001 00000000"] {
            assert_eq!(from(text, initiator), invalid("version_information", "contains version 0"));
        }
    }
    let unlisted = "110c 00000001 6b3343cf 1a2a3a4a";
    let problem = "does not list the chosen version";
    assert_eq!(from(unlisted, Initiator::Client), invalid("version_information", problem));
    assert!(from(unlisted, Initiator::Server).is_ok());
}

#[test]
fn more_versions_than_are_kept() {
    let list =
        |count: usize| format!("11 {:04x} {}", 0x4000 | (4 * count), "00000001".repeat(count));
    assert!(from_server(&list(65)).is_ok());
    let too_many = invalid("version_information", "lists more than 64 versions");
    assert_eq!(from_server(&list(66)), too_many);
}

/// Tests the parameter of RFC 9287 §3.
#[test]
fn grease_quic_bit_on_the_wire() {
    let parameters = from_server("6ab2 00").unwrap();
    assert!(parameters.grease_quic_bit);
    assert_eq!(encoded(&parameters), hex("6ab2 00"));
    assert_eq!(from_server("6ab2 01 00"), invalid("grease_quic_bit", LONG));
}

/// Tests the parameter of draft-ietf-quic-ack-frequency §3.
#[test]
fn min_ack_delay_on_the_wire() {
    let parameters = from_server("c0000000ff04de1b 02 43e8").unwrap();
    assert_eq!(parameters.min_ack_delay, VarInt::new(1000));
    assert_eq!(encoded(&parameters), hex("c0000000ff04de1b 02 43e8"));
    assert_eq!(from_server("c0000000ff04de1b 01 00").unwrap().min_ack_delay, Some(VarInt::ZERO));
    assert_eq!(from_server("c0000000ff04de1b 03 43e8 00"), invalid("min_ack_delay", LONG));
    let empty = DecodeError::Truncated { field: "min_ack_delay" };
    assert_eq!(from_server("c0000000ff04de1b 00"), Err(empty));
    let twice = DecodeError::DuplicateParameter { id: 0xff04_de1b };
    assert_eq!(from_server("c0000000ff04de1b 01 00 c0000000ff04de1b 01 00"), Err(twice));
}

#[test]
fn min_ack_delay_is_no_longer_than_max_ack_delay() {
    let above = invalid("min_ack_delay", "exceeds max_ack_delay");
    // 25,000 and 25,001 microseconds with the default max_ack_delay of 25 ms.
    assert!(from_server("c0000000ff04de1b 04 800061a8").is_ok());
    assert_eq!(from_server("c0000000ff04de1b 04 800061a9"), above);
    // The parameter may precede the max_ack_delay with which it is compared.
    assert!(from_server("c0000000ff04de1b 04 800061a9 0b01 1a").is_ok());
    assert_eq!(from_server("c0000000ff04de1b 04 800061a8 0b01 18"), above);
}

/// Tests the parameter of draft-ietf-quic-reliable-stream-reset §3.
#[test]
fn reset_stream_at_on_the_wire() {
    for either in ["c017f7586d2cb571 00", "1d 00"] {
        let parameters = from_server(either).unwrap();
        assert!(parameters.reset_stream_at);
        assert_eq!(encoded(&parameters), hex("c017f7586d2cb571 00 1d 00"));
    }
    assert_eq!(from_server("c017f7586d2cb571 01 00"), invalid("reset_stream_at", LONG));
    assert_eq!(from_server("1d 01 00"), invalid("reset_stream_at", LONG));
    let twice = DecodeError::DuplicateParameter { id: 0x17_f758_6d2c_b571 };
    assert_eq!(from_server("c017f7586d2cb571 00 c017f7586d2cb571 00"), Err(twice));
}

fn version_information() -> impl Strategy<Value = VersionInformation> {
    let version = || (1..u32::MAX).prop_map(Version);
    (version(), proptest::collection::vec(version(), 0..=VersionInformation::MAX_AVAILABLE))
        .prop_map(|(chosen, available)| VersionInformation { chosen, available })
}

fn preferred_address() -> impl Strategy<Value = PreferredAddress> {
    (option::of(any::<([u8; 4], u16)>()), option::of(any::<([u8; 16], u16)>()))
        .prop_flat_map(|addresses| (Just(addresses), connection_id(), reset_token()))
        .prop_filter("needs a connection ID", |(_, id, _)| !id.is_empty())
        .prop_map(|((ipv4, ipv6), connection_id, stateless_reset_token)| PreferredAddress {
            // An address that is present must have a port.
            ipv4: ipv4.map(|(ip, port)| SocketAddrV4::new(ip.into(), port.max(1))),
            ipv6: ipv6.map(|(ip, port)| SocketAddrV6::new(ip.into(), port.max(1), 0, 0)),
            connection_id,
            stateless_reset_token,
        })
}

fn parameters() -> impl Strategy<Value = TransportParameters> {
    let integers = proptest::collection::vec(varint(), 7);
    let streams = (0..=1_u64 << 60, 0..=1_u64 << 60);
    let limited = (1200_u32..1 << 20, 0_u32..=20, 0_u32..1 << 14, 2_u32..1 << 20, any::<bool>());
    let ids =
        (option::of(connection_id()), option::of(connection_id()), option::of(connection_id()));
    let server = (option::of(reset_token()), option::of(preferred_address()));
    let versions = (option::of(version_information()), any::<bool>());
    let extensions = (option::of(0_u32..1 << 24), any::<bool>());
    let versions = (versions, extensions);
    (integers, streams, limited, ids, server, versions).prop_map(
        |(integers, streams, limited, ids, server, (versions, extensions))| {
            let without_id = ids.1.is_some_and(|id| id.is_empty());
            TransportParameters {
                original_destination_connection_id: ids.0,
                max_idle_timeout: integers[0],
                stateless_reset_token: server.0,
                max_udp_payload_size: limited.0.into(),
                initial_max_data: integers[1],
                initial_max_stream_data_bidi_local: integers[2],
                initial_max_stream_data_bidi_remote: integers[3],
                initial_max_stream_data_uni: integers[4],
                initial_max_streams_bidi: VarInt::new(streams.0).unwrap(),
                initial_max_streams_uni: VarInt::new(streams.1).unwrap(),
                ack_delay_exponent: limited.1.into(),
                max_ack_delay: limited.2.into(),
                disable_active_migration: limited.4,
                preferred_address: server.1.filter(|_| !without_id).map(Box::new),
                active_connection_id_limit: limited.3.into(),
                initial_source_connection_id: ids.1,
                retry_source_connection_id: ids.2,
                max_datagram_frame_size: integers[5],
                version_information: versions.0,
                grease_quic_bit: versions.1,
                min_ack_delay: extensions.0.map(|delay| delay.min(limited.2 * 1000).into()),
                reset_stream_at: extensions.1,
            }
        },
    )
}

proptest! {
    #[test]
    fn round_trip(parameters in parameters()) {
        let bytes = encoded(&parameters);
        let decoded = TransportParameters::decode(&bytes, Initiator::Server);
        prop_assert_eq!(decoded, Ok(parameters));
        for end in 0..bytes.len() {
            // If the input is truncated between two parameters, the result is a shorter list;
            // anywhere else, truncation is an error.
            let cut = TransportParameters::decode(&bytes[..end], Initiator::Server);
            // reset_stream_at is written with two identifiers, the second of which takes 2 bytes,
            // and read with either.
            prop_assert!(cut.map_or(true, |cut| encoded(&cut).len() <= end + 2));
        }
    }

    #[test]
    fn any_bytes(bytes in bytes(200)) {
        for from in [Initiator::Client, Initiator::Server] {
            if let Ok(parameters) = TransportParameters::decode(&bytes, from) {
                let again = TransportParameters::decode(&encoded(&parameters), from);
                prop_assert_eq!(again, Ok(parameters));
            }
        }
    }

    #[test]
    fn any_values(list in proptest::collection::vec((0_u8..0x22, bytes(20)), 0..8)) {
        let mut output = Vec::new();
        for (id, value) in list {
            output.extend([id, value.len() as u8]);
            output.extend(value);
        }
        if let Ok(parameters) = TransportParameters::decode(&output, Initiator::Server) {
            let again = TransportParameters::decode(&encoded(&parameters), Initiator::Server);
            prop_assert_eq!(again, Ok(parameters));
        }
    }
}
