//! The `--backends` file: servers, sources of additional servers, connection ID formats, and health
//! checks.
//!
//! The file is read in three steps: `file` parses the keys and their types, `resolve` interprets
//! them, and the servers must form a valid [`Pool`]. Errors are reported with line and column.
//! Servers from sources are added to those in the file, and together they must also form a valid
//! pool.

mod file;
mod places;
mod resolve;
mod source;

use std::path::Path;
use std::sync::Arc;

use clearway_balancer::{Pool, PoolError, Server};
use clearway_wire::quic_lb::IdCodec;

use super::own::Own;
use crate::failure::Failure;
use crate::file_fault::Fault;
pub(super) use resolve::Checks;
pub(super) use source::{Dns, Entry, Etcd, Kubernetes, Origin, Source, Trust};

/// The contents of the file.
#[derive(Clone, Debug)]
pub(super) struct Backends {
    seed: u64,
    /// The formats of connection IDs.
    pub(super) configs: Vec<IdCodec>,
    /// The servers in the state given by the file: active or draining.
    pub(super) servers: Vec<Server>,
    /// The sources of additional servers.
    pub(super) sources: Vec<Source>,
    /// The health checks.
    pub(super) health: Checks,
    /// Rate of new clients, per second, above which they receive a Retry.
    pub(super) retry_above: Option<u64>,
    /// The reasons why source entries were skipped.
    pub(super) skipped: Vec<String>,
}

impl Backends {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub(super) fn read(path: &Path, own: &Own) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(format!("cannot read the backends in {}: {error}", path.display()))
                .advise("check the path and the permissions of the file")
        })?;
        Self::parse_beside(&text, Some(own)).map_err(|fault| fault.in_file(path, &text))
    }

    /// Parses `text` for a balancer whose own addresses are unknown.
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        Self::parse_beside(text, None)
    }

    /// Parses `text`.
    ///
    /// # Errors
    /// Returns the first error in the text.
    fn parse_beside(text: &str, own: Option<&Own>) -> Result<Self, Fault> {
        let file = toml::from_str(text).map_err(|error| Fault::of_toml(&error))?;
        let resolve::Resolved { seed, configs, servers, sources, health, retry_above, places } =
            resolve::resolve(&file)?;
        if servers.is_empty() && sources.is_empty() {
            return Err(Fault::new(
                0..0,
                "the file lists no servers; add [[server]] with name and address, or [[source]]",
            ));
        }
        if let Some(fault) = own.and_then(|own| places.address_fault(&servers, own)) {
            return Err(fault);
        }
        let skipped = Vec::new();
        let backends = Self { seed, configs, servers, sources, health, retry_above, skipped };
        match backends.pool(backends.servers.clone()) {
            Ok(_) => Ok(backends),
            Err(error) => Err(places.fault(&error, &backends.configs, &backends.servers)),
        }
    }

    /// Adds the servers that the sources returned, in the order of the sources. Entries whose name
    /// or address is invalid for a server are [skipped](Self::skipped).
    ///
    /// # Errors
    /// Returns an error if an entry does not describe a server, if servers contradict each other,
    /// or if there are no servers.
    pub(super) fn with_entries(&self, found: &[&[Entry]], own: &Own) -> Result<Self, Failure> {
        let mut servers = self.servers.clone();
        let mut places: Vec<String> =
            servers.iter().map(|_| "is listed in the file".to_owned()).collect();
        let mut skipped = Vec::new();
        for (source, entries) in self.sources.iter().zip(found) {
            let origin = &source.origin;
            for entry in *entries {
                if let Some(fault) = entry.fault().or_else(|| own.fault(entry.address)) {
                    let (place, address) = (printable(&entry.place), entry.address);
                    skipped.push(format!(
                        "{origin}, {place}: {address} cannot be a server address: {fault}"
                    ));
                    continue;
                }
                let server = source
                    .server(entry, &self.configs)
                    .map_err(|what| Failure::new(format!("{origin}, {}: {what}", entry.place)))?;
                servers.push(server);
                places.push(format!("comes from {origin}, {}", entry.place));
            }
        }
        if servers.is_empty() {
            let origins: Vec<_> = self.sources.iter().map(|it| it.origin.to_string()).collect();
            let first = skipped.first().map(|why| format!("; {why}")).unwrap_or_default();
            return Err(Failure::new(format!("{} has no servers{first}", origins.join(", "))));
        }
        match self.pool(servers.clone()) {
            Ok(_) => Ok(Self { servers, skipped, ..self.clone() }),
            Err(error) => Err(contradiction(&error, &servers, &places)),
        }
    }

    /// Creates a pool of these servers: the servers of this file, with current weights and states.
    ///
    /// # Errors
    /// Returns an error if the servers do not form a valid pool.
    pub(super) fn pool(&self, servers: Vec<Server>) -> Result<Arc<Pool>, PoolError> {
        let pool = Pool::new(self.configs.clone(), servers)?;
        Ok(Arc::new(pool.with_seed(self.seed)))
    }
}

/// Makes a string from a source safe to print: control characters are escaped, and long strings are
/// truncated.
pub(super) fn printable(text: &str) -> String {
    const MOST: usize = 500;
    let is_plain = |c: char| c == '\'' || c == '"' || c.escape_debug().len() == 1;
    let escaped = |c: char| match is_plain(c) {
        true => c.to_string(),
        false => c.escape_debug().to_string(),
    };
    let mut kept: String = text.chars().take(MOST).map(escaped).collect();
    if text.chars().nth(MOST).is_some() {
        kept.push('…');
    }
    kept
}

/// Describes a conflict between servers of several sources, with their origins.
fn contradiction(error: &PoolError, servers: &[Server], places: &[String]) -> Failure {
    let text = error.to_string();
    let is_named = |server: &Server| text.contains(&format!("{:?}", server.name));
    let named = servers.iter().zip(places).filter(|(server, _)| is_named(server));
    let named: Vec<_> = named.map(|(server, place)| format!("{:?} {place}", server.name)).collect();
    Failure::new(format!("{text}: {}", named.join(", ")))
}

#[cfg(test)]
#[path = "backends_tests.rs"]
mod tests;
