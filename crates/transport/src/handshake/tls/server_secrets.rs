//! The secrets of a server's connection that are still needed after the handshake.
//!
//! rustls keeps them in its session and passes them only to key logs. A session stays on one thread
//! while it processes a message, so one key log serves all connections.

use core::cell::RefCell;
use std::sync::Arc;

use rustls::KeyLog;

/// The names of the secrets in key logs (RFC 8446 §7.1, §7.5).
const EXPORTER: &str = "EXPORTER_SECRET";
const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

/// The secrets of one connection, each as long as its suite's hash.
#[derive(Clone, Default)]
pub(super) struct ServerSecrets {
    /// The exporter_master_secret.
    pub(super) exporter: Vec<u8>,
    /// The client_application_traffic_secret_0.
    pub(super) client: Vec<u8>,
    /// The server_application_traffic_secret_0.
    pub(super) server: Vec<u8>,
}

impl ServerSecrets {
    fn place(&mut self, label: &str) -> Option<&mut Vec<u8>> {
        match label {
            EXPORTER => Some(&mut self.exporter),
            CLIENT => Some(&mut self.client),
            SERVER => Some(&mut self.server),
            _ => None,
        }
    }
}

thread_local! {
    /// The secrets derived on this thread, while they are being collected.
    static COLLECTED: RefCell<Option<ServerSecrets>> = const { RefCell::new(None) };
}

/// Runs `derive`, and adds the secrets derived in the process to `secrets`.
pub(super) fn collecting<T>(secrets: &mut ServerSecrets, derive: impl FnOnce() -> T) -> T {
    /// Ends the collection even if `derive` panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            COLLECTED.set(None);
        }
    }
    let _reset = Reset;
    COLLECTED.set(Some(core::mem::take(secrets)));
    let result = derive();
    *secrets = COLLECTED.take().unwrap_or_default();
    result
}

/// A key log that passes secrets to the collector on this thread, and forwards them to the
/// configuration's own key log if that requests them.
#[derive(Debug)]
pub(super) struct CollectingKeyLog(pub(super) Arc<dyn KeyLog>);

impl KeyLog for CollectingKeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if self.0.will_log(label) {
            self.0.log(label, client_random, secret);
        }
        COLLECTED.with_borrow_mut(|collected| {
            if let Some(place) = collected.as_mut().and_then(|secrets| secrets.place(label)) {
                *place = secret.to_vec();
            }
        });
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, EXPORTER | CLIENT | SERVER) || self.0.will_log(label)
    }
}
