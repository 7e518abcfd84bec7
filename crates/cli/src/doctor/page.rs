//! The doctor's view as a web page that reloads itself every second.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use clearway_doctor::Scope;
use http::{Response, StatusCode};
use tokio::net::TcpListener;

use super::collecting::{Collecting, Pace};
use super::view::View;
use super::watch::WINDOW;
use crate::failure::Failure;
use crate::http1::{self, Body, Content};
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::output;

/// Serves the page until the user interrupts the command.
pub(super) async fn serve(
    address: SocketAddr,
    pace: Pace,
    scope: Scope,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    let failed = |error| Listening::PAGE.failed(address, &error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    let page = Page(Arc::new(ArcSwap::new(Arc::new(View::of(&[], scope).0))));
    let shown = page.0.clone();
    let mut collecting = Collecting::without_end(pace, WINDOW)?;
    output::result(&format!("the doctor's page is at http://{local}/"))?;
    let follow = async {
        loop {
            if collecting.progress().await {
                return;
            }
            shown.store(Arc::new(View::of(&collecting.snapshots(), scope).0));
        }
    };
    tokio::select! {
        never = http1::serve(listener, &[], page) => match never {},
        () = follow => Err(Failure::new("the doctor has stopped taking snapshots")),
        _ = interrupt.received() => Ok(()),
    }
}

struct Page(Arc<ArcSwap<View>>);

impl Content for Page {
    async fn get(&self, path: &str) -> Response<Body> {
        match path {
            "/" => http1::whole("text/html; charset=utf-8", document(&self.0.load())),
            _ => http1::refusal(StatusCode::NOT_FOUND, "the page is at /\n"),
        }
    }
}

fn document(view: &View) -> String {
    let lines: Vec<_> = view.lines().iter().map(|line| marked(line)).collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         <meta http-equiv=\"refresh\" content=\"1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <style>pre{{white-space:pre-wrap}}mark{{font-weight:bold}}</style></head>\
         <body><pre>{}</pre></body></html>\n",
        escaped(&view.headline),
        lines.join("\n")
    )
}

/// Formats a line as HTML; the line of a lossy stage is highlighted.
fn marked(line: &str) -> String {
    let text = escaped(line);
    match line.starts_with(">>") {
        true => format!("<mark>{text}</mark>"),
        false => text,
    }
}

/// Escapes the text for HTML: it contains names of processes and devices, which anyone on this host
/// may choose.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;

    #[test]
    fn the_page_has_the_path_and_nothing_of_a_name_is_markup() {
        let mut view = view();
        view.details.push("<script>&".to_owned());
        let document = document(&view);
        assert!(document.contains("<mark>&gt;&gt; socket"), "{document}");
        assert!(document.contains("&lt;script&gt;&amp;"), "{document}");
    }
}
