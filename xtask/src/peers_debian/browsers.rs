//! Chromium and Firefox as clients. The test page reports the outcome with a request, which the
//! server logs.

use std::fs;
use std::process::Command;

use super::Bench;
use super::problem::{Problem, ensure};
use super::servers::Server;
use super::test::{Client, Test, link, path};
use crate::bounded::Server as Process;
use crate::command::output;

/// Path of the request with which the test page reports the outcome.
const REPORT: &str = "/report/";

pub(crate) fn run(
    client: Client,
    test: Test,
    server: Server,
    bench: &Bench,
) -> Result<(), Problem> {
    let is_serve = server == Server::Serve;
    let (task, expected) = match test {
        Test::Upload if is_serve => {
            return Err(Problem::Unsupported("serve can only serve files"));
        }
        Test::Upload => ("upload", "200 5000000 good"),
        Test::EarlyAnswer if is_serve => ("file", "405"),
        Test::EarlyAnswer => ("early", "401"),
        Test::Parallel => ("parallel", "good"),
        Test::EarlyHints | Test::Trailers => {
            return Err(Problem::Unsupported(
                "a page cannot observe interim responses and trailers",
            ));
        }
        Test::Resumption | Test::EarlyData => {
            return Err(Problem::Unsupported("a page cannot observe resumption and early data"));
        }
        Test::KeyUpdate => ("large", "good"),
        _ => ("download", "good"),
    };
    let mut site = server.start(bench, test.variant())?;
    let (_link, address) = match test {
        Test::Migration => {
            let link = link(bench, &site, Test::REBINDING)?;
            let address = link.address.clone();
            (Some(link), address)
        }
        _ => path(bench, test, &site)?,
    };
    let url = format!("https://localhost:{}/page.html#{task}", port(&address));
    let log = bench.folder.join(format!("{}.log", client.name()));
    let profile = format!("profile-{}", client.name());
    let _ = fs::remove_dir_all(bench.files.folder.join(&profile));
    let command = match client {
        Client::Firefox => firefox(bench, &profile, &address, &url)?,
        _ => chromium(bench, &profile, &address, &url)?,
    };
    let _browser = Process::start(command, &log)?;
    let outcome = site.process.wait_for(bench.limit, |log| log.contains(REPORT));
    ensure(site.process.log().contains("/page.html"), || {
        "the browser did not request the page; it may not have started in time".to_owned()
    })?;
    outcome?;
    let report = reported(&site.process.log());
    ensure(report == expected, || report)?;
    match test {
        Test::Version2 => {
            Err(Problem::Unsupported("version 1 only, with which the download passes"))
        }
        _ => Ok(()),
    }
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// Returns the outcome that the test page reported, from the server's log.
fn reported(log: &str) -> String {
    let text = log.split_once(REPORT).map_or("", |(_, text)| text);
    let text = text.split(['"', ' ', '\n']).next().unwrap_or_default();
    text.replace("%20", " ").replace("%3A", ":").replace("%2F", "/")
}

fn chromium(bench: &Bench, profile: &str, address: &str, url: &str) -> Result<Command, Problem> {
    let mut command = bench.chroot.isolated("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-port=0",
        "--host-resolver-rules=MAP localhost 127.0.0.1,MAP * ~NOTFOUND",
    ]);
    command.arg(format!("--user-data-dir={}", bench.chroot.inside(profile)));
    command.arg(format!("--origin-to-force-quic-on=localhost:{}", port(address)));
    command.arg(format!("--ignore-certificate-errors-spki-list={}", key_hash(bench)?));
    command.arg(url);
    Ok(command)
}

/// Returns the hash of the server's public key. Without this hash, Chromium does not accept
/// certificates of a private CA over QUIC.
fn key_hash(bench: &Bench) -> Result<String, Problem> {
    let pipeline = "openssl pkey -in \"$0\" -pubout -outform der | openssl dgst -sha256 -binary \
        | openssl base64";
    let mut command = bench.chroot.program("sh");
    command.args(["-c", pipeline, &bench.chroot.inside("key.pem")]);
    Ok(output("the key's hash", &mut command)?.trim().to_owned())
}

/// Returns the command for Firefox. A policy makes Firefox trust the CA, and a preference tells it
/// that the server supports HTTP/3.
fn firefox(bench: &Bench, profile: &str, address: &str, url: &str) -> Result<Command, Problem> {
    let failed = |error: std::io::Error| Problem::Failed(format!("Firefox's profile: {error}"));
    let policies = bench.chroot.outside("/etc/firefox/policies");
    fs::create_dir_all(&policies).map_err(failed)?;
    let ca = bench.chroot.inside("ca.pem");
    let policy = format!("{{\"policies\":{{\"Certificates\":{{\"Install\":[\"{ca}\"]}}}}}}\n");
    fs::write(policies.join("policies.json"), policy).map_err(failed)?;
    let folder = bench.files.folder.join(profile);
    fs::create_dir_all(&folder).map_err(failed)?;
    let preferences = format!(
        "user_pref(\"network.http.http3.alt-svc-mapping-for-testing\", \"localhost;h3=:{}\");
user_pref(\"network.http.http3.disable_when_third_party_roots_found\", false);
user_pref(\"network.dns.disableIPv6\", true);
user_pref(\"network.captive-portal-service.enabled\", false);
user_pref(\"network.connectivity-service.enabled\", false);
user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);
user_pref(\"browser.shell.checkDefaultBrowser\", false);
user_pref(\"app.normandy.enabled\", false);
user_pref(\"security.sandbox.content.level\", 0);\n",
        port(address)
    );
    fs::write(folder.join("user.js"), preferences).map_err(failed)?;
    let mut command = bench.chroot.isolated("env");
    command.args(["HOME=/root", "MOZ_DISABLE_CONTENT_SANDBOX=1", "firefox", "--headless"]);
    command.args(["--no-remote", "--profile", &bench.chroot.inside(profile), url]);
    Ok(command)
}
