//! The file of `--backends`, read again when it has changed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use super::backends::Backends;
use super::own::Own;
use crate::failure::Failure;
use crate::watch::Watch;

/// What the file says after a change, or what is wrong in it.
pub(super) type Reread = Result<Backends, Failure>;

/// Reads the file of a balancer at this address for the first time, and what is needed to see its changes.
///
/// # Errors
/// If it cannot be read, or something in it is wrong.
pub(super) fn read(
    path: PathBuf,
    listen: SocketAddr,
) -> Result<(Backends, BackendsWatch), Failure> {
    let watch = Watch::begin(vec![path.clone()]);
    let backends = Backends::read(&path, &Own::listening_on(listen))?;
    Ok((backends, BackendsWatch { path, watch }))
}

/// The servers, if there are keys for the tokens that their file asks for.
///
/// # Errors
/// If there are none.
pub(super) fn with_keys(backends: Backends, has_keys: bool) -> Result<Backends, Failure> {
    if backends.retry_above.is_some() && !has_keys {
        return Err(Failure::new("the backends have [retry], and there are no keys for tokens")
            .advise("give --ticket-keys the file that the servers have, or remove [retry]"));
    }
    Ok(backends)
}

/// The file, and what was seen of it.
#[derive(Debug)]
pub(super) struct BackendsWatch {
    path: PathBuf,
    watch: Watch,
}

impl BackendsWatch {
    /// Reads the file again when `asked` is notified and when it has changed, and sends what it says.
    pub(super) async fn run(
        self,
        has_keys: bool,
        listen: SocketAddr,
        asked: Arc<Notify>,
        sender: mpsc::Sender<Reread>,
    ) {
        let Self { path, watch } = self;
        let read_again = move || {
            // Addresses of this host come and go.
            let read = Backends::read(&path, &Own::listening_on(listen));
            let read = read.and_then(|it| with_keys(it, has_keys));
            // If nobody receives it, the program ends.
            let _ = sender.blocking_send(read);
        };
        watch.run(asked, read_again).await;
    }
}
