//! Tests of the memory charged to a server's budget for requests in progress.

use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{
    Body, BodySource, Client, Config, Handler, RequestStream, Server, serve_in_shard,
};
use clearway::{ClientConfig, Endpoint, MemoryBudget};
use http::{Request, Response};

use crate::support::{configs, get, loopback, run};

const REQUESTS: u64 = 64;
/// The minimum number of bytes charged to the budget for a request.
const EACH: u64 = 4 << 10;
/// The maximum number of bytes charged to the budget for a connection without requests.
const CONNECTION: u64 = 96 << 10;

async fn until(what: &str, budget: &MemoryBudget, is_so: impl Fn(u64) -> bool) {
    let wait = async {
        while !is_so(budget.statistics().held) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
    assert!(waited.is_ok(), "{what}: {:?}", budget.statistics());
}

/// Makes requests with incomplete responses and cancels them, then makes requests with complete
/// responses. On both endpoints, each request counts against the budget until it has ended.
async fn requests_count(of_server: &MemoryBudget, server: &Endpoint, config: &ClientConfig) {
    // Only an endpoint that accepts connections has a budget.
    let of_client = MemoryBudget::new(64 << 20);
    let own = configs(Default::default()).0.memory_budget(of_client.clone());
    let endpoint = Endpoint::server(loopback(), own).unwrap();
    let budgets = [("server", of_server), ("client", &of_client)];
    let client = Client::connect(&endpoint, config, server.local_address(), "localhost");
    let client = client.await.unwrap();
    let answered = async || {
        let mut response = client.send(get("/answer")).await.unwrap();
        assert_eq!(response.body_mut().bytes(100).await.unwrap(), "");
    };
    answered().await;
    let before = budgets.map(|(_, budget)| budget.statistics().held);
    let pending: Vec<_> = (0..REQUESTS).map(|_| client.start(get("/")).unwrap()).collect();
    for (end, budget) in budgets {
        until(&format!("in progress: {end}"), budget, |held| held >= REQUESTS * EACH).await;
    }
    // The requests still count after the first content has arrived.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for (end, budget) in budgets {
        let held = budget.statistics().held;
        assert!(held >= REQUESTS * EACH, "{end}: {held}");
    }
    drop(pending);
    for (end, budget) in budgets {
        until(&format!("canceled: {end}"), budget, |held| held <= CONNECTION).await;
    }
    for _ in 0..REQUESTS {
        answered().await;
    }
    for ((end, budget), before) in budgets.into_iter().zip(before) {
        let most = CONNECTION.min(before + 3 * EACH);
        until(&format!("answered: {end}, {before}"), budget, |held| held <= most).await;
    }
}

#[test]
fn requests_that_tasks_answer_count() {
    run(async {
        let (config, of_client) = configs(Default::default());
        let budget = MemoryBudget::new(64 << 20);
        let server = Server::bind(loopback(), config.memory_budget(budget.clone())).unwrap();
        let endpoint = server.endpoint().clone();
        tokio::spawn(async move {
            while let Some((request, mut responder)) = server.accept().await {
                tokio::spawn(async move {
                    match request.uri().path() {
                        "/answer" => responder.respond(Response::new(Body::empty())).await.unwrap(),
                        _ => drop(responder.cancelled().await),
                    }
                });
            }
        });
        requests_count(&budget, &endpoint, &of_client).await;
    });
}

/// A body that never ends.
struct Endless;

impl BodySource for Endless {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        Some(vec![0; wanted].into())
    }
}

impl Handler for Endless {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let is_endless = request.uri().path() != "/answer";
        let body = is_endless.then(|| Box::new(Endless) as Box<dyn BodySource>);
        stream.respond(&Response::new(()), body).unwrap();
    }
}

#[test]
fn requests_that_a_handler_answers_count() {
    run(async {
        let (config, of_client) = configs(Default::default());
        let budget = MemoryBudget::new(64 << 20);
        let config = config.memory_budget(budget.clone());
        let server = serve_in_shard(loopback(), config, Config::default(), |_| Endless).unwrap();
        requests_count(&budget, &server, &of_client).await;
    });
}
