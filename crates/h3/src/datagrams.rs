//! Unreliable datagrams, for the crate h3-datagram.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use clearway::{ConnectionError, DatagramWaitError, SendDatagramError};
use h3::quic::ConnectionErrorIncoming;
use h3_datagram::datagram::EncodedDatagram;
use h3_datagram::quic_traits::{
    DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming,
};

use crate::Connection;
use crate::error::connection_error;

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = SendDatagrams;
    type RecvDatagramHandler = RecvDatagrams;

    fn send_datagram_handler(&self) -> SendDatagrams {
        SendDatagrams(self.quic().clone())
    }

    fn recv_datagram_handler(&self) -> RecvDatagrams {
        RecvDatagrams { connection: self.quic().clone(), receiving: None }
    }
}

/// A handle that sends unreliable datagrams.
///
/// A datagram for which the send queue has no room is dropped, since h3-datagram has no such error.
#[derive(Debug)]
pub struct SendDatagrams(clearway::Connection);

impl<B: Buf> SendDatagram<B> for SendDatagrams {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut datagram = data.into();
        let datagram = datagram.copy_to_bytes(datagram.remaining());
        match self.0.send_datagram(datagram) {
            Ok(_) | Err(SendDatagramError::QueueFull) => Ok(()),
            Err(error) => Err(send_error(error)),
        }
    }
}

fn send_error(error: SendDatagramError) -> SendDatagramErrorIncoming {
    match error {
        SendDatagramError::TooLarge { .. } => SendDatagramErrorIncoming::TooLarge,
        SendDatagramError::ConnectionLost(error) => {
            SendDatagramErrorIncoming::ConnectionError(connection_error(error))
        }
        _ => SendDatagramErrorIncoming::NotAvailable,
    }
}

/// A future that waits for a datagram.
type Receiving = Pin<Box<dyn Future<Output = Result<Bytes, ConnectionError>> + Send + Sync>>;

/// A handle that receives unreliable datagrams.
///
/// If the endpoint's configuration does not enable them
/// ([`max_datagram_frame_size`](clearway::TransportConfigBuilder::max_datagram_frame_size)), it
/// waits for the end of the connection.
pub struct RecvDatagrams {
    connection: clearway::Connection,
    receiving: Option<Receiving>,
}

impl RecvDatagram for RecvDatagrams {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionErrorIncoming>> {
        let connection = &self.connection;
        let receiving = self.receiving.get_or_insert_with(|| receive(connection.clone()));
        let received = ready!(receiving.as_mut().poll(context));
        self.receiving = None;
        Poll::Ready(received.map_err(connection_error))
    }
}

fn receive(connection: clearway::Connection) -> Receiving {
    Box::pin(async move {
        match connection.read_datagram().await {
            Ok(datagram) => Ok(datagram),
            Err(DatagramWaitError::ConnectionLost(error)) => Err(error),
            Err(_) => Err(connection.closed().await),
        }
    })
}

impl fmt::Debug for RecvDatagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecvDatagrams").field(&self.connection).finish()
    }
}
