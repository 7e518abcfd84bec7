//! The signal to stop.

use tokio::sync::watch;

/// Waits until `flag` is set, or can no longer be set.
pub(crate) async fn is_set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}
