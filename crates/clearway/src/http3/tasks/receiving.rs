//! Moves received messages to tasks.

use clearway_http3::Code;

use super::super::Error;
use super::super::driver::Turn;
use super::batch::Batch;

/// Maximum number of bytes of content to read from the transport in one call.
const READ: usize = 256 << 10;

impl Batch<'_> {
    /// Takes as much received content as there is room for.
    pub(super) fn read(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if exchange.receive.discarded.is_some() {
            return self.discard(turn, key, stream);
        }
        let buffer = &mut exchange.receive.buffer;
        let mut has_news = false;
        let config = turn.connection().config();
        let windows = [config.max_stream_receive_window(), config.max_connection_receive_window()];
        while buffer.has_more && (turn.is_draining() || buffer.has_room(windows)) {
            match turn.read(stream, READ) {
                Some(chunk) => {
                    buffer.push(chunk);
                    has_news = true;
                }
                None => buffer.has_more = false,
            }
        }
        if has_news {
            buffer.wake(self.effects);
        }
    }

    /// Reads and discards the rest of a request that no task needs, up to a limit.
    fn discard(&mut self, turn: &mut Turn<'_>, key: usize, stream: u64) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        if exchange.receive.is_over() {
            return;
        }
        let mut left = exchange.receive.discarded.filter(|_| !exchange.send.is_abandoned());
        while exchange.receive.buffer.has_more {
            let Some(rest) = left else { break };
            match turn.read(stream, READ) {
                Some(chunk) => left = rest.checked_sub(chunk.len() as u64),
                None => exchange.receive.buffer.has_more = false,
            }
        }
        match left {
            Some(_) => exchange.receive.discarded = left,
            None => {
                turn.stop(stream, Code::NO_ERROR);
                exchange.fail_receiving(&Error::Cancelled, self.effects);
            }
        }
    }

    /// Stops requests whose remaining content is only being discarded, since the connection is
    /// ending.
    pub(super) fn stop_discarding(&mut self, turn: &mut Turn<'_>) {
        let app = &mut self.state.app;
        for (stream, key) in app.by_stream.iter().collect::<Vec<_>>() {
            if let Some(exchange) = app.all.get_mut(key)
                && exchange.receive.discarded.is_some()
                && !exchange.receive.is_over()
            {
                turn.stop(stream, Code::NO_ERROR);
                exchange.fail_receiving(&Error::Cancelled, self.effects);
            }
            app.retire(key);
        }
    }
}
