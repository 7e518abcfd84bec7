//! A Clearway HTTP/3 server in the test process.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use clearway::ServerConfig;
use clearway::http3::{Body, RecvBody, Server};
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway_probe::quic::Trust;
use clearway_probe::run::{Options, Target};
use http::{Request, Response, StatusCode};
use tokio::runtime::Runtime;

/// The server that is shared by all tests.
struct Shared {
    address: SocketAddr,
    _runtime: Runtime,
}

async fn answer(request: Request<RecvBody>) -> Response<Body> {
    match request.uri().path() {
        "/echo" => Response::new(Body::from(request.into_body())),
        "/missing" => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
        _ => Response::new(Body::from("hello\n")),
    }
}

fn start() -> Shared {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let config = ServerConfig::new(vec![certified.cert.into()], key.into()).early_data(true);
        Arc::new(Server::bind("127.0.0.1:0".parse().unwrap(), config).unwrap())
    });
    let address = server.local_address();
    runtime.spawn(async move { server.serve(answer).await });
    Shared { address, _runtime: runtime }
}

/// Returns the shared server as a target.
pub(crate) fn target() -> Target {
    static SERVER: OnceLock<Shared> = OnceLock::new();
    let address = SERVER.get_or_init(start).address;
    Target {
        address,
        server_name: "localhost".to_owned(),
        authority: format!("localhost:{}", address.port()),
        trust: Trust::Anyone,
    }
}

pub(crate) fn options() -> Options {
    Options::default()
}
