//! The demo client.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use clearway::http3::{Body, Client};
use clearway::{ClientConfig, Endpoint};
use http::Request;

use super::display::Bar;
use super::server::byte_at;

/// Interval at which the progress bar is redrawn while no content arrives.
const TICK: Duration = Duration::from_millis(50);

/// A download in progress, or its result after the download has ended.
pub(super) struct Download {
    start: Instant,
    /// Number of content bytes received and verified.
    pub(super) received: u64,
    /// Duration of the download.
    pub(super) time: Duration,
}

impl Download {
    /// Creates a download that has not been requested yet.
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), received: 0, time: Duration::ZERO }
    }

    /// Downloads `size` bytes from `server`. Returns the reason if that fails or takes longer than
    /// `limit`.
    pub(super) async fn perform(
        &mut self,
        config: &ClientConfig,
        server: SocketAddr,
        size: u64,
        limit: Duration,
        bar: &mut Bar,
    ) -> Result<(), String> {
        self.start = Instant::now();
        let result = tokio::time::timeout(limit, self.all(config, server, size, bar)).await;
        self.time = self.start.elapsed();
        bar.update(self.received, self.time);
        result.unwrap_or_else(|_| Err(format!("the download took longer than {limit:?}")))
    }

    async fn all(
        &mut self,
        config: &ClientConfig,
        server: SocketAddr,
        size: u64,
        bar: &mut Bar,
    ) -> Result<(), String> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::client(any).map_err(|error| error.to_string())?;
        let client = Client::connect(&endpoint, config, server, "localhost").await;
        let client = client.map_err(|error| error.to_string())?;
        let url = format!("https://localhost:{}/", server.port());
        let request = Request::get(url).body(Body::empty()).map_err(|error| error.to_string())?;
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let mut body = response.into_body();
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                chunk = body.chunk() => match chunk {
                    Some(chunk) => self.take(&chunk.map_err(|error| error.to_string())?)?,
                    None => break,
                },
                _ = tick.tick() => bar.update(self.received, self.start.elapsed()),
            }
        }
        match self.received == size {
            true => Ok(()),
            false => Err(format!("only {} of {size} bytes were received", self.received)),
        }
    }

    /// Verifies and counts received content.
    fn take(&mut self, chunk: &[u8]) -> Result<(), String> {
        let is_right = chunk.iter().copied().eq((self.received..).map(byte_at).take(chunk.len()));
        if !is_right {
            return Err(format!("wrong bytes were received after byte {}", self.received));
        }
        self.received += chunk.len() as u64;
        Ok(())
    }
}
