use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME};
use hickory_resolver::proto::rr::{Name, Record};
use tokio::net::UdpSocket;

use super::super::replay::{next_update, publisher};
use super::*;

type Zone = Arc<Mutex<BTreeMap<(String, RecordType), Vec<Record>>>>;

/// Starts a name server for the zone; an empty zone makes every query fail.
async fn serve(zone: Zone) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let asked = query.queries[0].clone();
            let mut response = Message::response(query.metadata.id, OpCode::Query);
            response.add_query(asked.clone());
            let zone = zone.lock().unwrap().clone();
            let key = (asked.name().to_ascii().to_lowercase(), asked.query_type());
            response.add_answers(zone.get(&key).cloned().unwrap_or_default());
            response.metadata.response_code = match zone.is_empty() {
                true => ResponseCode::ServFail,
                false => ResponseCode::NoError,
            };
            socket.send_to(&response.to_vec().unwrap(), from).await.unwrap();
        }
    });
    address
}

fn add(zone: &Zone, name: &str, ttl: u32, data: RData) {
    let key = (name.to_owned(), data.record_type());
    let record = Record::from_rdata(Name::from_str(name).unwrap(), ttl, data);
    zone.lock().unwrap().entry(key).or_default().push(record);
}

fn srv(priority: u16, weight: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, 443, Name::from_str(target).unwrap()))
}

fn v4(last: u8) -> RData {
    RData::A(A::new(192, 0, 2, last))
}

fn dns(name: &str, port: Option<u16>, resolver: SocketAddr) -> Dns {
    Dns { name: name.to_owned(), port, resolver: Some(resolver) }
}

fn texts(entries: &[Entry]) -> Vec<String> {
    let text = |entry: &Entry| {
        let id = entry.server_id.as_deref().unwrap_or("none");
        format!("{} {} {} {id}", entry.name, entry.address, entry.weight)
    };
    entries.iter().map(text).collect()
}

#[tokio::test]
async fn targets_of_srv_records() {
    let zone = Zone::default();
    add(&zone, "_quic._udp.example.", 60, srv(1, 10, "web-0a01.example."));
    add(&zone, "_quic._udp.example.", 60, srv(1, 0, "web-0a02.example."));
    add(&zone, "_quic._udp.example.", 60, srv(2, 10, "spare.example."));
    add(&zone, "web-0a01.example.", 300, v4(9));
    add(&zone, "web-0a01.example.", 300, v4(1));
    add(&zone, "web-0a02.example.", 30, v4(2));
    let v6 = "2001:db8::1".parse().unwrap();
    add(&zone, "spare.example.", 300, RData::AAAA(AAAA(v6)));
    let resolver = serve(zone).await;
    let begin = Instant::now();
    let (entries, valid_until) = answer(&dns("_quic._udp.example", None, resolver)).await.unwrap();
    let expected = [
        "web-0a01.example:443 192.0.2.1:443 10 0a01",
        "web-0a02.example:443 192.0.2.2:443 1 0a02",
        "spare.example:443 [2001:db8::1]:443 0 none",
    ];
    assert_eq!(texts(&entries), expected);
    // The response is valid as long as the record with the shortest TTL.
    let valid = valid_until.saturating_duration_since(begin);
    assert!((Duration::from_secs(30)..Duration::from_secs(60)).contains(&valid), "{valid:?}");
}

#[tokio::test]
async fn addresses_of_a_name() {
    let zone = Zone::default();
    add(&zone, "web.example.", 60, v4(1));
    add(&zone, "web.example.", 60, v4(2));
    let resolver = serve(zone).await;
    let (entries, _) = answer(&dns("web.example", Some(8443), resolver)).await.unwrap();
    let mut texts = texts(&entries);
    texts.sort();
    let expected = ["192.0.2.1:8443 192.0.2.1:8443 1 none", "192.0.2.2:8443 192.0.2.2:8443 1 none"];
    assert_eq!(texts, expected);
    let why = answer(&dns("other.example", Some(8443), resolver)).await.unwrap_err();
    assert_eq!(why, "other.example has no records");
    let why = answer(&dns("_quic._udp.example", None, resolver)).await.unwrap_err();
    assert_eq!(why, "_quic._udp.example has no records");
}

