//! An HTTP server for tests, which expects requests in the order of a script, and responds to them.

use std::net::SocketAddr;

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Publisher, Update};

/// Accepts one connection after another.
pub(super) struct Replay {
    listener: TcpListener,
}

/// A request that is waiting for its response.
pub(super) struct Asked {
    /// Method, target, headers, and the content received so far.
    pub(super) text: String,
    stream: TcpStream,
}

impl Replay {
    pub(super) async fn start() -> (Self, Uri) {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        (Self { listener }, url)
    }

    /// Waits for the next request, which must contain `expected`.
    pub(super) async fn asked(&self, expected: &str) -> Asked {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut octets = Vec::new();
        let is_whole = |octets: &[u8]| {
            let text = String::from_utf8_lossy(octets).to_lowercase();
            let Some((head, content)) = text.split_once("\r\n\r\n") else { return false };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            content.len() >= length.map_or(0, |length| length.parse().unwrap())
        };
        while !is_whole(&octets) {
            assert_ne!(stream.read_buf(&mut octets).await.unwrap(), 0, "the request is truncated");
        }
        let text = String::from_utf8(octets).unwrap();
        assert!(text.contains(expected), "{text}");
        Asked { text, stream }
    }
}

impl Asked {
    /// Begins a response, which ends when this is dropped.
    pub(super) async fn answer(&mut self, content: &str) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.go_on(content).await;
    }

    /// Continues the response.
    pub(super) async fn go_on(&mut self, content: &str) {
        self.stream.write_all(content.as_bytes()).await.unwrap();
    }

    /// Like `go_on`, for a response that the client may abort.
    pub(super) async fn try_answer(&mut self, content: &str) {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        let _ = self.stream.write_all(format!("{head}{content}").as_bytes()).await;
    }

    /// Sends a complete response with an error status.
    pub(super) async fn refuse(mut self, status: &str) {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
        self.stream.write_all(head.as_bytes()).await.unwrap();
    }
}

/// Returns a publisher, and the receiver of its updates.
pub(super) fn publisher() -> (Publisher, mpsc::Receiver<(u64, Update)>) {
    let (sender, receiver) = mpsc::channel(16);
    (Publisher { number: 1, sender }, receiver)
}

/// Makes a source query a server that responds to its first request with `answer`. Returns the
/// source's error message, which must be short and safe to print.
pub(super) async fn complaint<F>(begin: impl FnOnce(Uri, Publisher) -> F, answer: &str) -> String
where
    F: Future<Output: Send> + Send + 'static,
{
    let (replay, url) = Replay::start().await;
    let (publisher, mut receiver) = publisher();
    let task = tokio::spawn(begin(url, publisher));
    let mut asked = replay.asked("").await;
    asked.try_answer(answer).await;
    drop(asked);
    let why = next_update(&mut receiver).await.unwrap_err();
    assert!(why.len() < 2000 && !why.contains(char::is_control), "{why:?}");
    task.abort();
    why
}

/// Returns the names of the servers in a source's next update, with their addresses.
pub(super) async fn next_update(
    receiver: &mut mpsc::Receiver<(u64, Update)>,
) -> Result<Vec<String>, String> {
    let (_, update) = receiver.recv().await.unwrap();
    let text = |entry: &super::Entry| {
        let draining = if entry.is_draining { " draining" } else { "" };
        let id = entry.server_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        format!("{} {} {}{id}{draining}", entry.name, entry.address, entry.weight)
    };
    update.map(|entries| entries.iter().map(text).collect())
}
