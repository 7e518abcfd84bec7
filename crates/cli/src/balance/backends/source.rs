//! `[[source]]`: sources of servers that the file does not list.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clearway_balancer::{Server, ServerState};
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use http::Uri;
use toml::Spanned;

use super::file::{ServerIds, SourceTable};
use super::printable;
use crate::file_fault::Fault;
use crate::get::bytes_of;
use crate::quic_lb_file;

/// A source of servers, and the settings shared by all of its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Source {
    /// The service to query.
    pub(in crate::balance) origin: Origin,
    server_id: Identity,
    /// Whether its servers expect a preface with the client's address.
    pub(super) has_preface: bool,
    id_len: Option<usize>,
}

/// A service to query for servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) enum Origin {
    Dns(Dns),
    Etcd(Etcd),
    Kubernetes(Kubernetes),
}

/// DNS names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Dns {
    /// A name with SRV records, or a name with address records if a port is given.
    pub(in crate::balance) name: String,
    pub(in crate::balance) port: Option<u16>,
    /// The name server to query; `None` for the system's name servers.
    pub(in crate::balance) resolver: Option<SocketAddr>,
}

/// etcd keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Etcd {
    /// The etcd members, in the order in which they are tried.
    pub(in crate::balance) members: Vec<Uri>,
    pub(in crate::balance) prefix: String,
    pub(in crate::balance) trust: Trust,
}

/// The EndpointSlices of a Kubernetes service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Kubernetes {
    /// The API server; `None` for the API server of the cluster in which this program runs.
    pub(in crate::balance) api: Option<Uri>,
    pub(in crate::balance) namespace: String,
    pub(in crate::balance) service: String,
    /// The name or the number of the servers' port; `None` if the service has only one.
    pub(in crate::balance) port: Option<String>,
    pub(in crate::balance) token: Option<PathBuf>,
    pub(in crate::balance) trust: Trust,
}

/// The files with TLS certificates and keys, which are read again for each new connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::balance) struct Trust {
    /// The certificate authorities that are trusted instead of the system's.
    pub(in crate::balance) authorities: Option<PathBuf>,
    /// This program's own certificate and key.
    pub(in crate::balance) identity: Option<(PathBuf, PathBuf)>,
}

/// The origin of the servers' QUIC-LB server IDs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Identity {
    /// The servers have no server IDs.
    None,
    /// The source states the server IDs.
    Stated,
    /// The server IDs are derived from the servers' addresses.
    Address,
    /// The file lists the server IDs by the servers' names.
    Each(Vec<(String, ServerId)>),
}

/// A server as described by a source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::balance) struct Entry {
    pub(in crate::balance) name: String,
    pub(in crate::balance) address: SocketAddr,
    /// The server ID stated by the source, in hexadecimal.
    pub(in crate::balance) server_id: Option<String>,
    pub(in crate::balance) weight: u32,
    pub(in crate::balance) is_draining: bool,
    /// The position of the entry in the source.
    pub(in crate::balance) place: String,
}

/// Maximum length of a server name from a source, in octets: a DNS name and a port.
const MAX_NAME: usize = 253 + ":65535".len();

impl Entry {
    /// Returns why the name from the source is not a valid server name; `None` if it is valid.
    pub(in crate::balance) fn fault(&self) -> Option<String> {
        let name = &self.name;
        if name.is_empty() || name.len() > MAX_NAME {
            return Some(format!(
                "the name has {} octets, but must have 1 to {MAX_NAME}",
                name.len()
            ));
        }
        (printable(name) != *name).then(|| "the name contains unprintable characters".to_owned())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(Dns { name, port: None, .. }) => write!(f, "DNS {name}"),
            Self::Dns(Dns { name, port: Some(port), .. }) => write!(f, "DNS {name}:{port}"),
            Self::Etcd(etcd) => write!(f, "etcd {}", etcd.prefix),
            Self::Kubernetes(it) => write!(f, "Kubernetes {}/{}", it.namespace, it.service),
        }
    }
}

impl Source {
    /// Returns the server that this entry describes.
    ///
    /// # Errors
    /// Returns the error, without its position.
    pub(in crate::balance) fn server(
        &self,
        entry: &Entry,
        configs: &[IdCodec],
    ) -> Result<Server, String> {
        let ids = self.ids(entry, configs)?;
        let state = match entry.is_draining {
            true => ServerState::Draining,
            false => ServerState::Active,
        };
        Ok(Server {
            name: entry.name.clone(),
            address: entry.address,
            ids,
            id_len: self.id_len,
            weight: entry.weight,
            state,
            has_preface: self.has_preface,
        })
    }

