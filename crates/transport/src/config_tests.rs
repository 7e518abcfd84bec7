use core::time::Duration;

use super::{InvalidSetting, TransportConfig, TransportConfigBuilder};

fn error(set: impl FnOnce(TransportConfigBuilder) -> TransportConfigBuilder) -> InvalidSetting {
    set(TransportConfig::builder()).build().unwrap_err()
}

/// For each setting, the values just outside its limits are errors that name it, and those at its limits are accepted.
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
        "max_datagram_size is 70000 bytes; it has to be 1200 to 65527 bytes (RFC 9000 §14, §18.2)"
    );
    assert_eq!(
        error(|it| it.initial_stream_receive_window(1 << 30)).to_string(),
        "initial_stream_receive_window is 1073741824 bytes; it has to be at most \
         max_stream_receive_window, which is 33554432 bytes"
    );
    assert_eq!(
        error(|it| it.max_idle_timeout(Some(Duration::from_micros(10)))).to_string(),
        "max_idle_timeout is 10µs; it has to be at least 1 ms and less than 2^62 ms (RFC 9000 §18.2); \
         None for no timeout"
    );
}

#[test]
fn versions_are_known_and_each_is_there_once() {
    use clearway_wire::Version;
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
        "first_version is 0x6b3343cf; it has to be one of versions, which are 0x00000001"
    );
    assert_eq!(
        error(|it| it.versions([])).to_string(),
        "versions is none; it has to be at least one of 0x00000001, 0x6b3343cf, each once"
    );
}

#[test]
fn settings_can_be_changed_again() {
    let config = TransportConfig::builder().max_datagram_size(1400).packet_threshold(5).build();
    let config = config.unwrap().to_builder().packet_threshold(7).build().unwrap();
    assert_eq!((config.max_datagram_size(), config.packet_threshold()), (1400, 7));
}
