//! Transport parameters (RFC 9000 §7.3, §7.4, §18.2; RFC 9368).

use super::super::allowed::{alive, transport};
use super::super::{Check, Need};
use crate::Data;
use crate::quic::ParameterEdit;
use crate::script::Script;
use Need::{Quic, VersionInformation};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "initial-source-id-missing",
        "RFC 9000 §7.3",
        Quic,
        "no initial_source_connection_id",
        || edited(ParameterEdit::Remove { parameter: "initial_source_connection_id".to_owned() }),
    )
    .h3spec(),
    Check::new(
        "initial-source-id-wrong",
        "RFC 9000 §7.3",
        Quic,
        "an initial_source_connection_id that is not the packet's",
        || bytes("initial_source_connection_id", b"87654321"),
    ),
    Check::new(
        "original-destination-id-from-client",
        "RFC 9000 §18.2",
        Quic,
        "original_destination_connection_id",
        || bytes("original_destination_connection_id", b"12345678"),
    )
    .h3spec(),
    Check::new(
        "preferred-address-from-client",
        "RFC 9000 §18.2",
        Quic,
        "preferred_address",
        || {
            let mut value = vec![0; 24];
            value.push(4);
            value.extend_from_slice(&[1; 20]);
            bytes("preferred_address", &value)
        },
    )
    .h3spec(),
    Check::new(
        "retry-source-id-from-client",
        "RFC 9000 §18.2",
        Quic,
        "retry_source_connection_id",
        || bytes("retry_source_connection_id", b"12345678"),
    )
    .h3spec(),
    Check::new(
        "stateless-reset-token-from-client",
        "RFC 9000 §18.2",
        Quic,
        "stateless_reset_token",
        || bytes("stateless_reset_token", &[1; 16]),
    )
    .h3spec(),
    Check::new(
        "max-udp-payload-size-too-small",
        "RFC 9000 §18.2",
        Quic,
        "max_udp_payload_size of 1199",
        || integer("max_udp_payload_size", 1199),
    )
    .h3spec(),
    Check::new(
        "ack-delay-exponent-too-large",
        "RFC 9000 §18.2",
        Quic,
        "ack_delay_exponent of 21",
        || integer("ack_delay_exponent", 21),
    )
    .h3spec(),
    Check::new("max-ack-delay-too-large", "RFC 9000 §18.2", Quic, "max_ack_delay of 2^14", || {
        integer("max_ack_delay", 1 << 14)
    })
    .h3spec(),
    Check::new(
        "active-connection-id-limit-too-small",
        "RFC 9000 §18.2",
        Quic,
        "active_connection_id_limit of 1",
        || integer("active_connection_id_limit", 1),
    ),
    Check::new(
        "initial-max-streams-bidi-too-large",
        "RFC 9000 §4.6",
        Quic,
        "initial_max_streams_bidi of 2^60 + 1",
        || streams("initial_max_streams_bidi"),
    ),
    Check::new(
        "initial-max-streams-uni-too-large",
        "RFC 9000 §4.6",
        Quic,
        "initial_max_streams_uni of 2^60 + 1",
        || streams("initial_max_streams_uni"),
    ),
    Check::new("parameter-twice", "RFC 9000 §7.4", Quic, "initial_max_data twice", || {
        edited(ParameterEdit::Add {
            parameter: "initial_max_data".to_owned(),
            value: b"\x10".into(),
        })
    }),
    Check::new(
        "parameters-truncated",
        "RFC 9000 §7.4",
        Quic,
        "transport parameters that end in the middle of one",
        || edited(ParameterEdit::Raw { bytes: b"\x04\x04\x80\x10".into() }),
    ),
    Check::new(
        "parameters-empty",
        "RFC 9000 §7.3",
        Quic,
        "no transport parameters in the extension",
        || edited(ParameterEdit::Raw { bytes: Data::default() }),
    ),
    Check::new(
        "integer-with-trailing-bytes",
        "RFC 9000 §18",
        Quic,
        "initial_max_data with a byte after its integer",
        || bytes("initial_max_data", b"\x10\x00"),
    ),
    Check::new("integer-empty", "RFC 9000 §18", Quic, "initial_max_data without a value", || {
        bytes("initial_max_data", b"")
    }),
    Check::new(
        "flag-with-value",
        "RFC 9000 §18.2",
        Quic,
        "disable_active_migration with a value",
        || bytes("disable_active_migration", b"\x01"),
    ),
    Check::new(
        "long-initial-source-id",
        "RFC 9000 §18.2",
        Quic,
        "an initial_source_connection_id of 21 bytes",
        || bytes("initial_source_connection_id", &[1; 21]),
    ),
    Check::new(
        "unknown-parameter",
        "RFC 9000 §7.4.2",
        Quic,
        "an unknown and a reserved transport parameter, to be ignored",
        || {
            Script::quic()
                .parameter_bytes("0x7a7a", "unknown")
                .parameter_bytes("27", "reserved")
                .expect(alive())
        },
    ),
    Check::new(
        "parameters-at-their-limits",
        "RFC 9000 §18.2",
        Quic,
        "max_udp_payload_size, ack_delay_exponent, max_ack_delay and active_connection_id_limit at the limits",
        || {
            Script::quic()
                .parameter("max_udp_payload_size", 1200)
                .parameter("ack_delay_exponent", 20)
                .parameter("max_ack_delay", (1 << 14) - 1)
                .parameter("active_connection_id_limit", 2)
                .parameter("initial_max_streams_bidi", 1 << 60)
                .expect(alive())
        },
    ),
    Check::new(
        "no-limits",
        "RFC 9000 §18.2",
        Quic,
        "limits of 0: the server must not send stream data",
        || {
            let names = ["initial_max_data", "initial_max_streams_bidi", "initial_max_streams_uni"];
            names.iter().fold(Script::quic(), |script, name| script.parameter(name, 0)).step(
                crate::script::Step::Expect {
                    any: alive(),
                    none: vec![crate::script::Condition::Frame { name: "stream".to_owned() }],
                    milliseconds: None,
                },
            )
        },
    ),
    Check::new(
        "version-information-mismatch",
        "RFC 9368 §4",
        VersionInformation,
        "version_information whose Chosen Version is not the packet's",
        || {
            Script::quic()
                .parameter_bytes(
                    "version_information",
                    b"\x6b\x33\x43\xcf\x6b\x33\x43\xcf\x00\x00\x00\x01",
                )
                .expect(transport(&["VERSION_NEGOTIATION_ERROR"]))
        },
    ),
    Check::new(
        "version-information-truncated",
        "RFC 9368 §4",
        VersionInformation,
        "version_information that ends in the middle of a version",
        || bytes("version_information", b"\x00\x00\x00\x01\x00\x00"),
    ),
    Check::new(
        "version-information-zero",
        "RFC 9368 §4",
        VersionInformation,
        "version_information with the version 0",
        || bytes("version_information", b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"),
    ),
];

fn edited(edit: ParameterEdit) -> Script {
    Script::quic()
        .connect(|it| it.parameters.push(edit))
        .expect(transport(&["TRANSPORT_PARAMETER_ERROR"]))
}

fn bytes(name: &str, value: &[u8]) -> Script {
    edited(ParameterEdit::Set { parameter: name.to_owned(), value: value.into() })
}

fn integer(name: &str, value: u64) -> Script {
    edited(ParameterEdit::SetInteger { parameter: name.to_owned(), value: value.into() })
}

fn streams(name: &str) -> Script {
    Script::quic()
        .parameter(name, (1 << 60) + 1)
        .expect(transport(&["TRANSPORT_PARAMETER_ERROR", "FRAME_ENCODING_ERROR"]))
}
