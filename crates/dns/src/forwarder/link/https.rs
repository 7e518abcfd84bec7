//! DNS over HTTPS, over HTTP/3.

use std::sync::Arc;

use clearway::connect_any;
use clearway::http3::{self, Client};
use hickory_proto::op::Message;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode};

use super::super::question::Question;
use super::reconnecting::Connector;
use super::{Dialer, LinkError};
use crate::upstream::Upstream;
use crate::violation::Violation;
use crate::wire::{Layout, MAX_MESSAGE, QUERY_BLOCK, encode_query};

const LAYOUT: Layout = Layout { is_prefixed: false, block: Some(QUERY_BLOCK), limit: MAX_MESSAGE };
const MEDIA_TYPE: &str = "application/dns-message";

pub(crate) struct HttpsConnector {
    pub(crate) upstream: Upstream,
    pub(crate) dialer: Arc<Dialer>,
}

impl Connector for HttpsConnector {
    type Session = Client;

    async fn connect(&self) -> Result<Client, LinkError> {
        let addresses = self.upstream.resolve().await;
        let addresses = addresses.map_err(|error| LinkError::opening(&error))?;
        let config = self.dialer.quic.clone().application_protocols([http3::PROTOCOL]);
        let config = &config;
        let connect = |address| async move {
            let endpoint = self.dialer.endpoint(address);
            let endpoint = endpoint.map_err(|error| LinkError::opening(&error))?;
            let name = self.upstream.server_name();
            let client = Client::connect(&endpoint, config, address, name).await;
            client.map_err(LinkError::unreachable)
        };
        connect_any(addresses, connect).await.map_err(LinkError::of_attempts)
    }

    fn is_open(session: &Client) -> bool {
        session.is_open()
    }

    async fn exchange(&self, session: &Client, question: &Question) -> Result<Message, LinkError> {
        // RFC 8484 §4.1: with the ID 0, so that HTTP caches recognize equal queries.
        let octets = encode_query(question.message(), 0, LAYOUT).map_err(LinkError::lost)?;
        let uri = format!("https://{}{}", self.upstream.authority(), self.upstream.path());
        let request =
            Request::post(uri).header(CONTENT_TYPE, MEDIA_TYPE).header(ACCEPT, MEDIA_TYPE);
        let request = request.body(octets).map_err(LinkError::lost)?;
        let response = session.send(request).await.map_err(LinkError::lost)?;
        if response.status() != StatusCode::OK {
            return Err(LinkError::lost(format_args!("HTTP status {}", response.status())));
        }
        if response.headers().get(CONTENT_TYPE).is_none_or(|it| it != MEDIA_TYPE) {
            return Err(LinkError::Invalid(Violation::Malformed));
        }
        let octets = response.into_body().bytes(MAX_MESSAGE).await.map_err(LinkError::lost)?;
        question.response(&octets, 0).map_err(LinkError::Invalid)
    }
}
