//! Fuzzes Retry and Version Negotiation packets: decoded packets can be re-encoded, and then decode
//! to the same packets.
#![no_main]

use clearway_wire::header::{HeaderKind, ProtectedHeader, Retry, VersionNegotiation};
use clearway_wire::{Version, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(header) = ProtectedHeader::decode(data, 8) else { return };
    let mut buffer = vec![0; data.len() + 16];
    let mut writer = Writer::new(&mut buffer);
    match header.kind {
        // A packet without the fixed bit is invalid in version 1 (RFC 9000 §17.2). The receiver
        // checks this.
        HeaderKind::Retry(retry) if header.fixed_bit => {
            let Retry { version, destination, source, token, .. } = retry;
            let encode = Retry::encode_without_tag;
            encode(&mut writer, data[0], version, destination, source, token).unwrap();
            assert_eq!(writer.filled(), retry.without_tag);
            writer.bytes(&retry.integrity_tag).unwrap();
            assert_eq!(writer.filled(), data);
        }
        HeaderKind::VersionNegotiation(packet) => {
            let versions: Vec<Version> = packet.versions().collect();
            let encode = VersionNegotiation::encode;
            encode(&mut writer, data[0], packet.destination, packet.source, &versions).unwrap();
            let again = ProtectedHeader::decode(writer.filled(), 8).unwrap();
            let HeaderKind::VersionNegotiation(again) = again.kind else { panic!("{again:?}") };
            assert_eq!(again, packet);
        }
        _ => {}
    }
});
