//! Application settings that are bound to sessions, and decide together with the transport's limits
//! whether early data is acceptable (RFC 9001 §4.6.3).

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// The server settings on which clients' early data depends, such as the SETTINGS of HTTP/3 (RFC
/// 9114 §7.2.4.2). They are part of each session that the server issues; see
/// [`TlsServerConfig::early_data_context`](crate::TlsServerConfig::early_data_context).
///
/// Both methods are called while a handshake is processed, so they must not block. A panic counts
/// as a rejection.
pub trait EarlyDataContext: Send + Sync + fmt::Debug {
    /// Returns the settings of connections that start now, encoded in at most
    /// [`MAX_EARLY_DATA_CONTEXT`] bytes; if they are longer, no sessions are issued.
    fn current(&self) -> Vec<u8>;

    /// Returns whether a client that complies with `remembered` also complies with the current
    /// settings. `remembered` is the value that [`current`](Self::current) returned when the
    /// session was issued, perhaps in another process or another version of the program.
    fn permits(&self, remembered: &[u8]) -> bool;
}

/// The maximum length of an encoded [`EarlyDataContext`], in bytes.
pub const MAX_EARLY_DATA_CONTEXT: usize = 1024;

/// The context of one server connection.
#[derive(Debug)]
pub(super) struct CurrentContext {
    context: Arc<dyn EarlyDataContext>,
    /// The settings when the connection started; `None` if they are too long, or the application
    /// panicked.
    encoded: Option<Vec<u8>>,
}

impl CurrentContext {
    pub(super) fn new(context: Arc<dyn EarlyDataContext>) -> Self {
        let encoded = catch_unwind(AssertUnwindSafe(|| context.current())).ok();
        let encoded = encoded.filter(|encoded| encoded.len() <= MAX_EARLY_DATA_CONTEXT);
        Self { context, encoded }
    }

    pub(super) fn encoded(&self) -> Option<&[u8]> {
        self.encoded.as_deref()
    }

    pub(super) fn permits(&self, remembered: &[u8]) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.context.permits(remembered))).unwrap_or(false)
    }
}

/// The server's settings, as encoded by a client's application. All sessions received on a
/// connection share them, including those that arrived before the settings.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionContext(Arc<OnceLock<Box<[u8]>>>);

impl SessionContext {
    pub(super) fn of(encoded: Vec<u8>) -> Self {
        let context = Self::default();
        context.set(&encoded);
        context
    }

    /// Sets the context once. A context that is too long or empty counts as none.
    pub(super) fn set(&self, encoded: &[u8]) {
        if !encoded.is_empty() && encoded.len() <= MAX_EARLY_DATA_CONTEXT {
            let _ = self.0.set(encoded.into());
        }
    }

    pub(super) fn get(&self) -> Option<&[u8]> {
        self.0.get().map(AsRef::as_ref)
    }
}

impl PartialEq for SessionContext {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for SessionContext {}
