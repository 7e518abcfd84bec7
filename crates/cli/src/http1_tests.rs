use std::io::Read;
use std::net::SocketAddr;

use futures_util::FutureExt;
use futures_util::stream::iter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

/// Content that offers "/whole", "/a b" and "/stream".
struct Three;

impl Content for Three {
    async fn get(&self, path: &str) -> Response<Body> {
        match path {
            "/whole" => json(&["content"]),
            "/a b" => whole("text/plain", "decoded"),
            "/stream" => streamed("text/plain", iter((0..3).map(|_| Bytes::from("piece")))),
            _ => refusal(StatusCode::NOT_FOUND, "not here\n"),
        }
    }
}

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { serve(listener, &[], Three).await });
    address
}

/// Sends `head` as a request. Returns everything received until the connection is closed.
async fn exchange(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

async fn content(address: SocketAddr, path: &'static str) -> Result<String, String> {
    let read = move || {
        let mut text = String::new();
        get(address, path)?.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test]
async fn content_is_read_whole_and_as_a_stream() {
    let address = start().await;
    assert_eq!(content(address, "/whole").await.unwrap(), "[\"content\"]");
    assert_eq!(content(address, "/stream").await.unwrap(), "piecepiecepiece");
    assert_eq!(content(address, "/a%20b").await.unwrap(), "decoded");
}

#[tokio::test]
async fn what_is_not_there_is_an_error_with_the_status() {
    let address = start().await;
    let error = content(address, "/none").await.unwrap_err();
    assert!(error.contains("404"), "{error}");
    let error = content(address, "/%ff").await.unwrap_err();
    assert!(error.contains("404"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_with_its_address() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = content(closed, "/").await.unwrap_err();
    assert!(error.contains(&closed.to_string()), "{error}");
}

#[tokio::test]
async fn other_hosts_and_other_methods_are_refused() {
    let address = start().await;
    let response = exchange(address, "GET /whole HTTP/1.1\r\nHost: example.org").await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    let response = exchange(address, "GET /whole HTTP/1.1").await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    let response = exchange(address, "POST /whole HTTP/1.1\r\nHost: localhost").await;
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    assert!(response.contains("allow: GET, HEAD\r\n"), "{response}");
}

#[tokio::test]
async fn a_head_request_gets_the_header_alone() {
    let response = exchange(start().await, "HEAD /whole HTTP/1.1\r\nHost: localhost").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains("content-length: 11\r\n") && response.ends_with("\r\n\r\n"));
}

#[tokio::test]
async fn a_response_that_is_cut_off_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
    });
    assert!(content(address, "/").await.is_err());
}

/// Many connections without a request do not prevent others from being served: the oldest are
/// closed.
#[tokio::test]
async fn silent_connections_do_not_keep_others_out() {
    let address = start().await;
    let mut silent = Vec::new();
    for _ in 0..1500 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let request = exchange(address, "GET /whole HTTP/1.1\r\nHost: localhost");
    let response = timeout(Duration::from_secs(10), request).await.expect("an answer in time");
    assert!(response.ends_with("[\"content\"]"), "{response}");
    // The oldest connections were closed.
    let mut byte = [0];
    let read = timeout(Duration::from_secs(10), silent[0].read(&mut byte)).await;
    let read = read.expect("the oldest connection is closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// The number of open connections never exceeds the limit, no matter how late the runtime processes
/// a closed connection.
#[tokio::test]
async fn a_connection_is_closed_before_the_one_that_replaces_it_is_admitted() {
    let connections = Connections::new();
    let client = SocketAddr::from(([10, 0, 0, 1], 1));
    let open = Arc::new(());
    for _ in 0..200 {
        let place = connections.admit(client).await.unwrap();
        assert!(Arc::strong_count(&open) as u64 <= MAX_CONNECTIONS / 4);
        let (number, stream) = (place.number, open.clone());
        let task = tokio::spawn(async move {
            let _open = (place, stream);
            std::future::pending().await
        });
        connections.note_task(number, task);
    }
}

#[test]
fn connections_are_bounded_for_each_host_and_for_all() {
    let connections = Connections::new();
    let client = |host: u8| SocketAddr::from(([10, 0, host, 1], 1));
    let admit = |host, has_asked| {
        // Without tasks, there is nothing to wait for.
        let place = connections.admit(client(host)).now_or_never()??;
        place.has_asked.store(has_asked, Ordering::Relaxed);
        Some(place)
    };
    // A host with requests in progress gets its share of connections, but no more.
    let mut places: Vec<_> = std::iter::from_fn(|| admit(1, true)).collect();
    assert!((20..32).contains(&places.len()), "{}", places.len());
    // Silent connections of a host are closed to make room for the host's new connections, and
    // eventually for those of other hosts.
    let silent: Vec<_> = (0..100).filter_map(|_| admit(2, false)).collect();
    assert_eq!(silent.len(), 100);
    for host in 3..=255 {
        places.extend(admit(host, true));
        assert!(connections.lock().all.len() as u64 <= MAX_CONNECTIONS);
    }
    assert!(places.len() as u64 >= MAX_CONNECTIONS / 2);
    drop((places, silent));
    let table = connections.lock();
    assert_eq!((table.all.len(), table.shares.held()), (0, 0));
}
