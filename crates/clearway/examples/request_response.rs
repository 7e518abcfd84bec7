//! Concurrent queries and responses, as in DNS over QUIC (RFC 9250 §4.2). Each pair has its own
//! stream, and each message is prefixed with its length in two bytes.
//!
//!     cargo run --example request_response

use std::error::Error;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};
use tokio::io::AsyncReadExt;

const PROTOCOL: &str = "example-questions";

/// Error codes of this protocol.
const NO_ERROR: VarInt = VarInt::from_u32(0);
const NOT_UNDERSTOOD: VarInt = VarInt::from_u32(2);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL]);
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some(connecting) = server.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = connecting.await {
                    serve(connection).await;
                }
            });
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let connection = client.connect_with(&config, address, "localhost")?.await?;

    let questions = ["6 * 7", "1000 - 1", "11 * 11", "how are you"];
    let asking = questions.map(|question| {
        let connection = connection.clone();
        tokio::spawn(async move { ask(&connection, question).await })
    });
    let mut understood = 0;
    for (question, asked) in questions.into_iter().zip(asking) {
        match asked.await? {
            Ok(answer) => {
                understood += 1;
                println!("{question} = {answer}");
            }
            Err(error) => println!("{question}: {error}"),
        }
    }
    connection.close(NO_ERROR, b"no more questions");
    client.wait_idle().await;
    if understood == 3 {
        Ok(())
    } else {
        Err("the server did not answer exactly three questions".into())
    }
}

/// Sends one query and waits for its response.
async fn ask(connection: &Connection, question: &str) -> Result<String, Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    write_message(&mut send, question.as_bytes()).await?;
    send.finish()?;
    Ok(String::from_utf8(read_message(&mut recv).await?)?)
}

/// Responds to the queries of one client.
async fn serve(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            let Ok(question) = read_message(&mut recv).await else { return };
            let sent = match answer(&String::from_utf8_lossy(&question)) {
                Some(answer) => write_message(&mut send, answer.as_bytes()).await,
                None => send.reset(NOT_UNDERSTOOD).map_err(Into::into),
            };
            if let Err(error) = sent {
                println!("cannot send a response: {error}");
            }
        });
    }
}

fn answer(question: &str) -> Option<String> {
    let mut words = question.split(' ');
    let (left, operator, right) = (words.next()?, words.next()?, words.next()?);
    let (left, right): (i64, i64) = (left.parse().ok()?, right.parse().ok()?);
    let result = match operator {
        "+" => left.checked_add(right)?,
        "-" => left.checked_sub(right)?,
        "*" => left.checked_mul(right)?,
        _ => return None,
    };
    Some(result.to_string())
}

async fn write_message(send: &mut SendStream, message: &[u8]) -> Result<(), Failure> {
    let length = u16::try_from(message.len())?;
    send.write_all(&length.to_be_bytes()).await?;
    send.write_all(message).await?;
    Ok(())
}

async fn read_message(recv: &mut RecvStream) -> Result<Vec<u8>, Failure> {
    let length = recv.read_u16().await?;
    let mut message = vec![0; length.into()];
    recv.read_exact(&mut message).await?;
    Ok(message)
}
