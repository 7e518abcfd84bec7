//! Reloads the `--backends` file when it changes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use super::backends::Backends;
use super::own::Own;
use crate::failure::Failure;
use crate::watch::Watch;

/// The file's new contents, or the error in it.
pub(super) type Reread = Result<Backends, Failure>;

/// Reads the file of a balancer at this address for the first time. Also returns the state for
/// detecting changes to it.
///
/// # Errors
/// Returns an error if the file cannot be read or is invalid.
pub(super) fn read(
    path: PathBuf,
    listen: SocketAddr,
) -> Result<(Backends, BackendsWatch), Failure> {
    let watch = Watch::begin(vec![path.clone()]);
    let backends = Backends::read(&path, &Own::listening_on(listen))?;
    Ok((backends, BackendsWatch { path, watch }))
}

/// Returns the servers, unless their file requires Retry tokens and there are no token keys.
///
/// # Errors
/// Returns an error if the file requires token keys and there are none.
pub(super) fn with_keys(backends: Backends, has_keys: bool) -> Result<Backends, Failure> {
    if backends.retry_above.is_some() && !has_keys {
        return Err(Failure::new("the backends file has [retry], but there are no token keys")
            .advise("pass the servers' key file with --ticket-keys, or remove [retry]"));
    }
    Ok(backends)
}

/// Watches the file for changes from its last known state.
#[derive(Debug)]
pub(super) struct BackendsWatch {
    path: PathBuf,
    watch: Watch,
}

impl BackendsWatch {
    /// Reloads the file when `asked` is notified and when it has changed, and sends its contents.
    pub(super) async fn run(
        self,
        has_keys: bool,
        listen: SocketAddr,
        asked: Arc<Notify>,
        sender: mpsc::Sender<Reread>,
    ) {
        let Self { path, watch } = self;
        let read_again = move || {
            // This host's addresses may change.
            let read = Backends::read(&path, &Own::listening_on(listen));
            let read = read.and_then(|it| with_keys(it, has_keys));
            // If the receiver is gone, the program is about to end.
            let _ = sender.blocking_send(read);
        };
        watch.run(asked, read_again).await;
    }
}
