//! Tests with curl as the client.

use super::Bench;
use super::problem::{Problem, ensure};
use super::servers::{Server, Site};
use super::test::{Test, link, path};
use crate::bounded::{Finished, finish, last_lines};

pub(crate) fn run(test: Test, server: Server, bench: &Bench) -> Result<(), Problem> {
    if test == Test::Version2 && !server.is_ours() {
        return Err(Problem::Unsupported("curl only supports version 1"));
    }
    if test == Test::KeyUpdate && !server.is_ours() {
        return Err(Problem::Unsupported("neither endpoint has an option to start a key update"));
    }
    let site = server.start(bench, test.variant())?;
    match test {
        Test::Upload => upload(server, &site, bench),
        Test::EarlyAnswer => early_answer(server, &site, bench),
        Test::Parallel => parallel(&site, bench),
        Test::EarlyHints => shows(server, "hints", "HTTP/3 103", &site, bench),
        Test::Trailers => shows(server, "trailers", "x-sum: 42", &site, bench),
        Test::Resumption => {
            let text = resume(&site, bench, false)?;
            ensure(text.contains("SSL reusing session"), || last_lines(&text))
        }
        Test::EarlyData => early_data(server, &site, bench),
        Test::KeyUpdate => download(&site.address.to_string(), "20m", bench),
        Test::Migration => {
            let link = link(bench, &site, Test::REBINDING)?;
            download(&link.address, "5m", bench)
        }
        Test::Version2 => {
            download(&site.address.to_string(), "5m", bench)?;
            Err(Problem::Unsupported(
                "curl only supports version 1, with which the download passes",
            ))
        }
        _ => {
            let (_link, address) = path(bench, test, &site)?;
            download(&address, "5m", bench)
        }
    }
}

/// Returns the URL of a path on a server, with the host name in the certificate.
fn url(address: &str, path: &str) -> String {
    format!("https://localhost:{}/{path}", address.rsplit(':').next().unwrap_or_default())
}

fn curl(bench: &Bench, words: &[&str]) -> Result<Finished, Problem> {
    let mut command = bench.chroot.program("curl");
    command.args(["-sS", "-4", "--http3-only", "--max-time", "35"]);
    command.args(["--cacert", &bench.chroot.inside("ca.pem")]).args(words);
    Ok(finish(command, bench.limit)?)
}

fn download(address: &str, name: &str, bench: &Bench) -> Result<(), Problem> {
    let output = bench.chroot.inside(&format!("downloads/{name}"));
    curl(bench, &["-o", &output, &url(address, name)])?.success()?;
    Ok(bench.files.compare(name)?)
}

/// Returns the path of a request that a server can answer only with application code.
fn service(server: Server, name: &str) -> Result<String, Problem> {
    match server {
        Server::Serve => Err(Problem::Unsupported("serve can only serve files")),
        Server::Library => Ok(name.to_owned()),
        _ => Ok(format!("back/{name}")),
    }
}

fn upload(server: Server, site: &Site, bench: &Bench) -> Result<(), Problem> {
    let url = url(&site.address.to_string(), &service(server, "sink")?);
    let file = bench.chroot.inside("www/5m");
    let text = curl(bench, &["--data-binary", &format!("@{file}"), &url])?.success()?;
    ensure(text.contains("5000000 good"), || format!("the server received {text}"))?;
    // The length is not announced.
    let text = curl(bench, &["-X", "POST", "-T", "-", "-H", "Expect:", &url]);
    let text = text?.success()?;
    ensure(text.contains("0 good"), || {
        format!(
            "the server received {text} for a request without \
        content"
        )
    })
}

fn early_answer(server: Server, site: &Site, bench: &Bench) -> Result<(), Problem> {
    let (path, status) = match server {
        Server::Serve => ("1k", "405"),
        _ => ("early", "401"),
    };
    let file = bench.chroot.inside("www/20m");
    let words =
        ["--data-binary", &format!("@{file}"), "-H", "Expect:", "-w", "status %{http_code}"];
    let url = url(&site.address.to_string(), path);
    let finished = curl(bench, &[&words[..], &[&url]].concat())?;
    let expected = format!("status {status}");
    ensure(finished.text.contains(&expected), || finished.text.clone())?;
    ensure(finished.is_success, || {
        format!("curl reports an error after the response: {}", finished.text)
    })
}

fn parallel(site: &Site, bench: &Bench) -> Result<(), Problem> {
    let url = url(&site.address.to_string(), "many/[1-300]");
    let output = bench.chroot.inside("downloads/#1");
    curl(bench, &["-Z", "--parallel-max", "300", "-o", &output, &url])?.success()?;
    Ok(bench.files.compare_many()?)
}

/// Requests a path, and searches the output for a line of the response.
fn shows(
    server: Server,
    name: &str,
    line: &str,
    site: &Site,
    bench: &Bench,
) -> Result<(), Problem> {
    let url = url(&site.address.to_string(), &service(server, name)?);
    let text = curl(bench, &["-i", "-H", "TE: trailers", &url])?.success()?;
    ensure(text.contains(line), || format!("no {line:?} in {}", last_lines(&text)))
}

/// Makes two requests on separate connections. The second request states the address explicitly,
/// which keeps curl from reusing the first connection.
fn resume(site: &Site, bench: &Bench, is_early: bool) -> Result<String, Problem> {
    let url = url(&site.address.to_string(), "1k");
    let mut words = vec!["-v", "-o", "/dev/null"];
    let early: &[&str] = if is_early { &["--tls-earlydata"] } else { &[] };
    words.extend(early);
    words.push(&url);
    let ca = bench.chroot.inside("ca.pem");
    words.extend([
        "--next",
        "-v",
        "-sS",
        "-4",
        "--http3-only",
        "--max-time",
        "40",
        "--cacert",
        &ca,
    ]);
    words.extend(early);
    words.extend(["--interface", "127.0.0.1", "-o", "/dev/null", &url]);
    let text = curl(bench, &words)?.success()?;
    Ok(text)
}

/// Checks whether a request in early data was answered, according to the response or to the qlog of
/// `clearway serve`.
fn early_data(server: Server, site: &Site, bench: &Bench) -> Result<(), Problem> {
    let text = resume(site, bench, true)?;
    let is_early = match server {
        Server::Serve => bench.files.serve_logged("0RTT"),
        Server::Caddy => {
            return Err(Problem::Unsupported("caddy does not report early data"));
        }
        _ => text.contains("x-early: 1"),
    };
    ensure(is_early, || format!("the server received no early data: {}", last_lines(&text)))
}
