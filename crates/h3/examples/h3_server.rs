//! A server that answers HTTP/3 requests with the crate h3.
//!
//!     cargo run -p clearway-h3 --example h3_server -- 127.0.0.1:4433 certificate.pem
//!
//! It creates a certificate for `localhost` and writes it to the file, for the example `h3_client`.

use std::error::Error;

use bytes::{Buf, Bytes};
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{Endpoint, ServerConfig};
use h3::server::RequestResolver;
use http::{Method, Response, StatusCode};

type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(file), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: h3_server ADDRESS CERTIFICATE".into());
    };
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    std::fs::write(&file, certified.cert.pem())?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let config =
        ServerConfig::new(vec![certified.cert.into()], key.into()).application_protocols(["h3"]);
    let endpoint = Endpoint::server(address.parse()?, config)?;
    println!("listening on {}; the certificate is in {file}", endpoint.local_address());

    while let Some(connecting) = endpoint.accept().await {
        tokio::spawn(async move {
            let remote = connecting.remote_address();
            let ended = match connecting.await {
                Ok(connection) => serve(connection).await,
                Err(error) => Err(error.into()),
            };
            match ended {
                Ok(()) => println!("{remote}: done"),
                Err(error) => println!("{remote}: {error}"),
            }
        });
    }
    Ok(())
}

/// Serves the requests of a connection until the client closes it.
async fn serve(connection: clearway::Connection) -> Result<(), BoxError> {
    let connection = clearway_h3::Connection::new(connection);
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    loop {
        match connection.accept().await {
            Ok(Some(resolver)) => {
                tokio::spawn(async move {
                    if let Err(error) = answer(resolver).await {
                        println!("a request failed: {error}");
                    }
                });
            }
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Greets, or echoes the content of a POST request.
async fn answer(resolver: RequestResolver<clearway_h3::Connection, Bytes>) -> Result<(), BoxError> {
    let (request, mut stream) = resolver.resolve_request().await?;
    println!("{} {}", request.method(), request.uri());
    match *request.method() {
        Method::GET => {
            stream.send_response(Response::new(())).await?;
            stream.send_data(Bytes::from_static(b"Hello over HTTP/3\n")).await?;
        }
        Method::POST => {
            stream.send_response(Response::new(())).await?;
            while let Some(mut piece) = stream.recv_data().await? {
                let piece = piece.copy_to_bytes(piece.remaining());
                stream.send_data(piece).await?;
            }
        }
        _ => {
            let response = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED).body(())?;
            stream.send_response(response).await?;
        }
    }
    stream.finish().await?;
    Ok(())
}
