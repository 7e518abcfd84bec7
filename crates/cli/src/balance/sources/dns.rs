//! Servers from DNS: the targets of SRV records (RFC 2782), or the addresses of a name.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};

use super::super::backends::{Dns, Entry};
use super::bounds::MAX_ENTRIES;
use super::{Publisher, RETRY};

/// Minimum interval between queries, no matter how short the records' TTL is.
const SHORTEST: Duration = Duration::from_secs(1);
/// Total timeout for all queries of one round.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum weight of a server, the same as in the file.
const MAX_WEIGHT: u32 = 1000;

/// Publishes the servers, and queries again when the TTL has expired.
pub(super) async fn ask(dns: &Dns, publisher: &Publisher) -> ! {
    loop {
        let begun = Instant::now();
        let answered = tokio::time::timeout(TIMEOUT, answer(dns)).await;
        let late =
            || Err(format!("DNS did not answer all queries for {} within {TIMEOUT:?}", dns.name));
        let wait = match answered.unwrap_or_else(|_| late()) {
            Ok((entries, valid_until)) => {
                let took = begun.elapsed();
                publisher.publish(Ok(entries)).await;
                // No matter how short the records' TTL is, at most half of the time is spent on
                // queries.
                let valid = valid_until.saturating_duration_since(Instant::now());
                valid.max(SHORTEST).max(took)
            }
            Err(why) => {
                publisher.publish(Err(why)).await;
                RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Returns the servers, and the time at which the response expires.
async fn answer(dns: &Dns) -> Result<(Vec<Entry>, Instant), String> {
    let resolver = resolver(dns)?;
    let (entries, valid_until) = match dns.port {
        Some(port) => addresses(&resolver, &dns.name, port).await,
        None => targets(&resolver, &dns.name).await,
    }?;
    match entries.is_empty() {
        true => Err(format!("{} has no records", dns.name)),
        false => Ok((entries, valid_until)),
    }
}

/// Creates a resolver with an empty cache, which uses the system's current name servers unless one
/// is configured.
fn resolver(dns: &Dns) -> Result<TokioResolver, String> {
    let resolver = match dns.resolver {
        None => Resolver::builder_tokio(),
        Some(address) => {
            let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
            connections.iter_mut().for_each(|connection| connection.port = address.port());
            let server = NameServerConfig::new(address.ip(), true, connections);
            let config = ResolverConfig::from_name_servers(vec![server]);
            Ok(Resolver::builder_with_config(config, TokioRuntimeProvider::default()))
        }
    };
    let no_resolver = |error: NetError| format!("no name server is configured: {error}");
    resolver.map_err(no_resolver)?.build().map_err(no_resolver)
}

/// Returns the addresses of a name: each is a server, named after the address.
async fn addresses(
    resolver: &TokioResolver,
    name: &str,
    port: u16,
) -> Result<(Vec<Entry>, Instant), String> {
    let (v4, v6) = tokio::join!(
        look_up(resolver, name, RecordType::A),
        look_up(resolver, name, RecordType::AAAA)
    );
    let (v4, v6) = (v4?, v6?);
    let found = [&v4, &v6].into_iter().flatten();
    let valid_until = found.clone().map(Lookup::valid_until).min().unwrap_or_else(Instant::now);
    let entries = found.flat_map(|lookup| ips(lookup, name)).map(|ip| {
        let address = SocketAddr::new(ip, port);
        Entry {
            name: address.to_string(),
            address,
            server_id: None,
            weight: 1,
            is_draining: false,
            place: format!("address {ip} of {name}"),
        }
    });
    Ok((entries.collect(), valid_until))
}

/// Returns the targets of the SRV records of a name: each is a server, named after the target.
/// Targets with the lowest priority value receive new clients according to their weights; the
/// others receive none.
async fn targets(resolver: &TokioResolver, name: &str) -> Result<(Vec<Entry>, Instant), String> {
    let Some(lookup) = look_up(resolver, name, RecordType::SRV).await? else {
        return Ok((Vec::new(), Instant::now()));
    };
    let mut valid_until = lookup.valid_until();
    let records = records(&lookup, name).filter_map(|data| match data {
        RData::SRV(srv) => Some(srv),
        _ => None,
    });
    // If the target is only a dot, the service is not available there.
    let records: Vec<&SRV> = records.filter(|srv| !srv.target.is_root()).collect();
    let lowest = records.iter().map(|srv| srv.priority).min().unwrap_or_default();
    let mut entries = Vec::new();
    for srv in &records {
        let target = srv.target.to_utf8();
        let (ip, valid) = address_of(resolver, &target).await?;
        valid_until = valid_until.min(valid);
        let target = target.trim_end_matches('.');
        entries.push(Entry {
            name: format!("{target}:{}", srv.port),
            address: SocketAddr::new(ip, srv.port),
            server_id: stated_id(target),
            weight: weight(srv, &records, lowest),
            is_draining: false,
            place: format!("SRV target {target}"),
        });
    }
    Ok((entries, valid_until))
}

/// Returns the weight of a record with the lowest priority value, scaled so that none exceeds the
/// file's maximum, and none is 0: in SRV, 0 is a very small chance, or no preference if all are 0.
fn weight(srv: &SRV, records: &[&SRV], lowest: u16) -> u32 {
    if srv.priority != lowest {
        return 0;
    }
    let greatest = records.iter().map(|srv| u32::from(srv.weight)).max().unwrap_or_default();
    let weight = u32::from(srv.weight);
    match greatest > MAX_WEIGHT {
        true => (weight * MAX_WEIGHT / greatest).max(1),
        false => weight.max(1),
    }
}

/// Returns the server ID in a target: the text after the last hyphen of its first label.
fn stated_id(target: &str) -> Option<String> {
    let label = target.split('.').next()?;
    let (_, digits) = label.rsplit_once('-')?;
    Some(digits.to_owned())
}

/// Returns a single address of a target: its lowest IPv4 address, or else its lowest IPv6 address.
async fn address_of(resolver: &TokioResolver, target: &str) -> Result<(IpAddr, Instant), String> {
    for family in [RecordType::A, RecordType::AAAA] {
        if let Some(lookup) = look_up(resolver, target, family).await?
            && let Some(ip) = ips(&lookup, target).min()
        {
            return Ok((ip, lookup.valid_until()));
        }
    }
    Err(format!("SRV target {target} has no address"))
}

fn ips(lookup: &Lookup, name: &str) -> impl Iterator<Item = IpAddr> {
    records(lookup, name).filter_map(|data| match data {
        RData::A(ip) => Some(IpAddr::V4(ip.0)),
        RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
        _ => None,
    })
}

/// Maximum number of aliases (CNAME) between a name and its records, the same as in the resolver.
const MAX_ALIASES: usize = 8;

/// Returns the records of a name, or of the name that it is an alias of. A response may contain
/// records of other names, too.
fn records<'a>(lookup: &'a Lookup, name: &str) -> impl Iterator<Item = &'a RData> {
    let mut names: Vec<Name> = Name::from_utf8(absolute(name)).into_iter().collect();
    for record in lookup.answers() {
        if let RData::CNAME(alias) = &record.data
            && names.last() == Some(&record.name)
            && names.len() <= MAX_ALIASES
        {
            names.push(alias.0.clone());
        }
    }
    let records = lookup.answers().iter().filter(move |record| names.contains(&record.name));
    records.map(|record| &record.data)
}

/// Appends a dot, so that the resolver does not append search domains.
fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}

/// Looks up the records of a name; `None` if it has no records of this type.
async fn look_up(
    resolver: &TokioResolver,
    name: &str,
    kind: RecordType,
) -> Result<Option<Lookup>, String> {
    match resolver.lookup(absolute(name).as_str(), kind).await {
        Ok(lookup) if lookup.answers().len() > MAX_ENTRIES => {
            Err(format!("{name} has more than {MAX_ENTRIES} records of type {kind}"))
        }
        Ok(lookup) => Ok(Some(lookup)),
        Err(error) if error.is_no_records_found() => Ok(None),
        Err(error) => Err(format!("cannot look up the {kind} records of {name}: {error}")),
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
