//! The file of `--backends`: servers, the form of their connection IDs, and how they are checked.
//!
//! It is read in three steps: `file` has the keys and their types, `resolve` what they mean, and the servers have to be a
//! [`Pool`]. What is wrong is reported with line and column.

mod file;
mod places;
mod resolve;

use std::path::Path;
use std::sync::Arc;

use clearway_balancer::{Pool, PoolError, Server};
use clearway_wire::quic_lb::IdCodec;

use crate::failure::Failure;
use crate::file_fault::Fault;
pub(super) use resolve::Checks;

/// What the file says.
#[derive(Clone, Debug)]
pub(super) struct Backends {
    seed: u64,
    /// The forms of connection IDs.
    pub(super) configs: Vec<IdCodec>,
    /// The servers as the file describes them: active, or draining.
    pub(super) servers: Vec<Server>,
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
        let resolve::Resolved { seed, configs, servers, health, retry_above, places } =
            resolve::resolve(&file)?;
        if servers.is_empty() {
            return Err(Fault::new(
                0..0,
                "there is no server; add [[server]] with name and address",
            ));
        }
        let backends = Self { seed, configs, servers, health, retry_above };
        match backends.pool(backends.servers.clone()) {
            Ok(_) => Ok(backends),
            Err(error) => Err(places.fault(&error, &backends.configs, &backends.servers)),
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

#[cfg(test)]
#[path = "backends_tests.rs"]
mod tests;
