//! Deliberate migration: `--rebind-after`.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use clearway::MigrateError;
use clearway::http3::Client;
use clearway_network::parse_duration;
use tokio::task::AbortHandle;

use super::protocol::Protocol;
use crate::address::any;
use crate::output;

/// Parses the value of `--rebind-after`.
pub(super) fn parse(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        after => Ok(after),
    }
}

/// A scheduled migration; dropping it cancels the migration.
#[derive(Debug)]
pub(super) struct Rebinding(AbortHandle);

impl Rebinding {
    /// Moves the connection to another port of the same local IP address, when `after` has elapsed.
    pub(super) fn start(
        protocol: &Protocol,
        remote: SocketAddr,
        after: Duration,
        is_quiet: bool,
    ) -> Self {
        let any_port = any(remote);
        match protocol {
            Protocol::Http3(client) => {
                let client: Client = client.clone();
                Self::spawn(after, is_quiet, async move { client.migrate(any_port).await })
            }
            Protocol::Http09(connection) => {
                let connection = connection.clone();
                Self::spawn(after, is_quiet, async move { connection.migrate(any_port).await })
            }
        }
    }

    fn spawn(
        after: Duration,
        is_quiet: bool,
        migrate: impl Future<Output = Result<SocketAddr, MigrateError>> + Send + 'static,
    ) -> Self {
        let task = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            match migrate.await {
                Ok(_) if is_quiet => {}
                Ok(local) => output::status(&format!("migrated to {local} after {after:?}")),
                Err(error) => output::status(&format!(
                    "cannot migrate to another port: {error}; the download continues on the old one"
                )),
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Rebinding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_takes_place_after_some_time() {
        assert_eq!(parse("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse("0s"), Err("must be longer than 0".to_owned()));
        assert!(parse("soon").is_err());
    }
}
