use serde_json::{Value, json};

use super::super::replay::{self, Replay, next_update, publisher};
use super::*;

fn source(api: Uri) -> Kubernetes {
    Kubernetes {
        api: Some(api),
        namespace: "default".to_owned(),
        service: "web".to_owned(),
        port: None,
        token: None,
        trust: Trust::default(),
    }
}

fn slice(name: &str, version: u64, family: &str, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "resourceVersion": version.to_string(), "labels": {} },
        "addressType": family, "endpoints": endpoints,
        "ports": [
            { "name": "quic", "port": 4433, "protocol": "UDP" },
            { "name": "https", "port": 4433, "protocol": "TCP" },
        ],
    })
}

fn endpoint(pod: &str, address: &str, ready: Value) -> Value {
    json!({
        "addresses": [address], "nodeName": "node-1",
        "conditions": { "ready": ready, "serving": true, "terminating": false },
        "targetRef": { "kind": "Pod", "name": pod, "namespace": "default", "uid": "1" },
    })
}

fn list(version: u64, items: &[Value]) -> String {
    json!({
        "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
        "metadata": { "resourceVersion": version.to_string() }, "items": items,
    })
    .to_string()
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

#[tokio::test]
async fn slices_are_listed_and_watched() {
    let (replay, api) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let kubernetes = source(api);
    let task = tokio::spawn(async move { ask(&kubernetes, &publisher).await });
    let mut asked = replay
        .asked(
            "/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb",
        )
        .await;
    let first = slice("web-1", 7, "IPv4", json!([endpoint("web-0", "10.0.0.1", json!(true))]));
    asked.answer(&list(10, &[first])).await;
    drop(asked);
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["web-0 10.0.0.1:4433 1"]);

    let mut watch = replay.asked("watch=true").await;
    assert!(watch.text.contains("resourceVersion=10 "), "{}", watch.text);
    let second = slice("web-2", 11, "IPv4", json!([endpoint("web-1", "10.0.0.2", Value::Null)]));
    watch.answer(&event("ADDED", &second)).await;
    let both = ["web-0 10.0.0.1:4433 1", "web-1 10.0.0.2:4433 1"];
    assert_eq!(next_update(&mut receiver).await.unwrap(), both);
    // An event that arrives in two pieces.
    let ending = slice("web-1", 12, "IPv4", json!([endpoint("web-0", "10.0.0.1", json!(false))]));
    let modified = event("MODIFIED", &ending);
    let (begin, end) = modified.split_at(40);
    watch.go_on(begin).await;
    watch.go_on(end).await;
    assert_eq!(next_update(&mut receiver).await.unwrap()[0], "web-0 10.0.0.1:4433 1 draining");
    watch.go_on(&event("DELETED", &ending)).await;
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["web-1 10.0.0.2:4433 1"]);
    let bookmark = json!({ "metadata": { "resourceVersion": "20" } });
    watch.go_on(&event("BOOKMARK", &bookmark)).await;
    drop(watch);

    // The watch continues at the version where it ended.
    let mut watch = replay.asked("resourceVersion=20 ").await;
    let gone = json!({ "kind": "Status", "code": 410, "message": "too old resource version" });
    watch.answer(&event("ERROR", &gone)).await;
    drop(watch);
    let mut asked = replay.asked("GET ").await;
    assert!(!asked.text.contains("watch=true"));
    asked.answer(&list(30, &[second])).await;
    drop(asked);
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["web-1 10.0.0.2:4433 1"]);
    task.abort();
}

#[tokio::test]
async fn what_fails_is_told() {
    let (replay, api) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let kubernetes = source(api);
    let task = tokio::spawn(async move { ask(&kubernetes, &publisher).await });
    replay.asked("GET ").await.refuse("403 Forbidden").await;
    let why = next_update(&mut receiver).await.unwrap_err();
    assert!(why.contains("403 Forbidden: no"), "{why}");
    task.abort();
}

fn read(slices: &[Value], port: Option<&str>) -> Result<Vec<String>, String> {
    let of =
        Kubernetes { port: port.map(str::to_owned), ..source("http://127.0.0.1".parse().unwrap()) };
    let read = |value: &Value| serde_json::from_value::<Slice>(value.clone()).unwrap();
    let slices = slices.iter().map(read).map(|slice| (slice.metadata.name.0.clone(), slice));
    let entries = entries(&of, &slices.collect())?;
    Ok(entries.iter().map(|entry| format!("{} {}", entry.name, entry.address)).collect())
}

