//! The traffic secrets of a client connection that may switch versions.

use std::sync::{Arc, Mutex, PoisonError};

use clearway_wire::Version;
use rustls::{CipherSuite, KeyLog};

use super::super::derived_keys::{ApplicationSecrets, Derivation};
use super::super::session::NewKeys;
use crate::Side;

/// A level of keys, and the names of the client's and the server's secrets from which its keys are
/// derived (RFC 8446 §7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Handshake,
    Application,
}

impl Level {
    const ALL: [Self; 2] = [Self::Handshake, Self::Application];

    const fn labels(self) -> [&'static str; 2] {
        match self {
            Self::Handshake => {
                ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"]
            }
            Self::Application => ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"],
        }
    }
}

/// Collects the traffic secrets of one connection from rustls, which passes them only to key logs,
/// and forwards them to the connection's own key log if that requests them.
#[derive(Debug)]
pub(super) struct TrafficSecrets {
    key_log: Arc<dyn KeyLog>,
    secrets: Mutex<Secrets>,
}

#[derive(Default)]
struct Secrets {
    handshake: [Vec<u8>; 2],
    application: [Vec<u8>; 2],
}

impl Secrets {
    fn of(&mut self, level: Level) -> &mut [Vec<u8>; 2] {
        match level {
            Level::Handshake => &mut self.handshake,
            Level::Application => &mut self.application,
        }
    }

    /// Returns the slot for the secret named by `label`.
    fn place(&mut self, label: &str) -> Option<&mut Vec<u8>> {
        let level = Level::ALL.into_iter().find(|level| level.labels().contains(&label))?;
        let is_named = |(name, _): &(&str, &mut Vec<u8>)| *name == label;
        let place = level.labels().into_iter().zip(self.of(level)).find(is_named);
        place.map(|(_, secret)| secret)
    }
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl TrafficSecrets {
    pub(super) fn new(key_log: Arc<dyn KeyLog>) -> Self {
        Self { key_log, secrets: Mutex::default() }
    }

    /// Returns the client's keys of `level` in `version`, and drops the secrets. `None` if rustls
    /// has not provided them, or the suite is unknown.
    pub(super) fn keys(
        &self,
        level: Level,
        version: Version,
        suite: CipherSuite,
    ) -> Option<NewKeys> {
        let secrets = {
            let mut all = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            core::mem::take(all.of(level))
        };
        let derivation = Derivation::new(version, suite)?;
        let [client, server] = &secrets;
        let (from_client, from_server) = (derivation.secret(client)?, derivation.secret(server)?);
        let keys = derivation.keys(Side::Client, from_client, from_server)?;
        Some(match level {
            Level::Handshake => NewKeys::Handshake(keys),
            Level::Application => {
                let secrets = ApplicationSecrets { client, server };
                let next = Derivation::schedule(version, suite, Side::Client, secrets)?;
                NewKeys::Application { keys, next: Box::new(next) }
            }
        })
    }
}

impl KeyLog for TrafficSecrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if self.key_log.will_log(label) {
            self.key_log.log(label, client_random, secret);
        }
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = secrets.place(label) {
            *place = secret.to_vec();
        }
    }

    fn will_log(&self, label: &str) -> bool {
        let is_ours = Level::ALL.into_iter().any(|level| level.labels().contains(&label));
        is_ours || self.key_log.will_log(label)
    }
}
