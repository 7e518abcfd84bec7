//! DNS over TCP (RFC 7766) and over TLS (RFC 7858).

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use clearway::connect_any;
use clearway::rustls::pki_types::ServerName;
use hickory_proto::op::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::question::Question;
use super::reconnecting::Connector;
use super::{Dialer, LinkError};
use crate::framing::{PREFIX, next_message};
use crate::upstream::Upstream;
use crate::wire::{Layout, MAX_MESSAGE, QUERY_BLOCK, encode_query};

/// Maximum number of outstanding queries of a connection; further ones wait.
const MAX_PENDING: usize = 1000;
/// Maximum number of queries that wait to be sent.
const QUEUE: usize = 64;
/// Time limit for sending a query.
const WRITE_TIME: Duration = Duration::from_secs(5);

pub(crate) struct TcpConnector {
    pub(crate) upstream: Upstream,
}

pub(crate) struct TlsConnector {
    pub(crate) upstream: Upstream,
    pub(crate) dialer: Arc<Dialer>,
}

/// The task that owns a connection. Queries are sent to it.
#[derive(Clone)]
pub(crate) struct StreamSession(mpsc::Sender<Job>);

/// A query to send, and where its response goes.
struct Job {
    /// The query with its length field.
    octets: Vec<u8>,
    /// Receives the ID that the query was sent with, and the response.
    reply: oneshot::Sender<(u16, Bytes)>,
}

async fn connect(upstream: &Upstream) -> Result<TcpStream, LinkError> {
    let opening = |error: io::Error| LinkError::opening(&error);
    let addresses = upstream.resolve().await.map_err(opening)?;
    let connect = |address| async move { TcpStream::connect(address).await.map_err(opening) };
    let stream = connect_any(addresses, connect).await.map_err(LinkError::of_attempts)?;
    stream.set_nodelay(true).map_err(LinkError::unreachable)?;
    Ok(stream)
}

impl StreamSession {
    fn start(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, jobs) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            // An error ends the session, and with it the outstanding queries.
            if let Err(error) = drive(stream, jobs).await {
                tracing::debug!("a connection to an upstream server ended: {error}");
            }
        });
        Self(sender)
    }

    async fn exchange(&self, question: &Question, layout: Layout) -> Result<Message, LinkError> {
        let octets = encode_query(question.message(), 0, layout).map_err(LinkError::lost)?;
        let (reply, response) = oneshot::channel();
        let lost = || LinkError::lost("the server closed the connection");
        self.0.send(Job { octets, reply }).await.map_err(|_| lost())?;
        let (id, octets) = response.await.map_err(|_| lost())?;
        question.response(&octets, id).map_err(LinkError::Invalid)
    }
}

impl Connector for TcpConnector {
    type Session = StreamSession;

    async fn connect(&self) -> Result<StreamSession, LinkError> {
        Ok(StreamSession::start(connect(&self.upstream).await?))
    }

    fn is_open(session: &StreamSession) -> bool {
        !session.0.is_closed()
    }

    async fn exchange(
        &self,
        session: &StreamSession,
        question: &Question,
    ) -> Result<Message, LinkError> {
        let layout = Layout { is_prefixed: true, block: None, limit: MAX_MESSAGE };
        session.exchange(question, layout).await
    }
}

impl Connector for TlsConnector {
    type Session = StreamSession;

    async fn connect(&self) -> Result<StreamSession, LinkError> {
        let name = ServerName::try_from(self.upstream.server_name().to_owned());
        let name = name.map_err(LinkError::unreachable)?;
        let stream = connect(&self.upstream).await?;
        let stream = self.dialer.tls.connect(name, stream).await;
        Ok(StreamSession::start(stream.map_err(LinkError::unreachable)?))
    }

    fn is_open(session: &StreamSession) -> bool {
        !session.0.is_closed()
    }

    async fn exchange(
        &self,
        session: &StreamSession,
        question: &Question,
    ) -> Result<Message, LinkError> {
        let layout = Layout { is_prefixed: true, block: Some(QUERY_BLOCK), limit: MAX_MESSAGE };
        session.exchange(question, layout).await
    }
}

/// The outstanding queries by their IDs.
type Pending = BTreeMap<u16, oneshot::Sender<(u16, Bytes)>>;

/// Sends queries and passes on responses, until the server or all handles close the connection.
async fn drive<S>(mut stream: S, mut jobs: mpsc::Receiver<Job>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pending = Pending::new();
    let mut received = BytesMut::new();
    loop {
        if pending.len() >= MAX_PENDING {
            // Canceled queries do not count.
            pending.retain(|_, reply| !reply.is_closed());
        }
        tokio::select! {
            job = jobs.recv(), if pending.len() < MAX_PENDING => {
                let Some(job) = job else { return Ok(()) };
                let octets = register(job, &mut pending);
                let sending = async {
                    stream.write_all(&octets).await?;
                    stream.flush().await
                };
                timeout(WRITE_TIME, sending).await??;
            }
            read = stream.read_buf(&mut received) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(message) = next_message(&mut received, MAX_MESSAGE)? {
                    deliver(message, &mut pending);
                }
            }
        }
    }
}

/// Gives a query an ID that no outstanding query has. Returns its octets.
fn register(job: Job, pending: &mut Pending) -> Vec<u8> {
    let Job { mut octets, reply } = job;
    // At most one ID in 65 is in use.
    let mut id = random_id();
    while pending.contains_key(&id) {
        id = random_id();
    }
    if let Some(field) = octets.get_mut(PREFIX..).and_then(|it| it.first_chunk_mut::<2>()) {
        *field = id.to_be_bytes();
    }
    pending.insert(id, reply);
    octets
}

fn random_id() -> u16 {
    Message::query().metadata.id
}

/// Passes a response to the query with its ID. Responses to canceled queries are ignored.
fn deliver(message: Bytes, pending: &mut Pending) {
    let Some(id) = message.first_chunk::<2>() else { return };
    let id = u16::from_be_bytes(*id);
    if let Some(reply) = pending.remove(&id) {
        // Fails if the query was canceled.
        let _ = reply.send((id, message));
    }
}
