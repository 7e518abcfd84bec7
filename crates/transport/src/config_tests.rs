use core::time::Duration;

use clearway_congestion::Algorithm;
use clearway_wire::Version;

use super::{InvalidSetting, TransportConfig, TransportConfigBuilder};
use crate::SpinBit;

fn error(set: impl FnOnce(TransportConfigBuilder) -> TransportConfigBuilder) -> InvalidSetting {
    set(TransportConfig::builder()).build().unwrap_err()
}

/// For each setting, values just outside its limits cause errors that name the setting, and values
/// at its limits are accepted.
#[test]
fn each_setting_is_checked() {
    type Set = fn(TransportConfigBuilder, u64) -> TransportConfigBuilder;
    const MILLISECOND: Duration = Duration::from_millis(1);
    let streams = 1 << 60;
    let integer = (1 << 62) - 1;
    let table: [(&str, Set, &[u64], &[u64]); 17] = [
        (
            "max_datagram_size",
            |it, n| it.max_datagram_size(n as usize),
            &[1200, 65_527],
            &[0, 1199, 65_528, 70_000],
        ),
        (
            "initial_datagram_size",
            |it, n| it.initial_datagram_size(n as usize).max_datagram_size(9000),
            &[1200, 9000],
            &[0, 1199, 9001, 70_000],
        ),
        (
            "max_idle_timeout",
            |it, n| it.max_idle_timeout(Some(MILLISECOND * n as u32 / 2)),
            &[2, 60_000],
            &[0, 1],
        ),
        (
            "keep_alive_interval",
            |it, n| it.keep_alive_interval(Some(MILLISECOND * n as u32)),
            &[1],
            &[0],
        ),
        ("handshake_timeout", |it, n| it.handshake_timeout(MILLISECOND * n as u32), &[1], &[0]),
        ("initial_rtt", |it, n| it.initial_rtt(MILLISECOND * n as u32), &[1], &[0]),
        (
            "max_ack_delay",
            |it, n| it.max_ack_delay(MILLISECOND * n as u32),
            &[0, 16_383],
            &[16_384],
        ),
        (
            "max_concurrent_bidirectional_streams",
            TransportConfigBuilder::max_concurrent_bidirectional_streams,
            &[0, streams],
            &[streams + 1],
        ),
        (
            "max_concurrent_unidirectional_streams",
            TransportConfigBuilder::max_concurrent_unidirectional_streams,
            &[0, streams],
            &[streams + 1],
        ),
        (
            "max_stream_receive_window",
            TransportConfigBuilder::max_stream_receive_window,
            &[256 << 10, integer],
            &[integer + 1],
        ),
        (
            "initial_stream_receive_window",
            TransportConfigBuilder::initial_stream_receive_window,
            &[0, 32 << 20],
            &[(32 << 20) + 1],
        ),
        (
            "max_connection_receive_window",
            TransportConfigBuilder::max_connection_receive_window,
            &[1 << 20, integer],
            &[integer + 1],
        ),
        (
            "initial_connection_receive_window",
            TransportConfigBuilder::initial_connection_receive_window,
            &[0, 48 << 20],
            &[(48 << 20) + 1],
        ),
        ("send_buffer", TransportConfigBuilder::send_buffer, &[1], &[0]),
        ("maximum_window", TransportConfigBuilder::maximum_window, &[4800, 1 << 40], &[4799]),
        (
            "initial_window",
            |it, n| it.initial_window(Some(n)),
            &[1200, 1 << 30],
            &[1199, (1 << 30) + 1],
        ),
        ("key_update_after", |it, n| it.key_update_after(Some(n)), &[1], &[0]),
    ];
    for (setting, set, permitted, refused) in table {
        for value in permitted {
            let built = set(TransportConfig::builder(), *value).build();
            assert!(built.is_ok(), "{setting} {value}: {}", built.unwrap_err());
        }
        for value in refused {
            assert_eq!(error(|it| set(it, *value)).setting, setting, "{value}");
        }
    }
    assert_eq!(error(|it| it.packet_threshold(0)).setting, "packet_threshold");
    assert_eq!(error(|it| it.ack_eliciting_threshold(0)).setting, "ack_eliciting_threshold");
    let frame = error(|it| it.max_datagram_frame_size(Some(1 << 62)));
    assert_eq!(frame.setting, "max_datagram_frame_size");
}

