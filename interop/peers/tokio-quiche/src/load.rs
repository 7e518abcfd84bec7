//! A load of many HTTP/3 requests, with the number of responses per second and the latency of each.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use peer_common::{LoadOptions, Schedule, Sink, Tally};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio_quiche::http3::driver::{
    ClientH3Event, ClientRequestSender, H3Event, InboundFrame, IncomingH3Headers, NewClientRequest,
};
use tokio_quiche::quiche::h3::{Header, NameValue};
use tokio_quiche::{ClientH3Controller, ClientH3Driver};

use crate::{client, http3_settings, settings};

/// Makes requests for the configured time, and prints the result. Each connection has its own
/// socket.
pub async fn run(options: &LoadOptions, mtu: Option<u16>) -> Result<()> {
    LocalSet::new().run_until(make(options, mtu)).await
}

async fn make(options: &LoadOptions, mtu: Option<u16>) -> Result<()> {
    let mut controllers = Vec::new();
    for _ in 0..options.connections {
        let (driver, controller) = ClientH3Driver::new(http3_settings());
        let (address, settings) = (options.connect, settings(None, mtu)?);
        client::connect(address, "localhost", Some(&options.ca), settings, driver).await?;
        controllers.push(controller);
    }
    let url = format!("https://localhost/zero/{}", options.size).parse()?;
    let headers = client::headers(&url, None);
    let schedule = Schedule::new(options);
    let (senders, dues): (Vec<_>, Vec<_>) = match options.pace() {
        Some(_) => {
            let channels = controllers.iter().map(|_| mpsc::unbounded_channel());
            channels.map(|(sender, dues)| (sender, Some(dues))).unzip()
        }
        None => (Vec::new(), controllers.iter().map(|_| None).collect()),
    };
    if let Some(pace) = options.pace() {
        pace.start(move |number, due| senders[number % senders.len()].send(due).is_ok());
    }
    let mut running = Vec::new();
    for (controller, dues) in controllers.into_iter().zip(dues) {
        let connection = Connection {
            requests: controller.request_sender(),
            controller,
            headers: headers.clone(),
            options: options.clone(),
            schedule,
            dues,
            next: 0,
            began: HashMap::new(),
            asked: HashMap::new(),
        };
        running.push(spawn_local(connection.run()));
    }
    let mut tally = Tally::default();
    for connection in running {
        for (began, took) in connection.await?? {
            tally.add_finished(took - began, options.size);
        }
    }
    tally.print(schedule.elapsed());
    Ok(())
}

struct Connection {
    controller: ClientH3Controller,
    requests: ClientRequestSender,
    headers: Vec<Header>,
    options: LoadOptions,
    schedule: Schedule,
    /// Receives the due times of requests, if they are made at a fixed rate and more are to come.
    dues: Option<UnboundedReceiver<Instant>>,
    /// The number of the next request.
    next: u64,
    /// Start times of the requests in flight.
    began: HashMap<u64, Instant>,
    /// The request number for each stream.
    asked: HashMap<u64, u64>,
}

impl Connection {
    /// Runs the load. Returns when each request was due, and when its response was complete.
    async fn run(mut self) -> Result<Vec<(Instant, Instant)>> {
        let (mut answered, mut receiving) = (Vec::new(), JoinSet::new());
        if self.dues.is_none() {
            for _ in 0..self.options.streams {
                self.ask(self.schedule.next())?;
            }
        }
        while self.dues.is_some() || !self.began.is_empty() {
            tokio::select! {
                event = self.controller.event_receiver_mut().recv() => match event {
                    Some(ClientH3Event::NewOutboundRequest { request_id, stream_id }) => {
                        self.asked.insert(stream_id, request_id);
                    }
                    Some(ClientH3Event::Core(H3Event::IncomingHeaders(response))) => {
                        let request = self.asked.remove(&response.stream_id);
                        let request = request.ok_or_else(|| anyhow!("unexpected response"))?;
                        receiving.spawn_local(receive(request, self.options.size, response));
                    }
                    Some(ClientH3Event::Core(H3Event::ResetStream { stream_id })) => {
                        bail!("stream {stream_id} was reset")
                    }
                    Some(ClientH3Event::Core(H3Event::ConnectionError(error))) => {
                        return Err(error.into());
                    }
                    Some(ClientH3Event::Core(H3Event::ConnectionShutdown(error))) => {
                        bail!("the connection ended: {error:?}")
                    }
                    Some(_) => {}
                    None => bail!("the connection ended"),
                },
                Some(request) = receiving.join_next() => {
                    if let Some(began) = self.began.remove(&request??) {
                        answered.push((began, Instant::now()));
                    }
                    if self.options.rate.is_none() {
                        self.ask(self.schedule.next())?;
                    }
                }
                due = next(&mut self.dues), if self.dues.is_some() => match due {
                    Some(due) => self.ask(Some(due))?,
                    None => self.dues = None,
                },
            }
        }
        client::close(self.controller).await;
        Ok(answered)
    }

    /// Makes a request if `began` is set. Its latency is measured from that time.
    fn ask(&mut self, began: Option<Instant>) -> Result<()> {
        let Some(began) = began else { return Ok(()) };
        let request_id = self.next;
        self.next += 1;
        self.began.insert(request_id, began);
        let headers = self.headers.clone();
        let request = NewClientRequest { request_id, headers, body_writer: None };
        self.requests.send(request).map_err(|_| anyhow!("the connection is closed"))
    }
}

/// Waits for the next scheduled request, and returns its due time; `None` if there are no more.
async fn next(dues: &mut Option<UnboundedReceiver<Instant>>) -> Option<Instant> {
    dues.as_mut()?.recv().await
}

/// Receives the response to a request, and returns the request's number.
async fn receive(request: u64, size: u64, mut response: IncomingH3Headers) -> Result<u64> {
    let status = response.headers.iter().find(|header| header.name() == b":status");
    ensure!(
        status.is_some_and(|status| status.value() == b"200"),
        "the response status is not 200"
    );
    let mut sink = Sink::of_generated(size);
    let mut complete = response.read_fin;
    while !complete {
        match response.recv.recv().await {
            Some(InboundFrame::Body(bytes, last)) => {
                sink.take(&bytes)?;
                complete = last;
            }
            Some(InboundFrame::Datagram(_)) => {}
            None => bail!("the stream ended early"),
        }
    }
    sink.finish()?;
    Ok(request)
}
