//! The response to a request.

use std::net::SocketAddr;
use std::time::SystemTime;

use clearway::http3::Body;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderValue,
    LAST_MODIFIED, LOCATION, RETRY_AFTER,
};
use http::response::Builder;
use http::{HeaderMap, Method, Response, StatusCode, Uri};

use super::conditions::{Validators, Verdict, judge};
use super::files::{FileFound, Files, Found};
use super::store::Reader;

/// The value of Retry-After for a rejected client, in seconds.
const RETRY: &str = "10";

/// A response, and the data for the access log.
pub(super) struct Answer {
    pub(super) response: Response<Content>,
    /// The length of the content in bytes, as announced.
    pub(super) length: u64,
    /// A problem on the server's side, for its log.
    pub(super) problem: Option<String>,
}

/// The source of a response's content.
pub(super) enum Content {
    Body(Body),
    File(Reader),
}

/// Responds to a request.
pub(super) async fn answer(
    files: &Files,
    client: SocketAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Answer {
    let now = SystemTime::now();
    let mut answer = match method == Method::GET || method == Method::HEAD {
        true => find(files, client, method, uri, headers, now).await,
        false => {
            let builder = Response::builder().header(ALLOW, "GET, HEAD");
            text(builder, StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.\n")
        }
    };
    // RFC 9110 §6.6.1.
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(now)) {
        answer.response.headers_mut().insert(DATE, date);
    }
    answer
}

/// Returns the response to a request for an authority that this server does not serve (RFC 9110
/// §15.5.20).
pub(super) fn misdirected() -> Answer {
    let content = "This server does not serve the requested host.\n";
    text(Response::builder(), StatusCode::MISDIRECTED_REQUEST, content)
}

async fn find(
    files: &Files,
    client: SocketAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    now: SystemTime,
) -> Answer {
    let builder = Response::builder();
    match files.find(client, uri.path()).await {
        Found::File(file) => send(files, client, method, headers, file, now),
        Found::Folder(mut place) => {
            if let Some(query) = uri.query() {
                place.push('?');
                place.push_str(query);
            }
            text(
                builder.header(LOCATION, place),
                StatusCode::MOVED_PERMANENTLY,
                "This is a folder.\n",
            )
        }
        Found::Nothing => text(builder, StatusCode::NOT_FOUND, "There is no such file.\n"),
        Found::Forbidden(error) => {
            let answer =
                text(builder, StatusCode::FORBIDDEN, "This file is not readable by the server.\n");
            Answer { problem: Some(error.to_string()), ..answer }
        }
        Found::Busy(error) => busy(error.to_string()),
        Found::Failed(error) => unreadable(error.to_string()),
    }
}

fn send(
    files: &Files,
    client: SocketAddr,
    method: &Method,
    headers: &HeaderMap,
    file: FileFound,
    now: SystemTime,
) -> Answer {
    let length = file.identity.length;
    let validators = Validators::of(&file.identity, now);
    let mut builder =
        Response::builder().header(ETAG, &validators.entity_tag).header(ACCEPT_RANGES, "bytes");
    if let Some(modified) = validators.modified {
        builder = builder.header(LAST_MODIFIED, httpdate::fmt_http_date(modified));
    }
    let range = match judge(method, headers, &validators, length) {
        Verdict::Whole => 0..length,
        Verdict::Part(range) => {
            let description = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            builder =
                builder.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, description);
            range
        }
        Verdict::Unsatisfiable => {
            let builder = builder.header(CONTENT_RANGE, format!("bytes */{length}"));
            return text(
                builder,
                StatusCode::RANGE_NOT_SATISFIABLE,
                "The range is beyond the end of the file.\n",
            );
        }
        Verdict::NotModified => {
            return built(
                builder.status(StatusCode::NOT_MODIFIED),
                Content::Body(Body::empty()),
                0,
            );
        }
        Verdict::Failed => {
            let status = StatusCode::PRECONDITION_FAILED;
            return text(
                builder,
                status,
                "The file is not the version that the request expects.\n",
            );
        }
    };
    let length = range.end - range.start;
    let builder = builder.header(CONTENT_TYPE, &file.media_type).header(CONTENT_LENGTH, length);
    let content = match method == Method::HEAD || length == 0 {
        true => Content::Body(Body::empty()),
        false => Content::File(file.read(client, &files.store, range.start, range.end)),
    };
    built(builder, content, length)
}

fn built(builder: Builder, content: Content, length: u64) -> Answer {
    match builder.body(content) {
        Ok(response) => Answer { response, length, problem: None },
        Err(error) => unreadable(error.to_string()),
    }
}

fn text(builder: Builder, status: StatusCode, content: &'static str) -> Answer {
    let builder = builder.status(status).header(CONTENT_TYPE, "text/plain; charset=utf-8");
    built(builder, Content::Body(Body::full(content)), content.len() as u64)
}

/// Returns the response when resources of the machine, or the limits of the server, are exhausted
/// (503, RFC 9110 §15.6.4).
fn busy(problem: String) -> Answer {
    let builder = Response::builder().header(RETRY_AFTER, RETRY);
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let answer = text(builder, status, "The server is overloaded; try again soon.\n");
    Answer { problem: Some(problem), ..answer }
}

fn unreadable(problem: String) -> Answer {
    let mut response = Response::new(Content::Body(Body::empty()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    Answer { response, length: 0, problem: Some(problem) }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