#[test]
fn an_error_contains_the_permitted_values() {
    assert_eq!(
        error(|it| it.max_datagram_size(70_000)).to_string(),
        "max_datagram_size is 70000 bytes; it must be 1200 to 65527 bytes (RFC 9000 §14, §18.2)"
    );
    assert_eq!(
        error(|it| it.initial_stream_receive_window(1 << 30)).to_string(),
        "initial_stream_receive_window is 1073741824 bytes; it must be at most \
         max_stream_receive_window, which is 33554432 bytes"
    );
    assert_eq!(
        error(|it| it.max_idle_timeout(Some(Duration::from_micros(10)))).to_string(),
        "max_idle_timeout is 10µs; it must be at least 1 ms and less than 2^62 ms (RFC 9000 §18.2); \
         None for no timeout"
    );
}

#[test]
fn versions_are_known_and_each_is_there_once() {
    let (one, two) = (Version::V1, Version::V2);
    for versions in [&[one][..], &[two], &[one, two], &[two, one]] {
        let built = TransportConfig::builder().versions(versions.iter().copied()).build();
        let config = built.unwrap();
        let oldest = if versions.contains(&one) { one } else { two };
        assert_eq!((config.versions(), config.first_version()), (versions, oldest));
    }
    for versions in [&[][..], &[Version(7)], &[one, one], &[one, two, one]] {
        assert_eq!(error(|it| it.versions(versions.iter().copied())).setting, "versions");
    }
    assert_eq!(error(|it| it.versions([one]).first_version(two)).setting, "first_version");
    assert_eq!(
        error(|it| it.versions([one]).first_version(two)).to_string(),
        "first_version is 0x6b3343cf; it must be one of the configured versions (0x00000001)"
    );
    assert_eq!(
        error(|it| it.versions([])).to_string(),
        "versions is empty; it must be one or more of 0x00000001, 0x6b3343cf, without duplicates"
    );
}

#[test]
fn settings_can_be_changed_again() {
    let config = TransportConfig::builder().max_datagram_size(1400).packet_threshold(5).build();
    let config = config.unwrap().to_builder().packet_threshold(7).build().unwrap();
    assert_eq!((config.max_datagram_size(), config.packet_threshold()), (1400, 7));
}

/// Returns a configuration in which no setting has its default and no two numbers are equal.
fn unusual() -> TransportConfig {
    TransportConfig::builder()
        .max_idle_timeout(Some(Duration::from_millis(7001)))
        .keep_alive_interval(Some(Duration::from_millis(7002)))
        .handshake_timeout(Duration::from_millis(7003))
        .max_ack_delay(Duration::from_millis(14))
        .min_ack_delay(Some(Duration::from_micros(7005)))
        .initial_rtt(Duration::from_millis(7006))
        .max_concurrent_bidirectional_streams(101)
        .max_concurrent_unidirectional_streams(102)
        .initial_stream_receive_window(103)
        .max_stream_receive_window(104)
        .initial_connection_receive_window(105)
        .max_connection_receive_window(106)
        .send_buffer(107)
        .max_datagram_frame_size(Some(108))
        .datagram_receive_buffer(109)
        .datagram_receive_limit(110)
        .datagram_send_buffer(111)
        .datagram_send_limit(112)
        .packet_threshold(113)
        .initial_window(Some(11_400))
        .maximum_window(115_000)
        .key_update_after(Some(116))
        .ack_eliciting_threshold(117)
        .max_datagram_size(1219)
        .initial_datagram_size(1218)
        .discover_path_mtu(false)
        .datagram_drops_oldest(true)
        .datagram_notices(true)
        .reset_stream_at(false)
        .ack_frequency(false)
        .skip_packet_numbers(false)
        .ecn(false)
        .prefers_own_version(true)
        .version_information(false)
        .grease_quic_bit(false)
        .allow_active_migration(false)
        .follow_preferred_address(false)
        .spin_bit(SpinBit::Enabled)
        .versions([Version::V2])
        .controller(std::sync::Arc::new(Algorithm::Reno))
        .build()
        .unwrap()
}

