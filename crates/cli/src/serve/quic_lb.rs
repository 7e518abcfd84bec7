//! Reloads the `serve --quic-lb` file while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clearway::{Endpoint, QuicLb};
use tokio::sync::Notify;

use crate::events::{Event, note};
use crate::failure::Failure;
use crate::watch::Watch;
use crate::{output, quic_lb_file};

/// A server's QUIC-LB configuration, and the file that it comes from.
#[derive(Debug)]
pub(super) struct Following {
    file: PathBuf,
    config: QuicLb,
    watch: Watch,
}

impl Following {
    /// Reads the file for the first time.
    pub(super) fn start(file: &Path) -> Result<Self, Failure> {
        let watch = Watch::begin(vec![file.to_owned()]);
        Ok(Self { file: file.to_owned(), config: quic_lb_file::read(file)?, watch })
    }

    pub(super) fn config(&self) -> QuicLb {
        self.config.clone()
    }

    /// Prints the format of connection IDs.
    pub(super) fn announce(&self) {
        output::status(&format!("using QUIC-LB connection IDs, {}", described(&self.config)));
    }

    /// Reloads the file when `asked` is notified, and when it has changed, and applies it to the
    /// connection IDs of `endpoint`.
    pub(super) async fn run(self, endpoint: Endpoint, asked: Arc<Notify>) {
        let Self { file, config: mut present, watch } = self;
        let read_again = move || match follow(&file, &endpoint) {
            Ok(config) => {
                // The file may have been rewritten without a change.
                if config != present {
                    let (file, described) = (file.display(), described(&config));
                    let line = format!("reloaded {file}: QUIC-LB, {described}");
                    note(Event::QuicLbReloaded, &line);
                }
                present = config;
            }
            Err(failure) => note(
                Event::QuicLbNotReloaded,
                &format!(
                    "clearway: the QUIC-LB configuration was not reloaded and the previous one \
                     stays in use: {failure}"
                ),
            ),
        };
        watch.run(asked, read_again).await;
    }
}

fn follow(file: &Path, endpoint: &Endpoint) -> Result<QuicLb, Failure> {
    let config = quic_lb_file::read(file)?;
    endpoint.rotate_quic_lb(config.clone()).map_err(|error| {
        Failure::new(format!("{}: {error}", file.display()))
            .advise("keep the total length of server-id and nonce; with a key it is one octet less")
    })?;
    Ok(config)
}

fn described(config: &QuicLb) -> String {
    let (number, server_id) = (config.config().number(), config.server_id());
    let key = if config.is_encrypted() { "encrypted" } else { "without a key" };
    format!("configuration {number}, server ID {server_id}, {key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_described() {
        let path = std::env::temp_dir().join(format!("clearway-lb-{}", std::process::id()));
        let described = |text: &str| {
            std::fs::write(&path, text).unwrap();
            described(&Following::start(&path).unwrap().config())
        };
        let plain = "config-id = 3\nserver-id = \"0a01\"\n";
        assert_eq!(described(plain), "configuration 3, server ID 0a01, without a key");
        let encrypted = format!("{plain}key = \"8f95f09245765f80256934e50c66207f\"\n");
        assert_eq!(described(&encrypted), "configuration 3, server ID 0a01, encrypted");
        std::fs::remove_file(&path).unwrap();
        assert!(Following::start(&path).is_err());
    }
}
