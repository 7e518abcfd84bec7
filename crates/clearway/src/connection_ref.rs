//! A reference that keeps a connection open.

use core::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::VarInt;

use crate::error::ConnectError;
use crate::streams::Shared;

/// The error for local tasks when this endpoint closes the connection.
pub(crate) const CLOSED: ConnectError = ConnectError::Lost(ConnectionError::LocallyClosed);

/// Keeps a connection open; dropping the last reference closes it.
#[derive(Clone)]
pub(crate) struct ConnectionRef(Arc<Owner>);

struct Owner(Arc<Shared>);

impl ConnectionRef {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Owner(shared)))
    }
}

impl ConnectionRef {
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.0.0.clone()
    }
}

impl Deref for ConnectionRef {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close(VarInt::ZERO, Bytes::new(), CLOSED);
    }
}
