//! Acknowledgment and loss of sent frames.

use core::ops::Range;

use clearway_wire::StreamId;

use super::receiving_part::ReceivingPart;
use super::sending_part::SendingPart;
use super::state::{SendState, StreamEnd};
use super::{StreamEvent, Streams};
use crate::token::Token;

impl Streams {
    /// Handles the acknowledgment of the packet that carried the frame recorded in `token`; the
    /// packet may have been declared lost before.
    pub(crate) fn on_acked(&mut self, token: &Token) {
        match *token {
            Token::Stream { stream_id, offset, length, fin } => {
                self.on_data_acknowledged(stream_id, offset..offset.saturating_add(length), fin);
            }
            Token::ResetStream { stream_id } => {
                let Some((key, stream)) = self.table.find_mut(stream_id) else { return };
                if stream.send.as_deref_mut().is_some_and(SendingPart::on_reset_acknowledged) {
                    self.queues.events.push(StreamEvent::ResetAcknowledged(stream_id));
                }
                self.settle(key);
            }
            Token::ResetStreamAt { stream_id, reliable_size } => {
                let Some((key, stream)) = self.table.find_mut(stream_id) else { return };
                let ends = |send: &mut SendingPart| send.on_reset_at_acknowledged(reliable_size);
                if stream.send.as_deref_mut().is_some_and(ends) {
                    self.queues.events.push(StreamEvent::ResetAcknowledged(stream_id));
                }
                self.settle(key);
            }
            Token::MaxStreamData { stream_id } => {
                self.redo_receiving(stream_id, ReceivingPart::on_limit_acknowledged);
            }
            Token::MaxData => self.flow.on_max_data_acknowledged(),
            _ => {}
        }
    }

    fn on_data_acknowledged(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        let Some((key, stream)) = self.table.find_mut(id) else { return };
        let Some(send) = stream.send.as_deref_mut() else { return };
        let was_received = matches!(send.state(), SendState::DataReceived(_));
        let released = send.on_acknowledged(range, fin);
        if let SendState::DataReceived(end) = send.state()
            && !was_received
        {
            self.queues.events.push(match end {
                StreamEnd::ResetAt { .. } => StreamEvent::ResetAcknowledged(id),
                StreamEnd::Fin => StreamEvent::Finished(id),
            });
        }
        let acknowledged = &mut self.statistics.bytes_acknowledged;
        *acknowledged = acknowledged.saturating_add(released);
        self.release(key, released);
        self.settle(key);
    }

    /// Handles the loss of the packet that carried the frame recorded in `token`. The frame is
    /// retransmitted with its current contents, if it is still needed.
    pub(crate) fn on_lost(&mut self, token: &Token) {
        match *token {
            Token::Stream { stream_id, offset, length, fin } => {
                let range = offset..offset.saturating_add(length);
                self.redo_sending(stream_id, |send| send.on_lost(range, fin));
            }
            Token::ResetStream { stream_id } => {
                self.redo_sending(stream_id, SendingPart::on_reset_lost);
            }
            Token::ResetStreamAt { stream_id, reliable_size } => {
                self.redo_sending(stream_id, |send| send.on_reset_at_lost(reliable_size));
            }
            Token::StreamDataBlocked { stream_id } => {
                self.redo_sending(stream_id, |send| send.credit_mut().on_report_lost());
            }
            Token::StopSending { stream_id } => {
                self.redo_receiving(stream_id, ReceivingPart::on_stop_lost);
            }
            Token::MaxStreamData { stream_id } => {
                self.redo_receiving(stream_id, ReceivingPart::on_limit_lost);
            }
            Token::MaxData => self.flow.on_max_data_lost(),
            Token::DataBlocked => self.flow.send.on_report_lost(),
            Token::MaxStreams { direction } => self.remote.get_mut(direction).on_maximum_lost(),
            Token::StreamsBlocked { direction } => self.local.get_mut(direction).on_blocked_lost(),
            _ => {}
        }
    }

    fn redo_sending(&mut self, id: StreamId, redo: impl FnOnce(&mut SendingPart)) {
        if let Some((key, stream)) = self.table.find_mut(id) {
            stream.send.as_deref_mut().map(redo);
            self.settle(key);
        }
    }

    fn redo_receiving(&mut self, id: StreamId, redo: impl FnOnce(&mut ReceivingPart)) {
        if let Some((key, stream)) = self.table.find_mut(id) {
            stream.receive.as_deref_mut().map(redo);
            self.settle(key);
        }
    }
}
