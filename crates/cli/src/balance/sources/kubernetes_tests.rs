use serde_json::{Value, json};

use super::super::replay::{Replay, said, speaker};
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
    let (speaker, mut receiver) = speaker();
    let kubernetes = source(api);
    let task = tokio::spawn(async move { ask(&kubernetes, &speaker).await });
    let mut asked = replay
        .asked(
            "/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb",
        )
        .await;
    let first = slice("web-1", 7, "IPv4", json!([endpoint("web-0", "10.0.0.1", json!(true))]));
    asked.answer(&list(10, &[first])).await;
    drop(asked);
    assert_eq!(said(&mut receiver).await.unwrap(), ["web-0 10.0.0.1:4433 1"]);

    let mut watch = replay.asked("watch=true").await;
    assert!(watch.text.contains("resourceVersion=10 "), "{}", watch.text);
    let second = slice("web-2", 11, "IPv4", json!([endpoint("web-1", "10.0.0.2", Value::Null)]));
    watch.answer(&event("ADDED", &second)).await;
    let both = ["web-0 10.0.0.1:4433 1", "web-1 10.0.0.2:4433 1"];
    assert_eq!(said(&mut receiver).await.unwrap(), both);
    // An event in two pieces.
    let ending = slice("web-1", 12, "IPv4", json!([endpoint("web-0", "10.0.0.1", json!(false))]));
    let modified = event("MODIFIED", &ending);
    let (begin, end) = modified.split_at(40);
    watch.go_on(begin).await;
    watch.go_on(end).await;
    assert_eq!(said(&mut receiver).await.unwrap()[0], "web-0 10.0.0.1:4433 1 draining");
    watch.go_on(&event("DELETED", &ending)).await;
    assert_eq!(said(&mut receiver).await.unwrap(), ["web-1 10.0.0.2:4433 1"]);
    let bookmark = json!({ "metadata": { "resourceVersion": "20" } });
    watch.go_on(&event("BOOKMARK", &bookmark)).await;
    drop(watch);

    // The watch goes on where it has ended.
    let mut watch = replay.asked("resourceVersion=20 ").await;
    let gone = json!({ "kind": "Status", "code": 410, "message": "too old resource version" });
    watch.answer(&event("ERROR", &gone)).await;
    drop(watch);
    let mut asked = replay.asked("GET ").await;
    assert!(!asked.text.contains("watch=true"));
    asked.answer(&list(30, &[second])).await;
    drop(asked);
    assert_eq!(said(&mut receiver).await.unwrap(), ["web-1 10.0.0.2:4433 1"]);
    task.abort();
}

#[tokio::test]
async fn what_fails_is_told() {
    let (replay, api) = Replay::start().await;
    let (speaker, mut receiver) = speaker();
    let kubernetes = source(api);
    let task = tokio::spawn(async move { ask(&kubernetes, &speaker).await });
    replay.asked("GET ").await.refuse("403 Forbidden").await;
    let why = said(&mut receiver).await.unwrap_err();
    assert!(why.contains("403 Forbidden: no"), "{why}");
    task.abort();
}

fn read(slices: &[Value], port: Option<&str>) -> Result<Vec<String>, String> {
    let of =
        Kubernetes { port: port.map(str::to_owned), ..source("http://127.0.0.1".parse().unwrap()) };
    let read = |value: &Value| serde_json::from_value::<Slice>(value.clone()).unwrap();
    let slices = slices.iter().map(read).map(|slice| (slice.metadata.name.clone(), slice));
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
    assert_eq!(why, "EndpointSlice a: there is no port https of UDP");
    let second = json!({ "name": "other", "port": 8443, "protocol": "UDP" });
    slice["ports"].as_array_mut().unwrap().push(second);
    let why = read(&[slice], None).unwrap_err();
    assert!(why.contains("several ports of UDP"), "{why}");
}
