//! DNS over QUIC.

use std::sync::Arc;

use clearway::connect_any;
use hickory_proto::op::Message;

use super::super::question::Question;
use super::reconnecting::Connector;
use super::{Dialer, LinkError};
use crate::client::Client;
use crate::query_error::QueryError;
use crate::upstream::Upstream;

pub(crate) struct QuicConnector {
    pub(crate) upstream: Upstream,
    pub(crate) dialer: Arc<Dialer>,
}

impl Connector for QuicConnector {
    type Session = Client;

    async fn connect(&self) -> Result<Client, LinkError> {
        let addresses = self.upstream.resolve().await;
        let addresses = addresses.map_err(|error| LinkError::opening(&error))?;
        let connect = |address| async move {
            let endpoint = self.dialer.endpoint(address);
            let endpoint = endpoint.map_err(|error| LinkError::opening(&error))?;
            let name = self.upstream.server_name();
            let client = Client::connect(&endpoint, &self.dialer.quic, address, name).await;
            client.map_err(LinkError::unreachable)
        };
        connect_any(addresses, connect).await.map_err(LinkError::of_attempts)
    }

    fn is_open(session: &Client) -> bool {
        session.is_open()
    }

    async fn exchange(&self, session: &Client, question: &Question) -> Result<Message, LinkError> {
        let response = session.query(question.message()).await;
        response.map_err(|error| match error {
            QueryError::Violation(violation) => LinkError::Invalid(violation),
            QueryError::TimedOut(_) => LinkError::TimedOut,
            error => LinkError::lost(error),
        })
    }
}
