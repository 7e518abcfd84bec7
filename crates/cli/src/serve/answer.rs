//! What a request is answered with.

use clearway::http3::Body;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE,
};
use http::response::Builder;
use http::{HeaderMap, Method, Response, StatusCode};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::files::{Files, Found, Part, part, seek};

/// A response, and how many bytes of content it announces.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    pub(super) length: u64,
}

/// Answers a request for `path` (without the query).
pub(super) async fn answer(
    files: &Files,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Answer {
    if method != Method::GET && method != Method::HEAD {
        let builder = Response::builder().header(ALLOW, "GET, HEAD");
        return text(builder, StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD work here.\n");
    }
    match files.find(path).await {
        Found::File { file, path, length } => {
            let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
            let range = range.filter(|_| method == Method::GET);
            let media_type = mime_guess::from_path(&path).first_or_octet_stream();
            let builder = Response::builder()
                .header(CONTENT_TYPE, media_type.essence_str())
                .header(ACCEPT_RANGES, "bytes");
            send(builder, method, file, length, part(range, length)).await
        }
        Found::Folder => {
            let builder = Response::builder().header(LOCATION, format!("{path}/"));
            text(builder, StatusCode::MOVED_PERMANENTLY, "This is a folder.\n")
        }
        Found::Nothing => {
            text(Response::builder(), StatusCode::NOT_FOUND, "There is no such file.\n")
        }
    }
}

async fn send(builder: Builder, method: &Method, file: File, length: u64, part: Part) -> Answer {
    let (builder, range) = match part {
        Part::Whole => (builder, 0..length),
        Part::Some(range) => {
            let description = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            let builder =
                builder.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, description);
            (builder, range)
        }
        Part::Unsatisfiable => {
            let builder = Response::builder().header(CONTENT_RANGE, format!("bytes */{length}"));
            return text(builder, StatusCode::RANGE_NOT_SATISFIABLE, "It is not that long.\n");
        }
    };
    let mut file = file;
    if seek(&mut file, range.start).await.is_err() {
        return unreadable();
    }
    let length = range.end - range.start;
    let body = match method == Method::HEAD {
        true => Body::empty(),
        // Exactly as much as is announced, even if the file grows meanwhile.
        false => Body::from_reader(file.take(length)),
    };
    let response = builder.header(CONTENT_LENGTH, length).body(body);
    response.map_or_else(|_| unreadable(), |response| Answer { response, length })
}

fn text(builder: Builder, status: StatusCode, content: &'static str) -> Answer {
    let builder = builder.status(status).header(CONTENT_TYPE, "text/plain; charset=utf-8");
    let response = builder.body(Body::full(content));
    response
        .map_or_else(|_| unreadable(), |response| Answer { response, length: content.len() as u64 })
}

fn unreadable() -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    Answer { response, length: 0 }
}
