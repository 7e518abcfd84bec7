//! What requests in progress count in the memory budget of a server.

use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{BodySource, Client, Config, Handler, RequestStream, Server, serve_in_shard};
use clearway::{ClientConfig, Endpoint, MemoryBudget};
use http::{Request, Response};

use crate::support::{configs, get, loopback, run};

const REQUESTS: u64 = 64;
/// What each of them counts at least.
const EACH: u64 = 4 << 10;
/// What a connection counts at most that has no requests.
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

/// Makes requests that are not answered to the end, and cancels them.
async fn requests_count(budget: &MemoryBudget, server: &Endpoint, config: &ClientConfig) {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = Client::connect(&endpoint, config, server.local_address(), "localhost");
    let client = client.await.unwrap();
    let pending: Vec<_> = (0..REQUESTS).map(|_| client.start(get("/")).unwrap()).collect();
    until("in progress", budget, |held| held >= REQUESTS * EACH).await;
    // Not only while the first content is on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let held = budget.statistics().held;
    assert!(held >= REQUESTS * EACH, "{held}");
    drop(pending);
    until("canceled", budget, |held| held <= CONNECTION).await;
}

#[test]
fn requests_that_tasks_answer_count() {
    run(async {
        let (config, of_client) = configs(Default::default());
        let budget = MemoryBudget::new(64 << 20);
        let server = Server::bind(loopback(), config.memory_budget(budget.clone())).unwrap();
        let endpoint = server.endpoint().clone();
        tokio::spawn(async move {
            while let Some((_, mut responder)) = server.accept().await {
                tokio::spawn(async move { responder.cancelled().await });
            }
        });
        requests_count(&budget, &endpoint, &of_client).await;
    });
}

/// Content that never ends.
struct Endless;

impl BodySource for Endless {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        Some(vec![0; wanted].into())
    }
}

impl Handler for Endless {
    fn request(&mut self, stream: &mut RequestStream<'_>, _: Request<()>) {
        stream.respond(&Response::new(()), Some(Box::new(Endless))).unwrap();
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
