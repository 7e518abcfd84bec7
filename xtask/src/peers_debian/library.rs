//! Tests with the library's example `peer` as the client.

use std::process::Command;

use super::Bench;
use super::problem::{Problem, ensure};
use super::servers::Server;
use super::test::{Test, link, path};
use crate::bounded::finish;

pub(crate) fn run(test: Test, server: Server, bench: &Bench) -> Result<(), Problem> {
    if matches!(test, Test::Resumption | Test::KeyUpdate | Test::Version2) {
        return Err(Problem::Unsupported("tested with get"));
    }
    let site = server.start(bench, test.variant())?;
    let (_link, direct) = path(bench, test, &site)?;
    let (text, expected) = match test {
        Test::Upload => {
            let words = ["exchange", "POST", "/back/sink", "5000000"];
            (client(bench, &direct, &words)?, "content 5000000 good")
        }
        Test::EarlyAnswer => {
            let words = ["exchange", "POST", "/early", "20000000"];
            (client(bench, &direct, &words)?, "status 401")
        }
        Test::EarlyHints => {
            let words = ["exchange", "GET", "/back/hints", "0"];
            (client(bench, &direct, &words)?, "interim 103 link=true")
        }
        Test::Trailers => {
            let words = ["exchange", "GET", "/back/trailers", "0"];
            (client(bench, &direct, &words)?, "trailer x-sum: 42")
        }
        Test::EarlyData => {
            (client(bench, &direct, &["resume", "/5m"])?, "length 5000000 good early data true")
        }
        Test::Migration => {
            let link = link(bench, &site, Test::SLOW)?;
            let text = client(bench, &link.address, &["migrate", "/5m"])?;
            if text.contains("disable_active_migration") {
                return Err(Problem::Unsupported("the server forbids migration"));
            }
            (text, "migrated; length 5000000 good")
        }
        Test::Parallel => (client(bench, &direct, &["many", "/many/", "300"])?, "good 300"),
        _ => (client(bench, &direct, &["fetch", "/5m"])?, "length 5000000 good"),
    };
    ensure(text.contains(expected), || format!("no {expected:?} in {text:?}"))
}

fn client(bench: &Bench, address: &str, words: &[&str]) -> Result<String, Problem> {
    let mut command = Command::new(&bench.example);
    command.args(["client", address, &bench.files.path("ca.pem")]).args(words);
    Ok(finish(command, bench.limit)?.success()?)
}
