//! Tests of tasks on the shard's thread that use raw streams.

use bytes::Bytes;
use clearway::Connection;

use crate::support::{Pair, pattern, run};

/// Echoes each stream that the peer opens.
async fn echo(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        connection.spawn(async move {
            while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX).await {
                send.write_chunk(chunk).await.unwrap();
            }
            send.finish().unwrap();
        });
    }
}

#[test]
fn tasks_on_both_shards_exchange_data() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        server.spawn(echo(server.clone()));
        let (sender, outcomes) = std::sync::mpsc::channel();
        let content = pattern(400_000);
        for _ in 0..4 {
            let (connection, sender, content) = (client.clone(), sender.clone(), content.clone());
            client.spawn(async move {
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                let data = Bytes::from(content);
                let sending = send.finish_with(data.clone());
                let receiving = receive.read_to_end(data.len());
                let (sent, received) = tokio::join!(sending, receiving);
                sent.unwrap();
                let name = std::thread::current().name().map(str::to_owned);
                sender.send((received.unwrap() == data, name)).unwrap();
            });
        }
        drop(sender);
        let outcomes = tokio::task::spawn_blocking(move || outcomes.iter().collect::<Vec<_>>());
        let outcomes = outcomes.await.unwrap();
        assert_eq!(outcomes, vec![(true, Some("clearway-shard".to_owned())); 4]);
    });
}
