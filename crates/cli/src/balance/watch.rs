//! The file of `--backends`, read again when it has changed.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use super::backends::Backends;
use crate::failure::Failure;
use crate::watch::Watch;

/// What the file says after a change, or what is wrong in it.
pub(super) type Reread = Result<Backends, Failure>;

/// Reads the file for the first time, and what is needed to see its changes.
///
/// # Errors
/// If it cannot be read, or something in it is wrong.
pub(super) fn read(path: PathBuf) -> Result<(Backends, BackendsWatch), Failure> {
    let watch = Watch::begin(vec![path.clone()]);
    let backends = Backends::read(&path)?;
    Ok((backends, BackendsWatch { path, watch }))
}

/// The file, and what was seen of it.
#[derive(Debug)]
pub(super) struct BackendsWatch {
    path: PathBuf,
    watch: Watch,
}

impl BackendsWatch {
    /// Reads the file again when `asked` is notified and when it has changed, and sends what it says.
    pub(super) async fn run(self, asked: Arc<Notify>, sender: mpsc::Sender<Reread>) {
        let Self { path, watch } = self;
        let read_again = move || {
            // If nobody receives it, the program ends.
            let _ = sender.blocking_send(Backends::read(&path));
        };
        watch.run(asked, read_again).await;
    }
}
