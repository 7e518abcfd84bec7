//! Interpretation of the `--backends` file.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use clearway::rustls::pki_types::ServerName;
use clearway_balancer::{AddressFault, HealthSettings, Server, ServerState};
use clearway_wire::quic_lb::{ConfigError, ConfigId, IdCodec, ServerId};
use toml::Spanned;

use super::file::{BackendsFile, ConfigTable, HealthTable, RetryTable, ServerIds, ServerTable};
use super::places::{Places, ServerPlaces};
use super::source::{Source, source};
use crate::file_fault::Fault;
use crate::quic_lb_file;

/// Number of octets that Clearway servers add to an encrypted connection ID: the shard number.
const SHARD_LEN: usize = 1;

/// Default timeout of a health check.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The settings of the health checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Checks {
    /// The interval of the checks, and the consequences of their outcome.
    pub(in crate::balance) settings: HealthSettings,
    /// The timeout of a health check.
    pub(in crate::balance) timeout: Duration,
    /// The server name (SNI) that health checks use.
    pub(in crate::balance) server_name: String,
    /// The application protocol (ALPN) that health checks use.
    pub(in crate::balance) application_protocol: String,
    /// Whether health checks are disabled.
    pub(in crate::balance) is_off: bool,
}

/// The interpreted file, with the positions of its parts.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) seed: u64,
    pub(super) configs: Vec<IdCodec>,
    pub(super) servers: Vec<Server>,
    pub(super) sources: Vec<Source>,
    pub(super) health: Checks,
    pub(super) retry_above: Option<u64>,
    pub(super) places: Places,
}

/// Interprets `file`. It does not check whether the servers form a valid pool.
pub(super) fn resolve(file: &BackendsFile) -> Result<Resolved, Fault> {
    let configs = file.config.iter().map(config).collect::<Result<Vec<_>, _>>()?;
    let resolved = file.server.iter().map(|table| server(table, &configs));
    let (servers, server_places): (Vec<_>, _) =
        resolved.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let config_places = configs.iter().zip(&file.config);
    let config_places = config_places.map(|(codec, table)| (codec.config(), table.id.span()));
    let places = Places { configs: config_places.collect(), servers: server_places };
    let sources: Vec<Source> =
        file.source.iter().map(|table| source(table, &configs)).collect::<Result<_, _>>()?;
    let seed = file.seed.map_or(0, |seed| seed.get());
    let retry_above = file.retry.as_ref();
    let retry_above = retry_above.map(|table| retry(table, &servers, &sources)).transpose()?;
    let health = health(&file.health)?;
    Ok(Resolved { seed, configs, servers, sources, health, retry_above, places })
}

/// Retry tokens are bound to the client's address, so servers must see that address in order to
/// accept them.
fn retry(table: &RetryTable, servers: &[Server], sources: &[Source]) -> Result<u64, Fault> {
    let listed = servers.iter().find(|it| !it.has_preface).map(|it| format!("{:?}", it.name));
    let asked = || sources.iter().find(|it| !it.has_preface).map(|it| it.origin.to_string());
    if let Some(which) = listed.or_else(asked) {
        let message = format!(
            "{which} has preface = false, so it does not see the clients' addresses and cannot \
             accept this balancer's tokens; remove [retry], or use clearway serve --balancer there"
        );
        return Err(Fault::new(table.above.span(), message));
    }
    Ok(table.above.get_ref().get())
}

fn config(table: &ConfigTable) -> Result<IdCodec, Fault> {
    let number = table.id.get_ref().small() as u8;
    let id = ConfigId::new(number)
        .ok_or_else(|| Fault::new(table.id.span(), format!("config {number} does not exist")))?;
    let key = table.key.as_ref().map(quic_lb_file::key).transpose()?;
    let server_id_len = table.server_id_length.get_ref().length();
    let nonce_len = table.nonce_length.get_ref().length();
    let codec = IdCodec::new(id, server_id_len, nonce_len, key)
        .map_err(|error| Fault::new(table.nonce_length.span(), advised(error)))?;
    let (extra_len, place) = match &table.further_octets {
        Some(further) => (further.get_ref().length(), further.span()),
        None if key.is_some() => (SHARD_LEN, table.nonce_length.span()),
        None => (0, table.nonce_length.span()),
    };
    codec.with_extra(extra_len).map_err(|error| Fault::new(place, advised(error)))
}

/// Describes why the lengths in a configuration are invalid, and how to fix them.
fn advised(error: ConfigError) -> String {
    let advice = match error {
        ConfigError::IdLength(_) => {
            "shorten the server ID or the nonce, or write further-octets = 0 if the servers add none"
        }
        _ => "shorten the server ID or the nonce; a total of 16 octets is decrypted fastest",
    };
    format!("{error}; {advice}")
}

fn server(table: &ServerTable, configs: &[IdCodec]) -> Result<(Server, ServerPlaces), Fault> {
    let name = table.name.get_ref();
    if name.is_empty() || name.chars().any(char::is_control) {
        let message = "a server name must have at least one character and no control characters; \
                       choose another one";
        return Err(Fault::new(table.name.span(), message));
    }
    let identified = server_ids(table, configs)?;
    if let (Some(length), false) = (&table.id_length, identified.is_empty()) {
        let message = "id-length is only for servers without a server ID: otherwise the config defines \
                       the length; remove id-length or the server ID";
        return Err(Fault::new(length.span(), message));
    }
    let server = Server {
        name: name.clone(),
        address: address(&table.address)?,
        ids: identified.iter().map(|(config, id, _)| (*config, *id)).collect(),
        id_len: table.id_length.as_ref().map(|length| length.get_ref().length()),
        weight: table.weight.map_or(1, |weight| weight.small()),
        state: match table.drain {
            Some(true) => ServerState::Draining,
            _ => ServerState::Active,
        },
        has_preface: table.preface.unwrap_or(true),
    };
    let places = ServerPlaces {
        name: table.name.span(),
        address: table.address.span(),
        ids: identified.into_iter().map(|(config, _, place)| (config, place)).collect(),
    };
    Ok((server, places))
}

