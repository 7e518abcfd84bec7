//! Isolates panics in an application's session store.

use std::sync::Arc;

use clearway_io::guard;
use clearway_transport::{SavedSession, SessionStore};
use clearway_wire::Version;

/// A session store wrapper that limits the damage of a panic to one session or token.
#[derive(Debug)]
pub(crate) struct GuardedStore(pub(crate) Arc<dyn SessionStore>);

const NOT_KEPT: &str = "session store panicked; a session or token was not stored";
const NOT_USED: &str =
    "session store panicked; the connection cannot use a stored session or token";

impl SessionStore for GuardedStore {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        guard(NOT_KEPT, || self.0.put_session(server_name, session));
    }

    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession> {
        guard(NOT_USED, || self.0.take_session(server_name, version)).flatten()
    }

    fn put_token(&self, server_name: &str, token: &[u8]) {
        guard(NOT_KEPT, || self.0.put_token(server_name, token));
    }

    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        guard(NOT_USED, || self.0.take_token(server_name)).flatten()
    }
}
