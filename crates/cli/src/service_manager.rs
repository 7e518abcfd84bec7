//! Messages to the service manager (sd_notify(3)).

/// Reports that the program is listening. A no-op unless a service manager waits for it
/// (`NOTIFY_SOCKET`).
#[cfg(unix)]
pub(crate) fn ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        crate::output::status(&format!(
            "cannot notify the service manager that this program is listening: {error}; it may stop this program"
        ));
    }
}

/// Does nothing: this system's service manager does not support sd_notify(3).
#[cfg(not(unix))]
pub(crate) fn ready() {}
