use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::super::super::backends::Trust;
use super::super::replay::{self, Replay, next_update, publisher};
use super::*;

fn source(member: Uri) -> Etcd {
    let (members, prefix) = (vec![member], "clearway/web/".to_owned());
    Etcd { members, prefix, trust: Trust::default() }
}

fn pair(key: &str, value: &str) -> Pair {
    Pair { key: STANDARD.encode(key), value: STANDARD.encode(value) }
}

#[test]
fn a_key_is_a_server() {
    let value = r#"{"address": "192.0.2.1:443", "server-id": "0a01", "weight": 3, "drain": true}"#;
    let entry = super::entry("web/", &pair("web/a", value)).unwrap();
    assert_eq!((&entry.name[..], entry.address), ("a", "192.0.2.1:443".parse().unwrap()));
    assert_eq!((entry.server_id.as_deref(), entry.weight), (Some("0a01"), 3));
    assert!(entry.is_draining);
    let least = r#"{"address": "[::ffff:192.0.2.1]:443"}"#;
    let entry = super::entry("web/", &pair("web/b/c", least)).unwrap();
    assert_eq!((&entry.name[..], entry.address), ("b/c", "192.0.2.1:443".parse().unwrap()));
    assert_eq!((entry.server_id, entry.weight, entry.is_draining), (None, 1, false));
    let most = r#"{"address": "192.0.2.1:443", "weight": 1000}"#;
    assert_eq!(super::entry("web/", &pair("web/a", most)).unwrap().weight, 1000);
    for (key, value, complaint) in [
        ("web/a", "{", "invalid value for key web/a: "),
        ("web/a", "{}", "missing field `address`"),
        ("web/a", r#"{"address": "192.0.2.1"}"#, "invalid socket address"),
        ("web/a", r#"{"address": "192.0.2.1:1", "wait": 1}"#, "unknown field `wait`"),
        ("web/a", r#"{"address": "192.0.2.1:1", "weight": 1001}"#, "weight must be 0 to 1000"),
        ("web/", r#"{"address": "192.0.2.1:1"}"#, "has no server name after \"web/\""),
    ] {
        let why = super::entry("web/", &pair(key, value)).unwrap_err();
        assert!(why.contains(complaint), "{why}");
    }
}

#[test]
fn the_end_of_a_prefix() {
    assert_eq!(end_of(b"web/"), b"web0");
    assert_eq!(end_of(&[1, 0xff, 0xff]), [2]);
    assert_eq!(end_of(&[0xff]), [0]);
}

#[tokio::test]
async fn keys_are_read_again_when_they_change() {
    let (replay, member) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let etcd = source(member);
    let task = tokio::spawn(async move { ask(&etcd, &publisher).await });
    let range = |revision: u32, address: &str| {
        let value = format!(r#"{{"address": "{address}"}}"#);
        json!({
            "header": { "revision": revision.to_string() }, "count": "1",
            "kvs": [{ "key": STANDARD.encode("clearway/web/a"), "value": STANDARD.encode(value) }],
        })
        .to_string()
    };
    replay.asked("POST /v3/kv/range").await.answer(&range(5, "192.0.2.1:1")).await;
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["a 192.0.2.1:1 1"]);
    let mut watch = replay.asked("POST /v3/watch").await;
    assert!(watch.text.contains(r#""start_revision":"6""#), "{}", watch.text);
    watch.answer("{\"result\":{\"created\":true}}\n").await;
    watch.go_on("{\"result\":{\"events\":[{\"kv\":{}}]}}\n").await;
    replay.asked("POST /v3/kv/range").await.answer(&range(6, "192.0.2.2:1")).await;
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["a 192.0.2.2:1 1"]);
    let mut watch = replay.asked("POST /v3/watch").await;
    watch.answer("{\"error\":{\"code\":8,\"message\":\"too many watchers\"}}\n").await;
    let why = next_update(&mut receiver).await.unwrap_err();
    assert!(why.contains("cannot watch the keys: too many watchers"), "{why}");
    task.abort();
}

/// A member that reports changes continuously is queried only a few times per second.
#[tokio::test]
async fn a_member_that_always_changes_is_asked_now_and_then() {
    let (replay, member) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let etcd = source(member);
    let task = tokio::spawn(async move { ask(&etcd, &publisher).await });
    let begun = std::time::Instant::now();
    for round in 0..4 {
        let value = STANDARD.encode(format!(r#"{{"address": "192.0.2.{round}:1"}}"#));
        let pair = json!({ "key": STANDARD.encode("clearway/web/a"), "value": value });
        let range = json!({ "header": { "revision": "1" }, "kvs": [pair] }).to_string();
        replay.asked("POST /v3/kv/range").await.answer(&range).await;
        assert_eq!(next_update(&mut receiver).await.unwrap(), [format!("a 192.0.2.{round}:1 1")]);
        let mut watch = replay.asked("POST /v3/watch").await;
        watch.answer("{\"result\":{\"canceled\":true}}\n").await;
    }
    assert!(begun.elapsed() >= 3 * crate::balance::sources::bounds::PAUSE);
    task.abort();
}

/// Checks that an etcd member can make this program read and store only a limited amount, and that
/// errors are safe to print.
#[tokio::test]
async fn answers_of_a_hostile_member() {
    let pairs = |count: usize| {
        let pairs = vec![r#"{"key":""}"#; count].join(",");
        format!(r#"{{"header":{{"revision":"1"}},"kvs":[{pairs}]}}"#)
    };
    let deep = format!(r#"{{"header":{{"revision":"1"}},"kvs":{}"#, "[".repeat(200_000));
    for (answer, complaint) in [
        (pairs(MAX_ENTRIES + 1), "a list has more than 6553 elements"),
        (deep, "sent an invalid response"),
        (r#"{"header":{"revision":"\u001b[2J"}}"#.to_owned(), "sent an invalid response"),
        (r#"{"header":{"revision":1},"a":"#.to_owned(), "sent an invalid response"),
        (" ".repeat((1 << 24) + 1), "the response is longer than 16777216 octets"),
    ] {
        let begin = |member, publisher| async move { ask(&source(member), &publisher).await };
        let why = replay::complaint(begin, &answer).await;
        assert!(why.contains(complaint), "{why}");
    }
}

/// A real etcd process, which is terminated when this is dropped.
struct Server {
    process: Child,
    folder: PathBuf,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    fn start() -> Self {
        // Both ports are free when etcd starts.
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [url, peers] =
            free.map(|listener| format!("http://{}", listener.local_addr().unwrap()));
        let folder = std::env::temp_dir().join(format!("clearway-etcd-{}", std::process::id()));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(&folder)
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is installed (Debian: etcd-server)");
        Self { process, folder, url }
    }

    async fn call(&self, path: &str, body: serde_json::Value) -> Result<(), String> {
        let etcd = source(self.url.parse().unwrap());
        let response = post(&etcd, &etcd.members[0], path, body.to_string()).await?;
        whole(response).await.map(drop)
    }

    async fn put(&self, key: &str, value: &str) {
        let body = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
        self.call("/v3/kv/put", body).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs etcd, which cargo xtask test --peers has"]
async fn keys_of_etcd_itself() {
    let server = Server::start();
    let key = STANDARD.encode("0");
    while server.call("/v3/kv/range", json!({ "key": key })).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.put("clearway/web/a", r#"{"address": "192.0.2.1:1", "server-id": "01"}"#).await;
    server.put("clearway/webcam", "of somebody else").await;
    let (publisher, mut receiver) = publisher();
    let etcd = source(server.url.parse().unwrap());
    let task = tokio::spawn(async move { ask(&etcd, &publisher).await });
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["a 192.0.2.1:1 1 01"]);
    // The key may be written before or after the watch begins.
    server.put("clearway/web/b", r#"{"address": "192.0.2.2:1", "drain": true}"#).await;
    let both = ["a 192.0.2.1:1 1 01", "b 192.0.2.2:1 1 draining"];
    assert_eq!(next_update(&mut receiver).await.unwrap(), both);
    server.put("clearway/web/b", "{").await;
    let why = next_update(&mut receiver).await.unwrap_err();
    assert!(why.starts_with("invalid value for key clearway/web/b: "), "{why}");
    let key = STANDARD.encode("clearway/web/b");
    server.call("/v3/kv/deleterange", json!({ "key": key })).await.unwrap();
    assert_eq!(next_update(&mut receiver).await.unwrap(), ["a 192.0.2.1:1 1 01"]);
    task.abort();
}
