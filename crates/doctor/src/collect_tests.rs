use std::net::UdpSocket;
use std::path::Path;

use super::*;

fn seen<T>(reading: Reading<T>, what: &str) -> T {
    match reading {
        Reading::Seen(value) => value,
        Reading::Missing(missing) => panic!("{what} is missing: {missing:?}"),
    }
}

#[test]
fn a_snapshot_of_this_system() {
    let mut collector = Collector::new();
    let first = collector.collect();
    let second = collector.collect();
    assert!(second.taken >= first.taken + first.duration);
    assert_eq!(seen(first.namespace, "namespace"), seen(second.namespace, "namespace"));
    assert_eq!(seen(first.boot, "boot").len(), 36);
    let protocols = seen(first.protocols, "protocols");
    assert!(protocols.udp.contains_key("RcvbufErrors"));
    assert!(protocols.ip.contains_key("InReceives") && protocols.ip_ext.contains_key("InOctets"));
    assert!(seen(first.devices, "devices").contains_key("lo"));
    assert!(!seen(first.softnet, "softnet").is_empty());
    assert_eq!(first.drop_reasons, Reading::Missing(Missing::NotAsked));
}

#[test]
fn own_sockets_have_this_process_as_owner_and_others_are_left_out() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap().to_string();
    let own = std::process::id();
    let snapshot = Collector::of_process(own).collect();
    let sockets = seen(snapshot.sockets, "sockets");
    assert!(sockets.values().any(|socket| socket.local == local));
    assert!(sockets.values().all(|socket| socket.owners == [own]));
    assert!(seen(snapshot.processes, "processes").contains_key(&own));
}

#[test]
fn what_is_given_is_in_the_snapshot() {
    let given = Counters::from([("SOCKET_RCVBUFF".to_owned(), 3)]);
    let mut calls = 0;
    let mut collector = Collector::new()
        .with_drop_reasons(move || Reading::Seen(given.clone()))
        .with_driver_statistics(move |name| {
            calls += 1;
            let statistics = Counters::from([(name.to_owned(), calls)]);
            Reading::Seen(Driver { statistics })
        })
        .with_applications(|| Reading::Seen(BTreeMap::new()));
    let snapshot = collector.collect();
    assert_eq!(seen(snapshot.drop_reasons, "reasons")["SOCKET_RCVBUFF"], 3);
    let devices = seen(snapshot.devices, "devices");
    assert!(seen(devices["lo"].driver.clone(), "driver").statistics.contains_key("lo"));
    assert!(seen(snapshot.applications, "applications").is_empty());
}

#[test]
fn a_driver_that_takes_long_is_asked_seldom_and_its_last_answer_stays() {
    let (mut drivers, mut calls) = (Drivers::default(), 0);
    let mut ask: DriverStatistics = Box::new(move |_| {
        calls += 1;
        std::thread::sleep(Duration::from_millis(20));
        Reading::Seen(Driver { statistics: Counters::from([("calls".to_owned(), calls)]) })
    });
    let mut asked = |name: &str, index| {
        let device = Device { index, ..Device::default() };
        let mut devices = BTreeMap::from([(name.to_owned(), device)]);
        drivers.enter(&mut devices, &mut ask);
        devices[name].driver.seen().map(|driver| driver.statistics["calls"])
    };
    assert_eq!((asked("eth0", 2), asked("eth0", 2)), (Some(1), Some(1)));
    // Another device with that name: it is too early to query its driver again.
    assert_eq!(asked("eth0", 3), None);
}

#[test]
fn data_that_changes_slowly_is_not_read_again_for_each_snapshot() {
    let root = std::env::temp_dir().join(format!("clearway-collect-{}", std::process::id()));
    let folder = root.join("proc/sys/kernel/random");
    fs::create_dir_all(&folder).unwrap();
    let mut collector = Collector::with(Files::below(&root), None);
    let mut boot_after = |text: &str| {
        fs::write(folder.join("boot_id"), text).unwrap();
        seen(collector.collect().boot, "boot")
    };
    // On a stalled machine, the data may have become stale between the two snapshots.
    let is_kept = (0..20).any(|number| {
        let text = format!("{number}");
        boot_after("before");
        boot_after(&text) != text
    });
    fs::remove_dir_all(&root).unwrap();
    assert!(is_kept);
}

/// Missing parts are reported as missing, not as 0.
#[test]
fn without_files_everything_of_them_is_missing() {
    let files = Files::below(Path::new("/nonexistent"));
    let mut collector = Collector::with(files, None);
    collector.diagnosis = Err(Missing::Sandbox("AF_NETLINK".to_owned()));
    collector.routing = Err(Missing::Sandbox("AF_NETLINK".to_owned()));
    let snapshot = collector.collect();
    assert_eq!(snapshot.protocols, Reading::Missing(Missing::Namespace));
    assert_eq!(snapshot.sockets, Reading::Missing(Missing::Namespace));
    assert_eq!(snapshot.processes, Reading::Missing(Missing::Namespace));
    assert_eq!(snapshot.softnet, Reading::Missing(Missing::Namespace));
    let sandbox = || Missing::Sandbox("AF_NETLINK".to_owned());
    assert_eq!(snapshot.devices, Reading::Missing(sandbox()));
    assert_eq!(snapshot.qdiscs, Reading::Missing(sandbox()));
    assert_eq!(snapshot.memory, Reading::Missing(Missing::Namespace));
    assert_eq!(snapshot.pressure, Reading::Missing(Missing::Kernel));
    for is_missing in [
        snapshot.namespace.seen().is_none(),
        snapshot.boot.seen().is_none(),
        snapshot.conntrack.seen().is_none(),
        snapshot.backlog.seen().is_none(),
        snapshot.paths.seen().is_none(),
    ] {
        assert!(is_missing);
    }
}
