//! The file of `--backends`: servers, sources of further servers, the form of their connection IDs, and how they are checked.
//!
//! It is read in three steps: `file` has the keys and their types, `resolve` what they mean, and the servers have to be a
//! [`Pool`]. What is wrong is reported with line and column. What sources say of further servers is added to what the file
//! says, and both together have to be a pool.

mod file;
mod places;
mod resolve;
mod source;

use std::path::Path;
use std::sync::Arc;

use clearway_balancer::{Pool, PoolError, Server};
use clearway_wire::quic_lb::IdCodec;

use crate::failure::Failure;
use crate::file_fault::Fault;
pub(super) use resolve::Checks;
pub(super) use source::{Dns, Entry, Etcd, Kubernetes, Origin, Source, Trust};

/// What the file says.
#[derive(Clone, Debug)]
pub(super) struct Backends {
    seed: u64,
    /// The forms of connection IDs.
    pub(super) configs: Vec<IdCodec>,
    /// The servers as the file describes them: active, or draining.
    pub(super) servers: Vec<Server>,
    /// Where further servers come from.
    pub(super) sources: Vec<Source>,
    /// How they are checked.
    pub(super) health: Checks,
    /// With more new clients than this in a second, they have to answer a Retry.
    pub(super) retry_above: Option<u64>,
}

impl Backends {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or something in it is wrong.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(format!("cannot read the backends in {}: {error}", path.display()))
                .advise("check the path and the permissions of the file")
        })?;
        Self::parse(&text).map_err(|fault| fault.in_file(path, &text))
    }

    /// What `text` says.
    ///
    /// # Errors
    /// What is wrong in it.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let file = toml::from_str(text).map_err(|error| Fault::of_toml(&error))?;
        let resolve::Resolved { seed, configs, servers, sources, health, retry_above, places } =
            resolve::resolve(&file)?;
        if servers.is_empty() && sources.is_empty() {
            return Err(Fault::new(
                0..0,
                "there is no server; add [[server]] with name and address, or [[source]]",
            ));
        }
        let backends = Self { seed, configs, servers, sources, health, retry_above };
        match backends.pool(backends.servers.clone()) {
            Ok(_) => Ok(backends),
            Err(error) => Err(places.fault(&error, &backends.configs, &backends.servers)),
        }
    }

    /// With the servers that its sources have, in the order of these.
    ///
    /// # Errors
    /// If an entry describes no server, if servers contradict each other, or if there is none.
    pub(super) fn with_entries(&self, found: &[&[Entry]]) -> Result<Self, Failure> {
        let mut servers = self.servers.clone();
        let mut places: Vec<String> =
            servers.iter().map(|_| "is listed in the file".to_owned()).collect();
        for (source, entries) in self.sources.iter().zip(found) {
            let origin = &source.origin;
            for entry in *entries {
                let server = source
                    .server(entry, &self.configs)
                    .map_err(|what| Failure::new(format!("{origin}, {}: {what}", entry.place)))?;
                servers.push(server);
                places.push(format!("comes from {origin}, {}", entry.place));
            }
        }
        if servers.is_empty() {
            let origins: Vec<_> = self.sources.iter().map(|it| it.origin.to_string()).collect();
            return Err(Failure::new(format!("{} has no server", origins.join(", "))));
        }
        match self.pool(servers.clone()) {
            Ok(_) => Ok(Self { servers, ..self.clone() }),
            Err(error) => Err(contradiction(&error, &servers, &places)),
        }
    }

    /// The pool of these servers, which are those of this file with other weights and states.
    ///
    /// # Errors
    /// If they are no pool.
    pub(super) fn pool(&self, servers: Vec<Server>) -> Result<Arc<Pool>, PoolError> {
        let pool = Pool::new(self.configs.clone(), servers)?;
        Ok(Arc::new(pool.with_seed(self.seed)))
    }
}

/// What servers of several sources contradict each other in, with where they come from.
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