#[tokio::test]
async fn records_that_are_not_valid_any_more_are_asked_for_again() {
    let zone = Zone::default();
    add(&zone, "web.example.", 0, v4(1));
    let resolver = serve(zone.clone()).await;
    let (publisher, mut receiver) = publisher();
    let dns = dns("web.example", Some(443), resolver);
    let task = tokio::spawn(async move { ask(&dns, &publisher).await });
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["192.0.2.1:443 192.0.2.1:443 1"]);
    add(&zone, "web.example.", 0, v4(2));
    while next_update(&mut receiver).await.unwrap().len() < 2 {}
    zone.lock().unwrap().clear();
    let why = loop {
        if let Err(why) = next_update(&mut receiver).await {
            break why;
        }
    };
    assert!(why.contains("cannot look up the"), "{why}");
    task.abort();
}

/// Only records of the queried name become servers, including records reached through an alias.
#[tokio::test]
async fn records_of_other_names_are_none() {
    let zone = Zone::default();
    add(&zone, "web.example.", 60, v4(1));
    let alias = |target: &str| RData::CNAME(CNAME(Name::from_str(target).unwrap()));
    let stranger = |name: &str, data: RData| {
        let mut zone = zone.lock().unwrap();
        let asked = ("web.example.".to_owned(), RecordType::A);
        let record = Record::from_rdata(Name::from_str(name).unwrap(), 60, data);
        zone.entry(asked).or_default().push(record);
    };
    stranger("evil.example.", v4(66));
    stranger("web.example.evil.example.", v4(67));
    let resolver = serve(zone.clone()).await;
    let found = |name: &'static str| async move {
        let (entries, _) = answer(&dns(name, Some(443), resolver)).await?;
        Ok::<_, String>(entries.iter().map(|entry| entry.address.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(found("web.example").await.unwrap(), ["192.0.2.1:443"]);
    // Behind an alias, in one response and in two.
    for (name, target) in [("alias.example.", "web.example."), ("far.example.", "alias.example.")] {
        let record = Record::from_rdata(Name::from_str(name).unwrap(), 60, alias(target));
        for kind in [RecordType::A, RecordType::AAAA] {
            zone.lock().unwrap().insert((name.to_owned(), kind), vec![record.clone()]);
        }
    }
    assert_eq!(found("alias.example").await.unwrap(), ["192.0.2.1:443"]);
    assert_eq!(found("far.example").await.unwrap(), ["192.0.2.1:443"]);
}

/// Aliases that form a cycle are an error, after a bounded number of queries.
#[tokio::test]
async fn aliases_that_lead_in_a_circle() {
    let zone = Zone::default();
    for (name, target) in [
        ("self.example.", "self.example."),
        ("a.example.", "b.example."),
        ("b.example.", "a.example."),
    ] {
        let data = RData::CNAME(CNAME(Name::from_str(target).unwrap()));
        let record = Record::from_rdata(Name::from_str(name).unwrap(), 60, data);
        for kind in [RecordType::A, RecordType::AAAA, RecordType::SRV] {
            zone.lock().unwrap().insert((name.to_owned(), kind), vec![record.clone()]);
        }
    }
    add(&zone, "_quic._udp.example.", 60, srv(1, 1, "_quic._udp.example."));
    let resolver = serve(zone).await;
    for name in ["self.example", "a.example"] {
        let why = answer(&dns(name, Some(443), resolver)).await.unwrap_err();
        assert!(why.contains(name), "{why}");
        let why = answer(&dns(name, None, resolver)).await.unwrap_err();
        assert!(why.contains(name), "{why}");
    }
    let why = answer(&dns("_quic._udp.example", None, resolver)).await.unwrap_err();
    assert!(why.contains("has no address"), "{why}");
}

#[test]
fn weights_keep_to_the_bounds_of_the_file() {
    let target = Name::from_str("a.").unwrap();
    let record = |priority, weight| SRV::new(priority, weight, 443, target.clone());
    let records = [record(1, 65_535), record(1, 0), record(1, 32_768), record(3, 5)];
    let all: Vec<&SRV> = records.iter().collect();
    let weights: Vec<u32> = records.iter().map(|srv| weight(srv, &all, 1)).collect();
    assert_eq!(weights, [1000, 1, 500, 0]);
}