fn address(text: &Spanned<String>) -> Result<SocketAddr, Fault> {
    let wrong = |what: &str| {
        let message = format!(
            "{:?} {what}; write an IP address and a port, such as \"192.0.2.1:443\" or \"[2001:db8::1]:443\"",
            text.get_ref()
        );
        Fault::new(text.span(), message)
    };
    let address: SocketAddr = text.get_ref().parse().map_err(|_| wrong("is not an address"))?;
    if let Some(fault) = AddressFault::of(address) {
        return Err(wrong(&format!("cannot be a server address: {fault}")));
    }
    // The zone of a link-local address is kept.
    if let (SocketAddr::V6(_), IpAddr::V6(_)) = (address, address.ip().to_canonical()) {
        return Ok(address);
    }
    // An IPv4-mapped IPv6 address becomes an IPv4 address.
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// A server ID, its configuration, and its position.
type Identified = (ConfigId, ServerId, Range<usize>);

fn server_ids(table: &ServerTable, configs: &[IdCodec]) -> Result<Vec<Identified>, Fault> {
    match (&table.server_id, &table.server_id_base64) {
        (None, None) => Ok(Vec::new()),
        (Some(_), Some(base64)) => {
            let message =
                "server-id and server-id-base64 are mutually exclusive; remove one of them";
            Err(Fault::new(base64.span(), message))
        }
        (None, Some(base64)) => {
            let octets = quic_lb_file::octets_of_base64(base64)?;
            let id = quic_lb_file::server_id(&octets, base64.span())?;
            Ok(vec![(only(configs, base64.span())?, id, base64.span())])
        }
        (Some(ids), None) => match ids.get_ref() {
            ServerIds::One(digits) => {
                let id = from_digits(digits, ids.span())?;
                Ok(vec![(only(configs, ids.span())?, id, ids.span())])
            }
            ServerIds::Each(each) => each.iter().map(of_config).collect(),
        },
    }
}

/// Returns the only configuration, for a server ID without a configuration number.
fn only(configs: &[IdCodec], place: Range<usize>) -> Result<ConfigId, Fault> {
    match configs {
        [config] => Ok(config.config()),
        [] => Err(Fault::new(
            place,
            "there is no [[config]] for this server ID; add one, or remove the server ID",
        )),
        _ => {
            let numbers: Vec<_> = configs.iter().map(|it| it.config().number()).collect();
            let each: Vec<_> = numbers.iter().map(|number| format!("{number} = \"…\"")).collect();
            let message = format!(
                "there are {} configs, and this server ID does not specify one; write server-id = {{ {} }}",
                configs.len(),
                each.join(", ")
            );
            Err(Fault::new(place, message))
        }
    }
}

fn of_config((number, digits): &(Spanned<String>, Spanned<String>)) -> Result<Identified, Fault> {
    let config = number.get_ref().parse().ok().and_then(ConfigId::new).ok_or_else(|| {
        let message = format!("{:?} is not a config ID; use 0 to 6", number.get_ref());
        Fault::new(number.span(), message)
    })?;
    Ok((config, from_digits(digits.get_ref(), digits.span())?, digits.span()))
}

fn from_digits(digits: &str, place: Range<usize>) -> Result<ServerId, Fault> {
    let octets = quic_lb_file::octets_of_hex(digits, place.clone())?;
    quic_lb_file::server_id(&octets, place)
}

fn health(table: &HealthTable) -> Result<Checks, Fault> {
    if let Some(name) = &table.server_name
        && ServerName::try_from(name.get_ref().as_str()).is_err()
    {
        let message = format!(
            "{:?} is not a server name; write a DNS name or an IP address that the servers accept",
            name.get_ref()
        );
        return Err(Fault::new(name.span(), message));
    }
    // TLS limits protocol names to 255 octets (RFC 7301 §3.1).
    if let Some(protocol) = &table.application_protocol
        && !(1..=255).contains(&protocol.get_ref().len())
    {
        let message = "an application protocol must have 1 to 255 octets; write one that the servers support, such as \"h3\"";
        return Err(Fault::new(protocol.span(), message));
    }
    let text = |value: &Option<Spanned<String>>, default: &str| {
        value.as_ref().map_or_else(|| default.to_owned(), |value| value.get_ref().clone())
    };
    let default = HealthSettings::default();
    Ok(Checks {
        settings: HealthSettings {
            interval: table.interval.map_or(default.interval, |time| time.0),
            up_after: table.up_after.map_or(default.up_after, |count| count.small()),
            down_after: table.down_after.map_or(default.down_after, |count| count.small()),
            slow_start: table.slow_start.map_or(default.slow_start, |time| time.0),
        },
        timeout: table.timeout.map_or(TIMEOUT, |time| time.0),
        server_name: text(&table.server_name, "localhost"),
        application_protocol: text(&table.application_protocol, "h3"),
        is_off: table.off.unwrap_or(false),
    })
}
