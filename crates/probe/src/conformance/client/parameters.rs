//! A server's transport parameters (RFC 9000 §7.3, §7.4, §18.2).

use super::super::allowed::transport;
use super::super::{Check, Need::Quic};
use super::accepted;
use crate::quic::ParameterEdit;
use crate::script::Script;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "original-destination-id-missing",
        "RFC 9000 §7.3",
        Quic,
        "no original_destination_connection_id",
        || removed("original_destination_connection_id"),
    ),
    Check::new(
        "original-destination-id-wrong",
        "RFC 9000 §7.3",
        Quic,
        "an original_destination_connection_id that is not the packet's",
        || bytes("original_destination_connection_id", b"wrong-id"),
    ),
    Check::new(
        "initial-source-id-missing",
        "RFC 9000 §7.3",
        Quic,
        "no initial_source_connection_id",
        || removed("initial_source_connection_id"),
    ),
    Check::new(
        "initial-source-id-wrong",
        "RFC 9000 §7.3",
        Quic,
        "an initial_source_connection_id that is not the packet's",
        || bytes("initial_source_connection_id", b"wrong-id"),
    ),
    Check::new(
        "retry-source-id-without-retry",
        "RFC 9000 §7.3",
        Quic,
        "retry_source_connection_id without a Retry packet",
        || bytes("retry_source_connection_id", b"12345678"),
    ),
    Check::new(
        "stateless-reset-token-short",
        "RFC 9000 §18.2",
        Quic,
        "a stateless_reset_token of 15 bytes",
        || bytes("stateless_reset_token", &[1; 15]),
    ),
    Check::new(
        "preferred-address-truncated",
        "RFC 9000 §18.2",
        Quic,
        "a preferred_address that ends in the middle of its addresses",
        || bytes("preferred_address", &[0; 10]),
    ),
    Check::new(
        "preferred-address-empty-id",
        "RFC 9000 §18.2",
        Quic,
        "a preferred_address with an empty connection ID",
        || bytes("preferred_address", &[0; 41]),
    ),
    Check::new(
        "max-udp-payload-size-too-small",
        "RFC 9000 §18.2",
        Quic,
        "max_udp_payload_size of 1199",
        || integer("max_udp_payload_size", 1199),
    ),
    Check::new(
        "ack-delay-exponent-too-large",
        "RFC 9000 §18.2",
        Quic,
        "ack_delay_exponent of 21",
        || integer("ack_delay_exponent", 21),
    ),
    Check::new("max-ack-delay-too-large", "RFC 9000 §18.2", Quic, "max_ack_delay of 2^14", || {
        integer("max_ack_delay", 1 << 14)
    }),
    Check::new(
        "active-connection-id-limit-too-small",
        "RFC 9000 §18.2",
        Quic,
        "active_connection_id_limit of 1",
        || integer("active_connection_id_limit", 1),
    ),
    Check::new(
        "initial-max-streams-too-large",
        "RFC 9000 §4.6",
        Quic,
        "initial_max_streams_bidi of 2^60 + 1",
        || {
            Script::quic()
                .parameter("initial_max_streams_bidi", (1 << 60) + 1)
                .expect(transport(&["TRANSPORT_PARAMETER_ERROR", "FRAME_ENCODING_ERROR"]))
        },
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
        "flag-with-value",
        "RFC 9000 §18.2",
        Quic,
        "disable_active_migration with a value",
        || bytes("disable_active_migration", b"\x01"),
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
                .expect(accepted())
        },
    ),
    Check::new(
        "parameters-at-their-limits",
        "RFC 9000 §18.2",
        Quic,
        "transport parameters at the limits of their ranges",
        || {
            Script::quic()
                .parameter("max_udp_payload_size", 1200)
                .parameter("ack_delay_exponent", 20)
                .parameter("max_ack_delay", (1 << 14) - 1)
                .parameter("active_connection_id_limit", 2)
                .parameter("initial_max_streams_bidi", 1 << 60)
                .expect(accepted())
        },
    ),
    Check::new(
        "version-information-mismatch",
        "RFC 9368 §4",
        Quic,
        "version_information whose Chosen Version is not the packet's, from a server",
        || {
            let mut allowed = transport(&["VERSION_NEGOTIATION_ERROR"]);
            // A client without RFC 9368 ignores the parameter.
            allowed.extend(accepted());
            Script::quic()
                .parameter_bytes("version_information", b"\x6b\x33\x43\xcf\x6b\x33\x43\xcf")
                .expect(allowed)
        },
    ),
];

fn edited(edit: ParameterEdit) -> Script {
    Script::quic()
        .connect(|it| it.parameters.push(edit))
        .expect(transport(&["TRANSPORT_PARAMETER_ERROR"]))
}

fn removed(name: &str) -> Script {
    edited(ParameterEdit::Remove { parameter: name.to_owned() })
}

fn bytes(name: &str, value: &[u8]) -> Script {
    edited(ParameterEdit::Set { parameter: name.to_owned(), value: value.into() })
}

fn integer(name: &str, value: u64) -> Script {
    edited(ParameterEdit::SetInteger { parameter: name.to_owned(), value: value.into() })
}