#[test]
fn an_endpoint_in_several_slices_is_one_server() {
    let endpoints = json!([endpoint("web-0", "10.0.0.1", json!(true))]);
    let v6 = json!([
        endpoint("web-0", "2001:db8::1", json!(true)),
        endpoint("web-1", "2001:db8::2", json!(true))
    ]);
    let slices = [
        slice("a", 1, "IPv4", endpoints.clone()),
        slice("b", 2, "IPv4", endpoints),
        slice("c", 3, "IPv6", v6),
    ];
    let expected = ["web-0 10.0.0.1:4433", "web-1 [2001:db8::2]:4433"];
    assert_eq!(read(&slices, None).unwrap(), expected);
    assert_eq!(read(&[slice("d", 1, "FQDN", Value::Null)], None).unwrap(), <[&str; 0]>::default());
}

#[test]
fn the_port_is_one_of_udp() {
    let mut slice = slice("a", 1, "IPv4", json!([endpoint("web-0", "10.0.0.1", json!(true))]));
    let one = std::slice::from_ref(&slice);
    assert_eq!(read(one, Some("quic")).unwrap(), ["web-0 10.0.0.1:4433"]);
    assert_eq!(read(one, Some("4433")).unwrap(), ["web-0 10.0.0.1:4433"]);
    let why = read(one, Some("https")).unwrap_err();
    assert_eq!(why, "EndpointSlice a: the service has no UDP port https");
    let second = json!({ "name": "other", "port": 8443, "protocol": "UDP" });
    slice["ports"].as_array_mut().unwrap().push(second);
    let why = read(&[slice], None).unwrap_err();
    assert!(why.contains("several UDP ports"), "{why}");
}

/// Checks that an API server can make this program read, store and do only a limited amount, and
/// that the servers remain unchanged.
#[tokio::test]
async fn answers_of_a_hostile_api_server() {
    let endpoints = vec![json!({ "addresses": [] }); MAX_ENTRIES + 1];
    let deep = format!(r#"{{"metadata":{{}},"items":[{}"#, "[".repeat(200_000));
    let long = slice(&"x".repeat(300), 1, "IPv4", Value::Null);
    for (answer, complaint) in [
        (list(1, &[slice("a", 1, "IPv4", endpoints.into())]), "a list has more than 6553 elements"),
        (deep, "invalid type: sequence"),
        (list(1, &[long]), "a string has 300 octets"),
        ("\u{1b}[2J".to_owned(), "expected value"),
        ("x".repeat((1 << 24) + 1), "the response is longer than 16777216 octets"),
    ] {
        let begin = |api, publisher| async move { ask(&source(api), &publisher).await };
        let why = replay::complaint(begin, &answer).await;
        assert!(why.contains(complaint), "{why}");
    }
}

/// The total size of slices is limited, even if they are small and added one by one.
#[test]
fn slices_are_bounded_in_sum() {
    let read = |number: usize| {
        let endpoints = vec![endpoint("web", "10.0.0.1", json!(true)); 100];
        let slice = slice(&format!("web-{number}"), 1, "IPv4", endpoints.into());
        serde_json::from_value::<Slice>(slice).unwrap()
    };
    let mut slices = BTreeMap::new();
    let added = (0..).find(|number| {
        slices.insert(number.to_string(), read(*number));
        check_size(&slices).is_err()
    });
    assert_eq!(added, Some(MAX_SIZE / 103));
    let why = check_size(&slices).unwrap_err();
    assert!(why.contains("more than 26212 slices, endpoints and ports"), "{why}");
}

/// A thousand simultaneous changes are published in a few updates, and a watch that ends
/// immediately is restarted only a few times per second.
#[tokio::test]
async fn endless_changes_are_published_now_and_then() {
    let (replay, api) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let kubernetes = source(api);
    let task = tokio::spawn(async move { ask(&kubernetes, &publisher).await });
    let with = |number: usize| {
        let address = format!("10.0.{}.{}", number / 200, number % 200);
        slice("web-1", 1, "IPv4", json!([endpoint("web-0", &address, json!(true))]))
    };
    replay.asked("GET ").await.answer(&list(1, &[with(1)])).await;
    next_update(&mut receiver).await.unwrap();
    let mut watch = replay.asked("watch=true").await;
    let events: String = (1..=1000).map(|number| event("MODIFIED", &with(number))).collect();
    watch.answer(&events).await;
    let mut times = 0;
    while next_update(&mut receiver).await.unwrap() != ["web-0 10.0.5.0:4433 1"] {
        times += 1;
    }
    assert!(times < 100, "{times}");
    drop(watch);
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        replay.asked("watch=true").await.answer("").await;
    }
    assert!(begun.elapsed() >= 3 * PAUSE, "{:?}", begun.elapsed());
    // A line that never ends.
    let mut watch = replay.asked("watch=true").await;
    watch.try_answer(&"x".repeat((1 << 24) + 1)).await;
    let why = next_update(&mut receiver).await.unwrap_err();
    assert!(why.contains("the response is longer than 16777216 octets"), "{why}");
    task.abort();
}
