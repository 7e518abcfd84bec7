//! Serves the page to a browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use clearway_qlog::model::{Header, TraceName};
use clearway_qlog::read::QlogReader;
use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderValue, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::ViewCommand;
use super::trace::{Trace, read_all};
use crate::failure::Failure;
use crate::http1::{self, Body, Content};
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::output;

/// The page's HTML, as built from `viewer/`.
pub(super) const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/index.html"));
/// The placeholder in the page for embedded traces.
pub(super) const PLACEHOLDER: &str = "<!--clearway:traces-->";

/// A trace in the form in which it is sent to the page.
#[derive(Debug)]
struct Served {
    name: String,
    header: Header,
    columns: Bytes,
}

/// Reads `files` and serves their traces, which the page requests one by one. Requests wait until
/// the traces are read.
pub(super) fn traces(files: Vec<(PathBuf, QlogReader)>) -> impl Content {
    let (sender, receiver) = watch::channel(None);
    // The thread is not joined, so an interrupt ends the program immediately.
    thread::spawn(move || {
        let serve = |Trace { name, model }| Served {
            name,
            header: model.header,
            columns: Bytes::from(model.columns),
        };
        let traces: Arc<[Served]> = read_all(files).into_iter().map(serve).collect();
        sender.send_replace(Some(traces));
    });
    Traces(receiver)
}

/// All traces, once they are read.
#[derive(Clone, Debug)]
struct Traces(watch::Receiver<Option<Arc<[Served]>>>);

impl Traces {
    /// Waits for the traces. `None` if they will never be read.
    async fn read(&self) -> Option<Arc<[Served]>> {
        let mut receiver = self.0.clone();
        let traces = receiver.wait_for(Option::is_some).await.map(|traces| traces.clone());
        traces.ok().flatten()
    }
}

impl Content for Traces {
    async fn get(&self, path: &str) -> Response<Body> {
        let Some(traces) = self.read().await else {
            return http1::refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the traces could not be read\n",
            );
        };
        if path == "/traces.json" {
            let name = |trace: &Served| TraceName { name: trace.name.clone() };
            return http1::json(&traces.iter().map(name).collect::<Vec<_>>());
        }
        let part = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let of = |number: &str| traces.get(number.parse::<usize>().ok()?);
        match part.and_then(|(number, part)| Some((of(number)?, part))) {
            Some((trace, "header.json")) => http1::json(&trace.header),
            Some((trace, "columns.bin")) => {
                http1::whole("application/octet-stream", trace.columns.clone())
            }
            _ => http1::refusal(StatusCode::NOT_FOUND, "no such trace\n"),
        }
    }
}

/// The page, and the content that it requests.
struct Page<C> {
    content: C,
    policy: HeaderValue,
}

impl<C> Page<C> {
    fn new(content: C) -> Self {
        Self { content, policy: policy(PAGE) }
    }
}

/// Returns the Content-Security-Policy of a page: it only allows the scripts and styles in the
/// page, and requests to its own origin. Text from a trace would therefore have no effect even if
/// it were inserted as HTML.
fn policy(page: &str) -> HeaderValue {
    let of_all = |name: &str| -> String {
        inline(page, name).map(|text| format!(" 'sha256-{}'", hash(text))).collect()
    };
    let (scripts, styles) = (of_all("script"), of_all("style"));
    let policy = format!(
        "default-src 'none'; script-src{scripts}; style-src{styles}; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    // The policy is printable ASCII.
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Returns the content of the page's elements with this name.
fn inline<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (start, end) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = page;
    std::iter::from_fn(move || {
        let (_, element) = rest.split_once(&start)?;
        let (_, content) = element.split_once('>')?;
        let (content, after) = content.split_once(&end)?;
        rest = after;
        Some(content)
    })
}

/// Returns the SHA-256 of a text in base64.
fn hash(text: &str) -> String {
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}

impl<C: Content> Content for Page<C> {
    async fn get(&self, path: &str) -> Response<Body> {
        match path {
            "/" => {
                let mut response = http1::whole("text/html; charset=utf-8", PAGE);
                response.headers_mut().insert(CONTENT_SECURITY_POLICY, self.policy.clone());
                response
            }
            _ => self.content.get(path).await,
        }
    }
}

/// Serves the page, and answers its requests from `content`, until the program is interrupted.
pub(super) async fn serve(command: &ViewCommand, content: impl Content) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let failed = |error: &std::io::Error| Listening::PAGE.failed(command.listen, error);
    let listener = TcpListener::bind(command.listen).await.map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let page = format!("http://{address}/");
    output::result(&format!("the page is at {page}"))?;
    if !command.no_open && open::that_detached(&page).is_err() {
        output::status("cannot start a browser; open the page yourself");
    }
    tokio::select! {
        never = http1::serve(listener, &command.names, Page::new(content)) => match never {},
        _ = interrupt.received() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_hash_of_each_script_and_style() {
        let page =
            "<head><style>a{}</style></head><script type=\"module\">b</script><script>c</script>";
        let policy = policy(page);
        let policy = policy.to_str().unwrap();
        let [style, one, other] = ["a{}", "b", "c"].map(|text| format!("'sha256-{}'", hash(text)));
        assert!(policy.contains(&format!("; style-src {style};")), "{policy}");
        assert!(policy.contains(&format!("; script-src {one} {other};")), "{policy}");
        assert_eq!(hash(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[tokio::test]
    async fn the_page_has_a_policy_for_what_is_in_it() {
        struct Nothing;
        impl Content for Nothing {
            async fn get(&self, _: &str) -> Response<Body> {
                http1::refusal(StatusCode::NOT_FOUND, "")
            }
        }
        let response = Page::new(Nothing).get("/").await;
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
