//! Servers from etcd keys, through its JSON gateway (`/v3/kv/range`, `/v3/watch`).
//!
//! The client library for etcd's gRPC requires a protocol buffer compiler wherever this program is
//! built. The gateway offers the same, so two JSON requests suffice.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Uri, header};
use serde::Deserialize;
use serde_json::json;

use super::super::backends::{Entry, Etcd};
use super::bounds::{Bounded, MAX_ENTRIES, Pace};
use super::http::{Lines, send, whole};
use super::{Publisher, RETRY, Update};

/// All keys are read again if nothing arrived for this long: the connection may be dead without an
/// error.
const REST: Duration = Duration::from_secs(300);

/// Maximum weight of a server, the same as in the file.
const MAX_WEIGHT: u32 = 1000;

/// Publishes the servers, and watches the keys.
pub(super) async fn ask(etcd: &Etcd, publisher: &Publisher) -> ! {
    let mut pace = Pace::new();
    loop {
        // A member may report changes continuously, so requests are rate-limited.
        pace.wait().await;
        let mut failures = Vec::new();
        for member in &etcd.members {
            // This only returns without an error if all keys must be read again.
            match follow(etcd, member, publisher).await {
                Ok(()) => break,
                Err(why) => failures.push(why),
            }
        }
        if !failures.is_empty() && failures.len() == etcd.members.len() {
            publisher.publish(Err(failures.join("; "))).await;
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Publishes the servers, and watches the keys until all of them must be read again.
///
/// # Errors
/// Returns an error if the member cannot be queried.
async fn follow(etcd: &Etcd, member: &Uri, publisher: &Publisher) -> Result<(), String> {
    let (revision, update) = range(etcd, member).await?;
    publisher.publish(update).await;
    let create = json!({ "create_request": {
        "key": STANDARD.encode(&etcd.prefix),
        "range_end": STANDARD.encode(end_of(etcd.prefix.as_bytes())),
        "start_revision": (revision + 1).to_string(),
    }});
    let response = post(etcd, member, "/v3/watch", create.to_string()).await?;
    let mut lines = Lines::new(response);
    loop {
        let line = match tokio::time::timeout(REST, lines.next(2 * REST)).await {
            Err(_) => return Ok(()),
            Ok(line) => line?.ok_or_else(|| format!("{member} ended the watch"))?,
        };
        let WatchLine { result, error } = serde_json::from_slice(&line)
            .map_err(|error| format!("{member} sent an invalid response: {error}"))?;
        if let Some(error) = error {
            return Err(format!("{member} cannot watch the keys: {}", error.message));
        }
        // Changed values are not taken from the event: all keys are read again, so that they come
        // from the same revision.
        if result.is_some_and(|result| result.canceled || !result.events.is_empty()) {
            return Ok(());
        }
    }
}

/// Reads all keys. Returns the revision, and the servers.
async fn range(etcd: &Etcd, member: &Uri) -> Result<(i64, Update), String> {
    let body = json!({
        "key": STANDARD.encode(&etcd.prefix),
        "range_end": STANDARD.encode(end_of(etcd.prefix.as_bytes())),
    });
    let response = post(etcd, member, "/v3/kv/range", body.to_string()).await?;
    let text = whole(response).await.map_err(|why| format!("{member}: {why}"))?;
    let not_understood =
        |error: &dyn std::fmt::Display| format!("{member} sent an invalid response: {error}");
    let range: Range = serde_json::from_slice(&text).map_err(|error| not_understood(&error))?;
    let revision = range.header.revision.parse::<i64>();
    let revision = revision.map_err(|error| not_understood(&error))?;
    let entries = range.kvs.0.iter().map(|pair| entry(&etcd.prefix, pair));
    Ok((revision, entries.collect()))
}

async fn post(
    etcd: &Etcd,
    member: &Uri,
    path: &str,
    body: String,
) -> Result<http::Response<hyper::body::Incoming>, String> {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    send(member, &etcd.trust, request, body).await
}

/// Returns the first key after all those that begin with `prefix`: the prefix with its last octet
/// incremented, after removing trailing octets of 0xff.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // This value means the end of the key space.
    vec![0]
}

fn entry(prefix: &str, pair: &Pair) -> Result<Entry, String> {
    let text = |base64: &str| {
        STANDARD.decode(base64).ok().and_then(|octets| String::from_utf8(octets).ok())
    };
    let key = text(&pair.key).ok_or("a key is not valid UTF-8; remove it")?;
    let place = format!("key {key}");
    let name = key.strip_prefix(prefix).unwrap_or(&key);
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("{place} has no server name after {prefix:?}; remove it"));
    }
    let value =
        text(&pair.value).ok_or_else(|| format!("the value of {place} is not valid UTF-8"))?;
    let value: Value = serde_json::from_str(&value)
        .map_err(|error| format!("invalid value for {place}: {error}"))?;
    if value.weight > MAX_WEIGHT {
        return Err(format!("invalid value for {place}: weight must be 0 to {MAX_WEIGHT}"));
    }
    Ok(Entry {
        name: name.to_owned(),
        address: SocketAddr::new(value.address.ip().to_canonical(), value.address.port()),
        server_id: value.server_id,
        weight: value.weight,
        is_draining: value.drain,
        place,
    })
}

/// The value of a key, with the same fields as a server in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Value {
    address: SocketAddr,
    server_id: Option<String>,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    drain: bool,
}

const fn one() -> u32 {
    1
}

#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Bounded<Pair, MAX_ENTRIES>,
}

/// 64-bit numbers are encoded as strings.
#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct WatchLine {
    result: Option<WatchResult>,
    error: Option<WatchError>,
}

#[derive(Deserialize)]
struct WatchResult {
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    events: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct WatchError {
    #[serde(default)]
    message: String,
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;
