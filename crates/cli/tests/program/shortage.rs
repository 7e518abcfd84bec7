//! Tests responses that a server resets because content memory is low.

use std::net::SocketAddr;
use std::process::Stdio;

use clearway::http3::Client;
use clearway::{ClientConfig, Endpoint};
use http::Request;
use tokio::net::UdpSocket;

use crate::support::{Running, Scratch, clearway};

/// Number of requests, each for more content than the server may keep in memory for one host.
const REQUESTS: usize = 8;

/// Forwards datagrams to a server and back. After some responses, it drops all datagrams from the
/// client.
async fn cut_off(server: SocketAddr) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let of_client = UdpSocket::bind(any).await.unwrap();
    let of_server = UdpSocket::bind(any).await.unwrap();
    let address = of_client.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut here, mut there) = ([0; 2048], [0; 2048]);
        let (mut client, mut responses) = (any, 0);
        loop {
            tokio::select! {
                Ok((length, from)) = of_client.recv_from(&mut here) => {
                    client = from;
                    if responses < 20 {
                        of_server.send_to(&here[..length], server).await.unwrap();
                    }
                }
                Ok((length, _)) = of_server.recv_from(&mut there) => {
                    responses += usize::from(length > 1000);
                    of_client.send_to(&there[..length], client).await.unwrap();
                }
            }
        }
    });
    address
}

fn config(protocol: &str) -> ClientConfig {
    ClientConfig::dangerous_without_certificate_verification().application_protocols([protocol])
}

/// A client grants flow control credit for several responses but acknowledges nothing. The operator
/// learns which path was reset, and why.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_for_lack_of_memory_is_reported() {
    let scratch = Scratch::new("shortage");
    scratch.fill("root/large", 1 << 20);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    for is_http09 in [false, true] {
        let mut command = clearway(&["serve", &root, "--listen", "127.0.0.1:0", "--quiet"]);
        command.args(["--save-cert", &certificate, "--content-memory", "1MiB"]);
        command.args(is_http09.then_some("--http09")).stderr(Stdio::piped());
        let mut server = tokio::task::block_in_place(|| Running::listening(command));
        let through = cut_off(server.address.parse().unwrap()).await;
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let (mut of_http3, mut of_http09) = (Vec::new(), Vec::new());
        if is_http09 {
            let connecting = endpoint.connect_with(&config("hq-interop"), through, "localhost");
            let connection = connecting.unwrap().await.unwrap();
            for _ in 0..REQUESTS {
                let (mut send, receive) = connection.open_bi().await.unwrap();
                send.finish_with(b"GET /large\r\n".to_vec().into()).await.unwrap();
                of_http09.push((connection.clone(), receive));
            }
        } else {
            let config = config("h3");
            let client = Client::connect(&endpoint, &config, through, "localhost").await.unwrap();
            for _ in 0..REQUESTS {
                let request = Request::get("https://localhost/large").body(()).unwrap();
                let (send, response) = client.open(request).unwrap();
                of_http3.push((client.clone(), send.finish().await, response));
            }
        }
        let expected = match is_http09 {
            true => {
                "cannot serve \"/large\": reset because memory is low and the client accepts no data"
            }
            false => "cannot serve \"/large\": reset because memory is low and 127.0.0.1:",
        };
        tokio::task::block_in_place(|| while !server.error_line().contains(expected) {});
        drop((of_http3, of_http09));
    }
}
