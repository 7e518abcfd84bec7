//! Servers from the endpoints of a Kubernetes service: its EndpointSlices, listed and then watched.
//!
//! The Kubernetes client crates (`kube`, `k8s-openapi`) would add 73 crates to a program of 200,
//! just for two kinds of requests for one kind of object. This module therefore makes these
//! requests itself, with the HTTP client that etcd needs anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, Response, Uri, header};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::backends::{Entry, Kubernetes, Trust};
use super::bounds::{Bounded, First, MAX_ENTRIES, PAUSE, Pace, Short};
use super::http::{Lines, send, whole};
use super::{Publisher, RETRY, Update};

/// Requested duration of a watch, in seconds.
const WATCH_SECONDS: u64 = 240;
/// A watch is considered lost if nothing arrives for this long.
const TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// HTTP status 410 (Gone): the version to watch from is too old, so everything must be listed
/// again.
const GONE: u16 = 410;
/// Directory in which a pod finds the token and the CA certificate for its API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Publishes the servers, and watches the slices.
pub(super) async fn ask(kubernetes: &Kubernetes, publisher: &Publisher) -> ! {
    let mut pace = Pace::new();
    loop {
        pace.wait().await;
        if let Err(why) = follow(kubernetes, publisher).await {
            publisher.publish(Err(why)).await;
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Publishes the servers, and watches the slices until they must be listed again.
///
/// # Errors
/// Returns an error if the API server cannot be queried.
async fn follow(kubernetes: &Kubernetes, publisher: &Publisher) -> Result<(), String> {
    let api = Api::of(kubernetes)?;
    let (mut slices, mut version) = api.list(kubernetes).await?;
    publisher.publish(entries(kubernetes, &slices)).await;
    let (mut has_changed, mut published) = (false, Instant::now());
    let mut pace = Pace::new();
    loop {
        // The API server may end each watch immediately, so requests are rate-limited.
        pace.wait().await;
        let mut lines = Lines::new(api.watch(kubernetes, &version).await?);
        loop {
            let line = tokio::select! {
                biased;
                // Changes within this interval are published together.
                () = tokio::time::sleep_until(published + PAUSE), if has_changed => {
                    publisher.publish(entries(kubernetes, &slices)).await;
                    (has_changed, published) = (false, Instant::now());
                    continue;
                }
                line = lines.next(TIMEOUT) => line.map_err(|why| api.failed(&why))?,
            };
            let Some(line) = line else { break };
            match api.event(&line)? {
                // There are no other changes up to this version.
                Event::Bookmark(Metadata { resource_version, .. }) => version = resource_version,
                Event::Changed(slice) => {
                    version.clone_from(&slice.metadata.resource_version);
                    slices.insert(slice.metadata.name.0.clone(), slice);
                    has_changed = true;
                    check_size(&slices).map_err(|why| api.failed(&why))?;
                }
                Event::Deleted(metadata) => {
                    version = metadata.resource_version;
                    slices.remove(&metadata.name.0);
                    has_changed = true;
                }
                Event::Error(Status { code: GONE, .. }) => return Ok(()),
                Event::Error(status) => return Err(api.failed(&status.message)),
            }
        }
    }
}

/// Maximum total of endpoints, ports and slices to keep: enough for the maximum number of servers
/// with two address families.
const MAX_SIZE: usize = 4 * MAX_ENTRIES;

/// # Errors
/// Returns an error if there are more slices, endpoints and ports than a balancer can use.
fn check_size(slices: &BTreeMap<String, Slice>) -> Result<(), String> {
    let size = slices.values().map(Slice::size).sum::<usize>();
    match size > MAX_SIZE {
        true => Err(format!(
            "the service has more than {MAX_SIZE} slices, endpoints and ports; a balancer has at most {MAX_ENTRIES} servers"
        )),
        false => Ok(()),
    }
}

/// The API server.
struct Api {
    url: Uri,
    trust: Trust,
    /// The file with the token, which is replaced from time to time.
    token: Option<PathBuf>,
}

impl Api {
    fn of(kubernetes: &Kubernetes) -> Result<Self, String> {
        let Kubernetes { api, token, trust, .. } = kubernetes;
        if let Some(url) = api {
            return Ok(Self { url: url.clone(), trust: trust.clone(), token: token.clone() });
        }
        let variable = |name| std::env::var(name).ok();
        let (host, port) = variable("KUBERNETES_SERVICE_HOST")
            .zip(variable("KUBERNETES_SERVICE_PORT"))
            .ok_or("not running in a Kubernetes pod; set api = \"https://…\" in the source")?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let url = format!("https://{host}:{port}/").parse();
        let file = |name| Path::new(ACCOUNT).join(name);
        let mut trust = trust.clone();
        trust.authorities.get_or_insert_with(|| file("ca.crt"));
        Ok(Self {
            url: url.map_err(|error| {
                format!("invalid KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT: {error}")
            })?,
            trust,
            token: Some(token.clone().unwrap_or_else(|| file("token"))),
        })
    }

    /// Parses a line of a watch.
    fn event(&self, line: &[u8]) -> Result<Event, String> {
        let Kind { kind } = self.read(line)?;
        Ok(match kind.0.as_str() {
            "BOOKMARK" => Event::Bookmark(self.object::<Object>(line)?.metadata),
            "ADDED" | "MODIFIED" => Event::Changed(self.object(line)?),
            "DELETED" => Event::Deleted(self.object::<Object>(line)?.metadata),
            "ERROR" => Event::Error(self.object(line)?),
            other => return Err(self.failed(&format!("unknown event {other:?}"))),
        })
    }

    fn object<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T, String> {
        Ok(self.read::<Of<T>>(line)?.object)
    }

    fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, String> {
        serde_json::from_slice(text).map_err(|error| self.failed(&error))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> String {
        format!("{}: {why}", self.url)
    }

    /// Returns all slices by name, and the resource version from which to watch them.
    async fn list(&self, of: &Kubernetes) -> Result<(BTreeMap<String, Slice>, Short), String> {
        let response = self.get(of, "").await?;
        let text = whole(response).await.map_err(|why| self.failed(&why))?;
        let list: List = self.read(&text)?;
        let slices = list.items.0.into_iter().map(|slice| (slice.metadata.name.0.clone(), slice));
        let slices = slices.collect();
        check_size(&slices).map_err(|why| self.failed(&why))?;
        Ok((slices, list.metadata.resource_version))
    }

    async fn watch(&self, of: &Kubernetes, version: &Short) -> Result<Response<Incoming>, String> {
        let query = format!(
            "&watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            version.0
        );
        self.get(of, &query).await
    }

    async fn get(&self, of: &Kubernetes, query: &str) -> Result<Response<Incoming>, String> {
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{}{query}",
            of.namespace, of.service
        );
        let mut request = Request::get(path).header(header::ACCEPT, "application/json");
        if let Some(file) = &self.token {
            let token = std::fs::read_to_string(file);
            let token =
                token.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        send(&self.url, &self.trust, request, String::new()).await
    }
}

/// Returns the servers of all slices. An endpoint may temporarily be in several slices. Endpoints
/// with two address families are in slices of both; their IPv4 address is used.
fn entries(of: &Kubernetes, slices: &BTreeMap<String, Slice>) -> Update {
    let mut entries = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let families = ["IPv4", "IPv6"];
    for family in families {
        for slice in slices.values().filter(|slice| slice.address_type.0 == family) {
            let place = format!("EndpointSlice {}", slice.metadata.name.0);
            let port = port(of, slice).map_err(|why| format!("{place}: {why}"))?;
            for endpoint in slice.endpoints.iter().flat_map(|it| &it.0) {
                let entry = entry(endpoint, port, &place)?;
                let is_of_family = entry.address.is_ipv4() == (family == "IPv4");
                if is_of_family && seen.insert((entry.name.clone(), family)) {
                    entries.entry(entry.name.clone()).or_insert(entry);
                }
            }
        }
    }
    Ok(entries.into_values().collect())
}

fn entry(endpoint: &Endpoint, port: u16, place: &str) -> Result<Entry, String> {
    // All addresses of an endpoint are equivalent, and in practice there is only one.
    let address = endpoint.addresses.0.as_ref();
    let Short(address) = address.ok_or_else(|| format!("{place} has no address"))?;
    let ip: IpAddr =
        address.parse().map_err(|_| format!("{place}: {address:?} is not an address"))?;
    let pod = endpoint.target_ref.as_ref().map(|target| &target.name.0);
    let name = pod.filter(|name| !name.is_empty()).unwrap_or(address);
    Ok(Entry {
        name: name.clone(),
        address: SocketAddr::new(ip, port),
        server_id: None,
        weight: 1,
        // An endpoint that is not ready or is terminating may still have connections. If readiness
        // is unknown, the endpoint counts as ready.
        is_draining: endpoint.conditions.ready == Some(false),
        place: format!("{place}, {name}"),
    })
}

/// Returns the servers' port in a slice.
fn port(of: &Kubernetes, slice: &Slice) -> Result<u16, String> {
    let ports: Vec<&Port> =
        slice.ports.iter().flat_map(|it| &it.0).filter(|it| it.protocol.0 == "UDP").collect();
    let is_meant = |port: &&&Port| match &of.port {
        Some(name) => port.name.0 == *name || port.port.is_some_and(|it| it.to_string() == *name),
        None => true,
    };
    let mut meant = ports.iter().filter(is_meant);
    match (meant.next().and_then(|port| port.port), meant.next()) {
        (Some(port), None) => Ok(port),
        (None, _) => Err(match &of.port {
            Some(name) => format!("the service has no UDP port {name}"),
            None => "the service has no UDP port".to_owned(),
        }),
        (Some(_), Some(_)) => {
            Err("the service has several UDP ports; write port = \"…\" in the source".to_owned())
        }
    }
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    items: Bounded<Slice, MAX_ENTRIES>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Short,
    resource_version: Short,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slice {
    metadata: Metadata,
    address_type: Short,
    endpoints: Option<Bounded<Endpoint, MAX_ENTRIES>>,
    ports: Option<Bounded<Port, MAX_ENTRIES>>,
}

impl Slice {
    /// Returns the size that counts toward [`MAX_SIZE`].
    fn size(&self) -> usize {
        let endpoints = self.endpoints.as_ref().map_or(0, |it| it.0.len());
        let ports = self.ports.as_ref().map_or(0, |it| it.0.len());
        1 + endpoints + ports
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    addresses: First<Short>,
    #[serde(default)]
    conditions: Conditions,
    target_ref: Option<TargetRef>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct TargetRef {
    #[serde(default)]
    name: Short,
}

#[derive(Deserialize)]
struct Port {
    #[serde(default)]
    name: Short,
    #[serde(default = "tcp")]
    protocol: Short,
    port: Option<u16>,
}

/// Returns the default protocol of a port.
fn tcp() -> Short {
    Short("TCP".to_owned())
}

/// A parsed line of a watch.
enum Event {
    Bookmark(Metadata),
    Changed(Slice),
    Deleted(Metadata),
    Error(Status),
}

/// The kind of a watch line. The object is parsed after its kind is known: as a generic JSON value,
/// it would take many times the memory of the line.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Short,
}

#[derive(Deserialize)]
struct Of<T> {
    object: T,
}

/// The fields that every object has.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

/// An error object (`Status`).
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