    fn ids(&self, entry: &Entry, configs: &[IdCodec]) -> Result<Vec<(ConfigId, ServerId)>, String> {
        let for_all = |id: ServerId| configs.iter().map(|it| (it.config(), id)).collect();
        match (&self.server_id, &entry.server_id) {
            (Identity::Stated, None) => {
                Err("the entry has no server ID, but the file has server-id = \"stated\""
                    .to_owned())
            }
            (Identity::Stated, Some(digits)) => {
                let octets = bytes_of(digits.strip_prefix("0x").unwrap_or(digits));
                let id = octets.and_then(|octets| ServerId::new(&octets));
                let id = id.ok_or_else(|| {
                    format!("{digits:?} is not a server ID; write 1 to 15 octets as two hexadecimal digits each")
                })?;
                Ok(for_all(id))
            }
            (Identity::None, _) => Ok(Vec::new()),
            (Identity::Address, _) => {
                let id = |codec: &IdCodec| {
                    let id = id_of_address(entry.address, codec.server_id_len())?;
                    Ok((codec.config(), id))
                };
                configs.iter().map(id).collect()
            }
            (Identity::Each(ids), _) => {
                let id = ids.iter().find(|(name, _)| *name == entry.name);
                let (_, id) = id.ok_or_else(|| {
                    format!(
                        "the file has no server ID for {:?}; add it to the source's server-id",
                        entry.name
                    )
                })?;
                Ok(for_all(*id))
            }
        }
    }
}

/// Returns the server ID of an address: 4 octets for IPv4, or 6 with the port; the last 8 octets
/// for IPv6, or 10 with the port.
fn id_of_address(address: SocketAddr, length: usize) -> Result<ServerId, String> {
    let port = address.port().to_be_bytes();
    let octets = match (address.ip(), length) {
        (IpAddr::V4(ip), 4) => ip.octets().to_vec(),
        (IpAddr::V4(ip), 6) => [&ip.octets()[..], &port].concat(),
        (IpAddr::V6(ip), 8) => ip.octets()[8..].to_vec(),
        (IpAddr::V6(ip), 10) => [&ip.octets()[8..], &port].concat(),
        (ip, _) => {
            let lengths =
                if ip.is_ipv4() { "4, or 6 with the port" } else { "8, or 10 with the port" };
            return Err(format!(
                "a server ID derived from the address {address} cannot have {length} octets; write server-id-length = {lengths}"
            ));
        }
    };
    ServerId::new(&octets).ok_or_else(|| format!("no server ID can be derived from {address}"))
}

/// Interprets a `[[source]]` table.
pub(super) fn source(table: &Spanned<SourceTable>, configs: &[IdCodec]) -> Result<Source, Fault> {
    let keys = table.get_ref();
    let origin = origin(table)?;
    let server_id = identity(table, &origin, configs)?;
    if let (Some(length), true) = (&keys.id_length, server_id != Identity::None) {
        let message = "id-length is only for servers without a server ID: otherwise the config defines \
                       the length; remove id-length or server-id";
        return Err(Fault::new(length.span(), message));
    }
    Ok(Source {
        origin,
        server_id,
        has_preface: keys.preface.unwrap_or(true),
        id_len: keys.id_length.as_ref().map(|length| length.get_ref().length()),
    })
}

fn origin(table: &Spanned<SourceTable>) -> Result<Origin, Fault> {
    let keys = table.get_ref();
    let (origin, other_keys) = match (&keys.dns, &keys.etcd, &keys.kubernetes) {
        (Some(dns), None, None) => {
            let other =
                [&keys.prefix, &keys.port, &keys.api, &keys.token, &keys.ca, &keys.cert, &keys.key];
            (Origin::Dns(of_dns(dns, keys)?), other.to_vec())
        }
        (None, Some(members), None) => {
            let other = [&keys.resolver, &keys.port, &keys.api, &keys.token];
            (Origin::Etcd(of_etcd(members, keys)?), other.to_vec())
        }
        (None, None, Some(service)) => {
            let other = [&keys.resolver, &keys.prefix];
            (Origin::Kubernetes(of_kubernetes(service, keys)?), other.to_vec())
        }
        _ => {
            let message = "a source needs exactly one of the keys dns, etcd and kubernetes";
            return Err(Fault::new(table.span(), message));
        }
    };
    match other_keys.into_iter().flatten().next() {
        None => Ok(origin),
        Some(key) => {
            let message = format!("this key does not apply to the source {origin}; remove it");
            Err(Fault::new(key.span(), message))
        }
    }
}

fn of_dns(name: &Spanned<String>, keys: &SourceTable) -> Result<Dns, Fault> {
    let wrong = || {
        let message = format!(
            "{:?} is not a DNS name; write one with SRV records, such as \"_quic._udp.example.com\", or with a port, such as \
             \"web.example.com:443\"",
            name.get_ref()
        );
        Fault::new(name.span(), message)
    };
    let (host, port) = match name.get_ref().rsplit_once(':') {
        None => (name.get_ref().as_str(), None),
        Some((host, port)) => {
            let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
            (host, Some(port))
        }
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
    };
    if host.len() > 253 || !host.strip_suffix('.').unwrap_or(host).split('.').all(is_label) {
        return Err(wrong());
    }
    let resolver = keys.resolver.as_ref().map(|resolver| {
        let wrong = || {
            let message = format!(
                "{:?} is not a name server address; write one such as \"192.0.2.53:53\"",
                resolver.get_ref()
            );
            Fault::new(resolver.span(), message)
        };
        resolver.get_ref().parse().map_err(|_| wrong())
    });
    Ok(Dns { name: host.to_owned(), port, resolver: resolver.transpose()? })
}

