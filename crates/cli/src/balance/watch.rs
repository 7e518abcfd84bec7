//! The file of `--backends`, read again when it has changed.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use super::backends::Backends;
use crate::failure::Failure;
use crate::watched::{INTERVAL, Watched};

/// What the file says after a change, or what is wrong in it.
pub(super) type Reread = Result<Backends, Failure>;

/// Reads the file for the first time, and what is needed to see its changes.
///
/// # Errors
/// If it cannot be read, or something in it is wrong.
pub(super) fn read(path: PathBuf) -> Result<(Backends, BackendsWatch), Failure> {
    let watched = Watched::new(vec![path.clone()]);
    let backends = Backends::read(&path)?;
    Ok((backends, BackendsWatch { path, watched }))
}

/// The file, and what was seen of it.
#[derive(Debug)]
pub(super) struct BackendsWatch {
    path: PathBuf,
    watched: Watched,
}

impl BackendsWatch {
    /// Reads the file again when `asked` is notified and when it has changed, until nobody receives what it says.
    pub(super) async fn run(mut self, asked: Arc<Notify>, sender: mpsc::Sender<Reread>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_asked = tokio::select! {
                () = asked.notified() => true,
                _ = interval.tick() => false,
            };
            // The file system may be slow.
            let looking = tokio::task::spawn_blocking(move || {
                let reread = self.watched.look(is_asked).then(|| Backends::read(&self.path));
                (self, reread)
            });
            let Ok((watch, reread)) = looking.await else { return };
            self = watch;
            if let Some(reread) = reread
                && sender.send(reread).await.is_err()
            {
                return;
            }
        }
    }
}
