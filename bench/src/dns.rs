//! Parts of `cargo xtask bench dns`: a name server, and a load of queries over QUIC.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, Subcommand};
use clearway::Endpoint;
use clearway_dns::hickory_proto::op::{Message, Query, ResponseCode};
use clearway_dns::hickory_proto::rr::{Name, RData, Record, RecordType};
use clearway_dns::{Client, PROTOCOL};
use peer_common::{LoadOptions, Schedule, Tally};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::options::Mtu;
use crate::{Outcome, attached, tls, transfer};

/// How long responses may be cached, in seconds.
const TTL: u32 = 3600;

#[derive(Subcommand)]
pub(crate) enum Part {
    /// Answer every query for an address, over UDP.
    NameServer(NameServerOptions),
    /// Send queries over QUIC, and print how many were answered and how long they took.
    Load(DnsLoadOptions),
}

#[derive(Args)]
pub(crate) struct NameServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddr,
}

#[derive(Args)]
pub(crate) struct DnsLoadOptions {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of names to query, in turn; 0 queries a new name each time.
    #[arg(long, default_value_t = 0)]
    names: usize,
}

pub(crate) fn run(part: &Part, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match part {
        Part::NameServer(options) => runtime.block_on(answer(options)),
        Part::Load(options) => runtime.block_on(LocalSet::new().run_until(ask(options, mtu))),
    }
}

async fn answer(options: &NameServerOptions) -> Outcome {
    attached::end_with_input();
    let socket = UdpSocket::bind(options.listen).await?;
    println!("listening {}", socket.local_addr()?);
    let mut buffer = [0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await?;
        let query = Message::from_vec(&buffer[..length])?;
        let mut response = Message::response(query.metadata.id, query.metadata.op_code);
        response.metadata.recursion_desired = query.metadata.recursion_desired;
        response.metadata.recursion_available = true;
        response.metadata.response_code = ResponseCode::NoError;
        for question in &query.queries {
            response.add_query(question.clone());
            let address = RData::A(std::net::Ipv4Addr::new(192, 0, 2, 1).into());
            response.add_answer(Record::from_rdata(question.name().clone(), TTL, address));
        }
        socket.send_to(&response.to_vec()?, client).await?;
    }
}

async fn ask(options: &DnsLoadOptions, mtu: Mtu) -> Outcome {
    let DnsLoadOptions { load, names } = options;
    let config = tls::client(&load.ca, PROTOCOL, mtu)?;
    let endpoint = Endpoint::client(transfer::local_address(load.connect))?;
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(Client::connect(&endpoint, &config, load.connect, "localhost").await?);
    }
    let clients: Rc<[Client]> = clients.into();
    let name = {
        let names = *names;
        move |index: usize| if names == 0 { index } else { index % names }
    };
    // Fills the cache.
    for index in 0..*names {
        query(&clients[0], index).await?;
    }
    let schedule = Schedule::new(load);
    let tally = Arc::new(Mutex::new(Tally::default()));
    let (sender, mut due) = mpsc::unbounded_channel();
    let pace = load.pace().ok_or("--rate is missing")?;
    pace.start(move |number, due| sender.send((number, due)).is_ok());
    let mut asking = Vec::new();
    while let Some((number, began)) = due.recv().await {
        let (clients, tally) = (clients.clone(), tally.clone());
        asking.push(tokio::task::spawn_local(async move {
            query(&clients[number % clients.len()], name(number)).await?;
            add(&tally, began);
            Ok::<_, String>(())
        }));
    }
    for one in asking {
        one.await??;
    }
    let elapsed = schedule.elapsed();
    clients.iter().for_each(Client::close);
    endpoint.wait_idle().await;
    std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner)).print(elapsed);
    Ok(())
}

fn add(tally: &Mutex<Tally>, began: Instant) {
    tally.lock().unwrap_or_else(PoisonError::into_inner).add(began, 0);
}

/// Queries the address of a name.
async fn query(client: &Client, index: usize) -> Result<(), String> {
    let name = Name::from_ascii(format!("name-{index}.example.")).map_err(|e| e.to_string())?;
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, RecordType::A));
    let response = client.query(message).await.map_err(|error| error.to_string())?;
    let expected = IpAddr::from([192, 0, 2, 1]);
    let is_right =
        response.answers.first().is_some_and(|record| record.data.ip_addr() == Some(expected));
    match is_right {
        true => Ok(()),
        false => Err(format!("unexpected response: {}", response.metadata.response_code)),
    }
}
