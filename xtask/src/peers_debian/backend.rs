//! An HTTP/1.1 server to which the peers forward requests that file servers cannot answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::verdict;

/// Read timeout of a connection.
const SILENCE: Duration = Duration::from_secs(20);
/// Maximum size of a request in bytes.
const REQUEST: u64 = 64 << 20;

/// Starts the server, which runs until this program exits, and returns its address.
pub(crate) fn start(folder: PathBuf) -> Result<SocketAddr, String> {
    let failed = |error| format!("the backend: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A failed connection makes the test fail; the client reports it.
            let folder = folder.clone();
            std::thread::spawn(move || answer(stream, &folder));
        }
    });
    Ok(address)
}

/// Answers one request, and closes the connection.
fn answer(stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?.take(REQUEST));
    let mut stream = stream;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => is_chunked = value.contains("chunked"),
            "expect" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?,
            _ => {}
        }
    }
    let mut content = Vec::new();
    if is_chunked {
        read_chunks(&mut reader, &mut content)?;
    } else {
        reader.by_ref().take(length).read_to_end(&mut content)?;
    }
    stream.write_all(&response(&path, &content, folder))
}

fn read_chunks(reader: &mut impl BufRead, content: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(std::io::Error::other)?;
        reader.by_ref().take(size).read_to_end(content)?;
        // The line ending after the chunk, or after the last chunk.
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn response(path: &str, content: &[u8], folder: &Path) -> Vec<u8> {
    match path {
        "/back/hints" => b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n\
            HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\nafter the hint\n"
            .to_vec(),
        "/back/trailers" => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\
            trailer: x-sum\r\nconnection: close\r\n\r\n\
            e\r\nwith trailers\n\r\n0\r\nx-sum: 42\r\n\r\n"
            .to_vec(),
        "/back/sink" => complete("200 OK", verdict(content).as_bytes()),
        _ => match std::fs::read(folder.join(path.trim_start_matches('/'))) {
            Ok(file) => complete("200 OK", &file),
            Err(_) => complete("404 Not Found", b""),
        },
    }
}

fn complete(status: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::read_chunks;

    #[test]
    fn chunks_are_joined() {
        let mut content = Vec::new();
        read_chunks(&mut b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n".as_slice(), &mut content).unwrap();
        assert_eq!(content, b"abcde");
    }
}