#[test]
fn a_configuration_returns_what_its_builder_was_given() {
    let it = unusual();
    let times = [it.max_idle_timeout(), it.keep_alive_interval(), Some(it.handshake_timeout())];
    assert_eq!(times.map(|time| time.unwrap().as_millis()), [7001, 7002, 7003]);
    let times = [it.max_ack_delay(), it.min_ack_delay().unwrap(), it.initial_rtt()];
    assert_eq!(times.map(|time| time.as_micros()), [14_000, 7005, 7_006_000]);
    let numbers = [
        it.max_concurrent_bidirectional_streams(),
        it.max_concurrent_unidirectional_streams(),
        it.initial_stream_receive_window(),
        it.max_stream_receive_window(),
        it.initial_connection_receive_window(),
        it.max_connection_receive_window(),
        it.send_buffer(),
        it.max_datagram_frame_size().unwrap(),
        it.datagram_receive_buffer(),
        it.datagram_receive_limit() as u64,
        it.datagram_send_buffer(),
        it.datagram_send_limit() as u64,
        it.packet_threshold(),
        it.initial_window().unwrap() / 100,
        it.maximum_window() / 1000,
        it.key_update_after().unwrap(),
        it.ack_eliciting_threshold().into(),
    ];
    assert_eq!(numbers, core::array::from_fn(|index| 101 + index as u64));
    assert_eq!((it.initial_datagram_size(), it.max_datagram_size()), (1218, 1219));
    assert!(it.datagram_drops_oldest() && it.datagram_notices() && it.prefers_own_version());
    let switched_off = [
        it.discover_path_mtu(),
        it.reset_stream_at(),
        it.ack_frequency(),
        it.skip_packet_numbers(),
        it.ecn(),
        it.version_information(),
        it.grease_quic_bit(),
        it.allow_active_migration(),
        it.follow_preferred_address(),
    ];
    assert_eq!(switched_off, [false; 9]);
    assert_eq!((it.spin_bit(), it.versions()), (SpinBit::Enabled, &[Version::V2][..]));
    assert_eq!(format!("{:?}", it.controller()), "Reno");
    // These settings are on by default.
    let default = TransportConfig::default();
    assert!(default.discover_path_mtu() && default.reset_stream_at() && default.ack_frequency());
    assert!(default.skip_packet_numbers() && default.ecn() && default.grease_quic_bit());
    assert!(default.version_information() && default.allow_active_migration());
    assert!(default.follow_preferred_address() && !default.prefers_own_version());
    assert!(!default.datagram_drops_oldest() && !default.datagram_notices());
}

/// A server switches to another version only if it prefers that version and can announce it (RFC
/// 9368 §2.3).
#[test]
fn the_version_changes_to_the_preferred_one_only() {
    let (v1, v2) = (Version::V1, Version::V2);
    let changing = TransportConfig::builder().versions([v2, v1]).prefers_own_version(true);
    let config = changing.clone().build().unwrap();
    assert!(config.may_change_from(v1) && !config.may_change_from(v2));
    for unable in [changing.clone().prefers_own_version(false), changing.version_information(false)]
    {
        assert!(!unable.build().unwrap().may_change_from(v1));
    }
}
