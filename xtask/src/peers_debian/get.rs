//! Tests with `clearway get` as the client.

use std::process::Command;

use super::Bench;
use super::files::MANY;
use super::problem::{Problem, ensure};
use super::servers::Server;
use super::test::{Test, link, path};
use crate::bounded::finish;

const BY_LIBRARY: Problem = Problem::Unsupported(
    "get does not support this; see the library's \
    column",
);

pub(crate) fn run(test: Test, server: Server, bench: &Bench) -> Result<(), Problem> {
    let variant = match test {
        Test::Upload | Test::EarlyAnswer | Test::EarlyHints | Test::Trailers => {
            return Err(BY_LIBRARY);
        }
        // The client initiates the key update.
        Test::KeyUpdate => super::servers::Variant::Usual,
        _ => test.variant(),
    };
    let site = server.start(bench, variant)?;
    let direct = site.address.to_string();
    match test {
        Test::Parallel => {
            let paths: Vec<String> = (1..=MANY).map(|number| format!("many/{number}")).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            get(bench, &direct, &[], &paths)?;
            Ok(bench.files.compare_many()?)
        }
        Test::Resumption => {
            get(bench, &direct, &["--resume"], &["1k", "5m"])?;
            Ok(bench.files.compare("5m")?)
        }
        Test::EarlyData => {
            let text = get(bench, &direct, &["--resume", "--early-data"], &["1k", "5m"])?;
            bench.files.compare("5m")?;
            let is_accepted = text.contains(": early data was accepted");
            ensure(is_accepted, || format!("no early data: {text}"))
        }
        Test::KeyUpdate => {
            download(bench, &direct, &["--key-update-after", "200"], "20m").map(drop)
        }
        Test::Migration => {
            let link = link(bench, &site, Test::SLOW)?;
            let options = ["--rebind-after", "300ms"];
            let text = download(bench, &link.address, &options, "5m")?;
            if text.contains("disable_active_migration") {
                return Err(Problem::Unsupported("the server forbids migration"));
            }
            ensure(!text.contains("cannot migrate"), || text)
        }
        Test::Version2 => download(bench, &direct, &["--quic-versions", "2"], "5m").map(drop),
        _ => {
            let (_link, address) = path(bench, test, &site)?;
            download(bench, &address, &[], "5m").map(drop)
        }
    }
}

fn download(bench: &Bench, address: &str, options: &[&str], name: &str) -> Result<String, Problem> {
    let text = get(bench, address, options, &[name])?;
    bench.files.compare(name)?;
    Ok(text)
}

/// Downloads files to the downloads folder, and returns the output of `clearway get`.
fn get(bench: &Bench, address: &str, words: &[&str], paths: &[&str]) -> Result<String, Problem> {
    let mut command = Command::new(&bench.program);
    command.args(["get", "-v", "-O", "--ca", &bench.files.path("ca.pem"), "--connect", address]);
    command.current_dir(&bench.files.downloads).args(words);
    let port = address.rsplit(':').next().unwrap_or_default();
    command.args(paths.iter().map(|path| format!("https://localhost:{port}/{path}")));
    Ok(finish(command, bench.limit)?.success()?)
}
