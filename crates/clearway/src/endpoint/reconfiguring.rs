//! Replacing the configuration of a running server.

use std::sync::Arc;

use clearway_transport::{SharedTokens, TicketKeys};

use super::Endpoint;
use crate::config::ServerConfig;
use crate::error::ConfigError;

/// Keys that a server keeps when its configuration is replaced, so that tickets and tokens stay
/// valid.
pub(super) struct Kept {
    pub(super) ticket_keys: Option<TicketKeys>,
    pub(super) shared_tokens: Option<SharedTokens>,
}

impl Endpoint {
    /// Replaces the configuration of a server for new clients; existing connections do not change.
    /// With `None`, new clients get no answer until there is a configuration again.
    ///
    /// This does not wait for the shards, each of which applies the configuration in its next turn:
    /// a client that connects at the same moment may still get the former one.
    ///
    /// The certificate, application protocols, client certificates, early data, transport settings
    /// and token lifetimes are replaced. If the new configuration has no
    /// [`ticket_keys`](ServerConfig::ticket_keys), the server keeps its own. Without any,
    /// sessions of the former configuration are not resumed. Everything else keeps its value:
    /// sockets, shards, [preferred addresses](ServerConfig::preferred_address_v4), hot restart,
    /// QUIC-LB, reset key, keys of address validation tokens, memory budget,
    /// [`retry_above`](ServerConfig::retry_above), [`balancers`](ServerConfig::balancers),
    /// [`max_connections`](ServerConfig::max_connections) and the observer.
    ///
    /// To replace only certificates, use a [`CertificateResolver`](crate::CertificateResolver) such
    /// as [`Certificates`](crate::Certificates). The configuration of an
    /// [`http3::Server`](crate::http3::Server) needs the application protocol `h3` here.
    ///
    /// # Errors
    /// Fails, without changing anything, if the configuration is invalid or the endpoint was not
    /// created as a server.
    pub fn set_server_config(&self, config: Option<ServerConfig>) -> Result<(), ConfigError> {
        let kept = self.owner.kept.get().ok_or(ConfigError::NotAServer)?;
        let server = match config {
            Some(mut config) => {
                config.ticket_keys = config.ticket_keys.or_else(|| kept.ticket_keys.clone());
                let mut server = config.build()?;
                server.shared_tokens.clone_from(&kept.shared_tokens);
                server.preferred_addresses = self.owner.shards()[0].preferred_addresses();
                Some(Arc::new(server))
            }
            None => None,
        };
        self.owner.shards().iter().for_each(|shard| shard.set_server(server.clone()));
        Ok(())
    }
}
