//! HTTP/1.1 requests, one per connection, whose responses may be streamed indefinitely.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use clearway::rustls::crypto::aws_lc_rs::default_provider;
use clearway::rustls::pki_types::pem::PemObject;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use clearway::rustls::{ClientConfig, RootCertStore};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::super::backends::Trust;
use crate::certificate::{read, read_certificates, read_identity, read_roots, unparsable};
use crate::failure::Failure;

/// Timeout for a connection, and for the beginning of a response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a response, and of a line in a streamed response.
pub(super) const MAX_LEN: usize = 1 << 24;
/// Timeout for a complete response.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a response to read within a [`WINDOW`], so that an endless response
/// uses only a small part of a core.
const MAX_IN_WINDOW: usize = MAX_LEN;
const WINDOW: Duration = Duration::from_secs(1);

/// Sends a request to the server of `url`. Returns the response as soon as its header section is
/// complete.
///
/// # Errors
/// Returns an error if the connection fails, or the response is not successful.
pub(super) async fn send(
    url: &Uri,
    trust: &Trust,
    request: http::request::Builder,
    body: String,
) -> Result<Response<Incoming>, String> {
    let sending = async {
        let host = url.host().unwrap_or_default();
        let is_https = url.scheme_str() == Some("https");
        let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((address, port)).await;
        let stream = stream.map_err(|error| format!("cannot connect to {url}: {error}"))?;
        let authority = url.authority().map_or(host, |authority| authority.as_str());
        let request = request.header(header::HOST, authority).body(Full::new(Bytes::from(body)));
        let request =
            request.map_err(|error| format!("cannot send a request to {url}: {error}"))?;
        if !is_https {
            return over(url, stream, request).await;
        }
        let name = ServerName::try_from(address.to_owned())
            .map_err(|_| format!("{address:?} is not a valid certificate name"))?;
        let connector = TlsConnector::from(Arc::new(client_config(trust)?));
        let stream = connector.connect(name, stream).await;
        over(
            url,
            stream.map_err(|error| format!("TLS handshake with {url} failed: {error}"))?,
            request,
        )
        .await
    };
    let response = timeout(TIMEOUT, sending).await;
    let response = response.map_err(|_| format!("{url} did not respond within {TIMEOUT:?}"))??;
    match response.status() {
        StatusCode::OK => Ok(response),
        status => {
            let text = whole(response).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
            Err(format!("{url} responded with {status}: {}", text.trim()))
        }
    }
}

async fn over<S>(
    url: &Uri,
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| format!("no response from {url}: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // The task ends when neither the request nor the response needs the connection anymore.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(failed)
}

fn client_config(trust: &Trust) -> Result<ClientConfig, String> {
    let roots = match &trust.authorities {
        Some(file) => read_roots(file).map_err(|failure| failure.to_string())?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(load_native_certs().certs);
            roots
        }
    };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &trust.identity else {
        return Ok(config.with_no_client_auth());
    };
    let (chain, key) =
        read_chain_and_key(certificate, key).map_err(|failure| failure.to_string())?;
    config.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
}

/// Reads a certificate chain and its private key in the form that rustls requires for a client.
fn read_chain_and_key(
    certificates: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
    // Reports errors in the certificates or the key, if any.
    read_identity(certificates, key)?;
    let private_key = PrivateKeyDer::from_pem_slice(&read("private key", key)?)
        .map_err(|error| unparsable("private key", key, Some(&error)))?;
    Ok((read_certificates(certificates)?, private_key))
}

/// Returns the complete content of a response.
///
/// # Errors
/// Returns an error if the response is truncated, is too long, or does not arrive in time.
pub(super) async fn whole(response: Response<Incoming>) -> Result<Bytes, String> {
    let mut lines = Lines::new(response);
    let all = async {
        while lines.fill(TIMEOUT).await? {}
        Ok::<(), String>(())
    };
    let all = timeout(WHOLE_TIMEOUT, all).await;
    all.map_err(|_| format!("the response was still incomplete after {WHOLE_TIMEOUT:?}"))??;
    Ok(lines.buffer.freeze())
}

/// The lines of a streamed response.
pub(super) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Length of the part of the buffer that was already searched for a line end.
    searched: usize,
    /// The start of the current window, and the number of bytes read since then.
    window: (Instant, usize),
}

impl Lines {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        let window = (Instant::now(), 0);
        Self { body: response.into_body(), buffer: BytesMut::new(), searched: 0, window }
    }

    /// Returns the next line without its line end; `None` at the end of the response. Cancel-safe:
    /// nothing is lost if this is dropped before it completes.
    ///
    /// # Errors
    /// Returns an error if the response is truncated, a line is too long, or nothing arrives for
    /// `patience`.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, String> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|octet| *octet == b'\n') {
                let mut line = self.buffer.split_to(self.searched + length + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if !self.fill(patience).await? {
                return Ok(None);
            }
        }
    }

    /// Reads the data that has arrived. Returns whether there was any.
    async fn fill(&mut self, patience: Duration) -> Result<bool, String> {
        if self.window.0.elapsed() >= WINDOW {
            self.window = (Instant::now(), 0);
        } else if self.window.1 > MAX_IN_WINDOW {
            tokio::time::sleep_until(self.window.0 + WINDOW).await;
        }
        let frame = timeout(patience, self.body.frame()).await;
        let frame = frame.map_err(|_| format!("no data arrived for {patience:?}"))?;
        let Some(frame) = frame else { return Ok(false) };
        let frame = frame.map_err(|error| format!("the response was aborted: {error}"))?;
        let data = frame.into_data().unwrap_or_default();
        if self.buffer.len() + data.len() > MAX_LEN {
            return Err(format!("the response is longer than {MAX_LEN} octets"));
        }
        self.window.1 += data.len();
        self.buffer.extend_from_slice(&data);
        Ok(true)
    }
}