fn of_etcd(members: &Spanned<Vec<Spanned<String>>>, keys: &SourceTable) -> Result<Etcd, Fault> {
    if members.get_ref().is_empty() {
        let message = "the list of etcd members is empty; add one, such as \"https://etcd-1.example.com:2379\"";
        return Err(Fault::new(members.span(), message));
    }
    let Some(prefix) = keys.prefix.as_ref().filter(|prefix| !prefix.get_ref().is_empty()) else {
        let message = "etcd sources need prefix, the prefix of the servers' keys, such as \"clearway/web/\"; add it";
        return Err(Fault::new(members.span(), message));
    };
    let members = members.get_ref().iter().map(url).collect::<Result<_, _>>()?;
    Ok(Etcd { members, prefix: prefix.get_ref().clone(), trust: trust(keys)? })
}

fn of_kubernetes(service: &Spanned<String>, keys: &SourceTable) -> Result<Kubernetes, Fault> {
    let is_name = |name: &str| {
        (1..=63).contains(&name.len())
            && name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
    };
    let parts = service.get_ref().split_once('/');
    let Some((namespace, name)) = parts.filter(|(space, name)| is_name(space) && is_name(name))
    else {
        let message = format!(
            "{:?} is not a Kubernetes service; write its namespace and name, such as \"default/web\"",
            service.get_ref()
        );
        return Err(Fault::new(service.span(), message));
    };
    let text = |key: &Option<Spanned<String>>| key.as_ref().map(|it| it.get_ref().clone());
    Ok(Kubernetes {
        api: keys.api.as_ref().map(url).transpose()?,
        namespace: namespace.to_owned(),
        service: name.to_owned(),
        port: text(&keys.port),
        token: text(&keys.token).map(PathBuf::from),
        trust: trust(keys)?,
    })
}

fn url(text: &Spanned<String>) -> Result<Uri, Fault> {
    let url = text.get_ref().parse::<Uri>().ok().filter(|url| {
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        is_http && url.host().is_some_and(|host| !host.is_empty()) && url.path() == "/"
    });
    url.ok_or_else(|| {
        let message = format!(
            "{:?} is not a server URL; write one such as \"https://192.0.2.1:2379\"",
            text.get_ref()
        );
        Fault::new(text.span(), message)
    })
}

fn trust(keys: &SourceTable) -> Result<Trust, Fault> {
    let path = |key: &Spanned<String>| PathBuf::from(key.get_ref());
    let identity = match (&keys.cert, &keys.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
        (Some(one), None) | (None, Some(one)) => {
            let message = "cert and key must be used together; add the missing one";
            return Err(Fault::new(one.span(), message));
        }
    };
    Ok(Trust { authorities: keys.ca.as_ref().map(path), identity })
}

fn identity(
    table: &Spanned<SourceTable>,
    origin: &Origin,
    configs: &[IdCodec],
) -> Result<Identity, Fault> {
    let Some(stated) = &table.get_ref().server_id else {
        let message = "the source of server IDs is missing; add server-id = \"stated\", \"address\" or \"none\", or a \
                       table of names and server IDs";
        return match configs {
            [] => Ok(Identity::None),
            _ => Err(Fault::new(table.span(), message)),
        };
    };
    let wrong = |message: String| Err(Fault::new(stated.span(), message));
    let identity = match stated.get_ref() {
        ServerIds::One(word) => match (word.as_str(), origin) {
            ("none", _) => Identity::None,
            ("address", _) => Identity::Address,
            ("stated", Origin::Etcd(_) | Origin::Dns(Dns { port: None, .. })) => Identity::Stated,
            ("stated", _) => {
                return wrong(format!(
                    "{origin} does not provide server IDs; write \"address\", or a table of names and server IDs"
                ));
            }
            _ => {
                return wrong(format!(
                    "{word:?} is not a source of server IDs; write \"stated\", \"address\" or \"none\", or a table \
                     of names and server IDs"
                ));
            }
        },
        ServerIds::Each(each) => {
            let id = |(name, digits): &(Spanned<String>, Spanned<String>)| {
                let octets = quic_lb_file::octets_of_hex(digits.get_ref(), digits.span())?;
                let id = quic_lb_file::server_id(&octets, digits.span())?;
                Ok((name.get_ref().clone(), id))
            };
            Identity::Each(each.iter().map(id).collect::<Result<_, Fault>>()?)
        }
    };
    match (identity, configs) {
        (Identity::None, _) => Ok(Identity::None),
        (_, []) => wrong("there is no [[config]] for server IDs; add one".to_owned()),
        (identity, _) => Ok(identity),
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
