//! Many requests over HTTP/3: how many are answered in a second, and how long each takes.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use peer_common::{LoadOptions, Schedule, Sink, Tally};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio_quiche::ClientH3Controller;
use tokio_quiche::http3::driver::{
    ClientH3Event, H3Event, InboundFrame, IncomingH3Headers, NewClientRequest,
};
use tokio_quiche::quiche::h3::{Header, NameValue};

use crate::client;

/// Makes requests for as long as the options say, and prints the result. Each connection has a socket of its own.
pub async fn run(options: &LoadOptions) -> Result<()> {
    LocalSet::new().run_until(make(options)).await
}

async fn make(options: &LoadOptions) -> Result<()> {
    let mut controllers = Vec::new();
    for _ in 0..options.connections {
        controllers
            .push(client::connect(options.connect, "localhost", Some(&options.ca), None).await?);
    }
    let url = format!("https://localhost/zero/{}", options.size).parse()?;
    let headers = client::headers(&url);
    let schedule = Schedule::new(options);
    let mut running = Vec::new();
    for (index, controller) in controllers.into_iter().enumerate() {
        let connection = Connection {
            controller,
            headers: headers.clone(),
            size: options.size,
            schedule,
            first_worker: index * options.streams,
            workers: (0..options.streams).map(|_| Worker::default()).collect(),
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

/// Has one request in flight at a time.
#[derive(Default)]
struct Worker {
    index: u32,
    began: Option<Instant>,
}

struct Connection {
    controller: ClientH3Controller,
    headers: Vec<Header>,
    size: u64,
    schedule: Schedule,
    /// The number of the first worker among those of all connections.
    first_worker: usize,
    workers: Vec<Worker>,
    /// Which worker's request a stream is for.
    asked: HashMap<u64, usize>,
}

enum Done {
    /// The worker's next request is due.
    Due(usize, Instant),
    /// The worker's request was answered.
    Answered(usize),
}

impl Connection {
    /// Returns when each request was due, and when its response was complete.
    async fn run(mut self) -> Result<Vec<(Instant, Instant)>> {
        let requests = self.controller.request_sender();
        let (mut answered, mut waiting) = (Vec::new(), JoinSet::new());
        let mut busy = 0;
        for worker in 0..self.workers.len() {
            busy += usize::from(self.wait(worker, &mut waiting));
        }
        while busy > 0 {
            tokio::select! {
                event = self.controller.event_receiver_mut().recv() => match event {
                    Some(ClientH3Event::NewOutboundRequest { request_id, stream_id }) => {
                        self.asked.insert(stream_id, usize::try_from(request_id)?);
                    }
                    Some(ClientH3Event::Core(H3Event::IncomingHeaders(response))) => {
                        let worker = self.asked.remove(&response.stream_id);
                        let worker = worker.ok_or_else(|| anyhow!("an unexpected response"))?;
                        waiting.spawn_local(receive(worker, self.size, response));
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
                Some(done) = waiting.join_next() => match done?? {
                    Done::Due(worker, began) => {
                        self.workers[worker].began = Some(began);
                        let request = NewClientRequest {
                            request_id: worker as u64,
                            headers: self.headers.clone(),
                            body_writer: None,
                        };
                        requests.send(request).map_err(|_| anyhow!("the connection is closed"))?;
                    }
                    Done::Answered(worker) => {
                        if let Some(began) = self.workers[worker].began.take() {
                            answered.push((began, Instant::now()));
                        }
                        busy -= usize::from(!self.wait(worker, &mut waiting));
                    }
                },
            }
        }
        client::close(self.controller).await;
        Ok(answered)
    }

    /// Waits in the background until the worker's next request is due. `false` if there is none.
    fn wait(&mut self, worker: usize, waiting: &mut JoinSet<Result<Done>>) -> bool {
        let index = self.workers[worker].index;
        self.workers[worker].index += 1;
        let Some(due) = self.schedule.due(self.first_worker + worker, index) else { return false };
        waiting.spawn_local(async move {
            if due <= Instant::now() {
                return Ok(Done::Due(worker, due));
            }
            tokio::time::sleep_until(due.into()).await;
            Ok(Done::Due(worker, Instant::now()))
        });
        true
    }
}

async fn receive(worker: usize, size: u64, mut response: IncomingH3Headers) -> Result<Done> {
    let status = response.headers.iter().find(|header| header.name() == b":status");
    ensure!(status.is_some_and(|status| status.value() == b"200"), "the status is not 200");
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
    Ok(Done::Answered(worker))
}
