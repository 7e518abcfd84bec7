use clearway_transport::{DropReason, LostPacket, PacketObservation};
use clearway_wire::PacketType;

use super::json::Object;
use super::{frames, names};

/// Writes the data of `packet_sent` and `packet_received` (quic-events §5.5, §5.6), with the ECN
/// mark of its datagram, which the draft defines only for datagram events. `ack_delay_exponent` is
/// the one advertised by the packet's sender. At most `maximum_frames` are written.
pub(super) fn write(
    json: &mut Object<'_>,
    packet: &PacketObservation<'_>,
    ack_delay_exponent: u64,
    maximum_frames: usize,
) {
    json.object("header", |json| {
        json.text("packet_type", names::packet_type(packet.packet_type));
        json.number("packet_number", packet.number.get());
        if packet.packet_type == PacketType::OneRtt {
            json.boolean("key_phase_bit", packet.key_phase);
        }
    });
    json.array("frames", |json| {
        frames::write(json, packet.payload, ack_delay_exponent, maximum_frames);
    });
    json.object("raw", |json| {
        json.count("length", packet.size);
        json.count("payload_length", packet.payload.len());
    });
    if packet.is_mtu_probe {
        json.boolean("is_mtu_probe_packet", true);
    }
    if let Some(mark) = names::ecn(packet.ecn) {
        json.text("ecn", mark);
    }
    if packet.is_probe {
        json.text("trigger", "pto_probe");
    }
}

/// Writes the data of `packet_dropped` (quic-events §5.7).
pub(super) fn write_dropped(json: &mut Object<'_>, size: usize, reason: DropReason) {
    json.object("raw", |json| json.count("length", size));
    json.text("trigger", names::drop_trigger(reason));
}

/// Writes the data of `packet_buffered` (quic-events §5.8).
pub(super) fn write_buffered(json: &mut Object<'_>, size: usize) {
    json.object("raw", |json| json.count("length", size));
    json.text("trigger", "keys_unavailable");
}

/// Writes the data of `packet_lost` (quic-events §7.4).
pub(super) fn write_lost(
    json: &mut Object<'_>,
    packet: &LostPacket,
    is_early: bool,
    is_mtu_probe: bool,
) {
    json.object("header", |json| {
        json.text("packet_type", names::packet_type_of(packet.space, is_early));
        json.number("packet_number", packet.number.get());
    });
    if is_mtu_probe {
        json.boolean("is_mtu_probe_packet", true);
    }
    if let Some(trigger) = names::loss_trigger(packet.trigger) {
        json.text("trigger", trigger);
    }
}
