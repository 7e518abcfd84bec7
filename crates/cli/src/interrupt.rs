use crate::failure::Failure;

/// Waits until the user wants the program to end: Ctrl-C, or what a service manager sends.
pub(crate) async fn interrupted() -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot wait for Ctrl-C: {error}"));
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate()).map_err(cannot)?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result.map_err(cannot),
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(cannot)
}
