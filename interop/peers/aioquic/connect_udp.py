"""A client and a proxy for UDP tunnels (CONNECT-UDP, RFC 9298) on aioquic, for tests."""

import argparse
import asyncio
import re
import signal
import sys
from urllib.parse import quote, unquote

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection, Setting
from aioquic.h3.events import DatagramReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, StreamReset

WELL_KNOWN = re.compile(r"/\.well-known/masque/udp/([^/]+)/([0-9]+)/")
# UDP payload size of the packets that carry tunnels; aioquic's default is 1200.
PACKET = 1452
# Larger payloads are dropped: a DATAGRAM frame that does not fit into a packet stays at the head of
# aioquic's queue forever. 66 bytes suffice for all headers and the authentication tag.
LARGEST_PAYLOAD = PACKET - 66
# Time limit for the client in seconds, and the time after which it sends a lost payload again.
LIMIT = 30
RESEND = 0.3


class Http(H3Connection):
    """HTTP/3 with datagrams (RFC 9297); aioquic itself has them only with WebTransport."""

    def _get_local_settings(self):
        return super()._get_local_settings() | {Setting.H3_DATAGRAM: 1}


def configuration(is_client):
    """Returns the common settings."""
    return QuicConfiguration(
        alpn_protocols=H3_ALPN,
        is_client=is_client,
        max_datagram_frame_size=65535,
        max_datagram_size=PACKET,
    )


def payload_of(datagram):
    """Returns the UDP payload, or None for a datagram of another context."""
    buffer = Buffer(data=datagram)
    try:
        if buffer.pull_uint_var() != 0:
            return None
    except BufferReadError:
        return None
    return datagram[buffer.tell() :]


class TunnelProtocol(QuicConnectionProtocol):
    """A connection with tunnels, at either end."""

    http = None

    def quic_event_received(self, event):
        """Passes events to the tunnels. Capsules on the streams are ignored."""
        if isinstance(event, ProtocolNegotiated):
            self.http = Http(self._quic)
        if isinstance(event, ConnectionTerminated):
            self.ended(None)
        elif isinstance(event, StreamReset):
            self.ended(event.stream_id)
        for received in self.http.handle_event(event) if self.http else []:
            if isinstance(received, HeadersReceived):
                self.headers(received.stream_id, dict(received.headers))
            elif isinstance(received, DatagramReceived):
                payload = payload_of(received.data)
                if payload is not None:
                    self.payload(received.stream_id, payload)
            if getattr(received, "stream_ended", False):
                self.ended(received.stream_id)

    def send(self, stream_id, payload):
        """Sends a payload with context ID 0."""
        if len(payload) <= LARGEST_PAYLOAD:
            self.http.send_datagram(stream_id, b"\0" + payload)
            self.transmit()


class ClientProtocol(TunnelProtocol):
    """The client's connection, with one tunnel."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.opened = asyncio.get_running_loop().create_future()
        self.payloads = asyncio.Queue()

    def headers(self, stream_id, headers):
        """Receives the response."""
        if headers[b":status"][:1] == b"2" and headers.get(b"capsule-protocol") == b"?1":
            self.opened.set_result(stream_id)
        else:
            self.ended(stream_id, f"the proxy refuses the tunnel: {headers}")

    def payload(self, _, payload):
        """Queues a payload."""
        self.payloads.put_nowait(payload)

    def ended(self, _, reason="the tunnel ended"):
        """Fails if the tunnel is not open yet."""
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(reason))

    async def open(self, authority, target):
        """Opens a tunnel with the well-known URI template and returns its stream."""
        host, port = target.rsplit(":", 1)
        path = f"/.well-known/masque/udp/{quote(host.strip('[]'), safe='')}/{port}/"
        stream_id = self._quic.get_next_available_stream_id()
        request = [
            (b":method", b"CONNECT"),
            (b":protocol", b"connect-udp"),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
            (b":path", path.encode()),
            (b"capsule-protocol", b"?1"),
        ]
        # Extended CONNECT needs the proxy's SETTINGS (RFC 9220 §3).
        while self.http.received_settings is None:
            await asyncio.sleep(0.001)
        for setting in (Setting.ENABLE_CONNECT_PROTOCOL, Setting.H3_DATAGRAM):
            if self.http.received_settings.get(setting) != 1:
                raise ConnectionError(f"the proxy does not send {setting.name}")
        self.http.send_headers(stream_id, request)
        self.transmit()
        return await self.opened

    async def echo(self, stream_id, size):
        """Sends a payload until it comes back."""
        payload = bytes((size + at * 31) % 256 for at in range(size))
        while True:
            self.send(stream_id, payload)
            try:
                received = await asyncio.wait_for(self.payloads.get(), RESEND)
            except asyncio.TimeoutError:
                continue
            if received == payload:
                return
            if len(received) == size:
                raise ValueError(f"the echo of {size} bytes differs")


async def limited(options):
    """Runs the client with a time limit."""
    return await asyncio.wait_for(client(options), LIMIT)


async def client(options):
    """Sends payloads to an echo server through a tunnel."""
    settings = configuration(is_client=True)
    settings.load_verify_locations(options.proxy_ca)
    host, port = options.proxy.rsplit(":", 1)
    async with connect(
        host, int(port), configuration=settings, create_protocol=ClientProtocol
    ) as protocol:
        stream_id = await protocol.open(options.proxy, options.target)
        for size in options.sizes.split(","):
            await protocol.echo(stream_id, int(size))
            print("echoed", size)
        protocol.close(error_code=ErrorCode.H3_NO_ERROR)
    return 0


class Target(asyncio.DatagramProtocol):
    """The proxy's socket for a tunnel."""

    def __init__(self, proxy, stream_id):
        self.proxy, self.stream_id = proxy, stream_id

    def datagram_received(self, data, _):
        """Relays a payload to the client."""
        self.proxy.send(self.stream_id, data)


class ProxyProtocol(TunnelProtocol):
    """A connection of the proxy."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tunnels = {}
        self.tasks = set()

    def headers(self, stream_id, headers):
        """Opens a tunnel, or refuses it."""
        target = WELL_KNOWN.fullmatch(headers.get(b":path", b"").decode("latin-1"))
        if headers.get(b":protocol") != b"connect-udp" or not target:
            self.http.send_headers(stream_id, [(b":status", b"400")], end_stream=True)
            self.transmit()
            return
        task = asyncio.ensure_future(self.open(stream_id, unquote(target[1]), int(target[2])))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def open(self, stream_id, host, port):
        """Opens the socket, then accepts the tunnel."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(
                lambda: Target(self, stream_id), remote_addr=(host, port)
            )
        except OSError:
            self.http.send_headers(stream_id, [(b":status", b"502")], end_stream=True)
            self.transmit()
            return
        self.tunnels[stream_id] = transport
        self.http.send_headers(stream_id, [(b":status", b"200"), (b"capsule-protocol", b"?1")])
        self.transmit()

    def payload(self, stream_id, payload):
        """Relays a payload to the target."""
        if stream_id in self.tunnels:
            self.tunnels[stream_id].sendto(payload)

    def ended(self, stream_id):
        """Closes the sockets of a tunnel, or of all."""
        for ended in list(self.tunnels) if stream_id is None else [stream_id]:
            transport = self.tunnels.pop(ended, None)
            if transport:
                transport.close()
                if stream_id is not None:
                    self.http.send_data(stream_id, b"", end_stream=True)
                    self.transmit()


async def proxy(options):
    """Serves until SIGTERM or SIGINT."""
    settings = configuration(is_client=False)
    settings.load_cert_chain(options.cert, options.key)
    host, port = options.listen.rsplit(":", 1)
    server = await serve(host, int(port), configuration=settings, create_protocol=ProxyProtocol)
    address = server._transport.get_extra_info("sockname")
    print(f"listening {address[0]}:{address[1]}", flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()
    return 0


def main():
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="connect_udp", description=__doc__)
    commands = parser.add_subparsers(required=True)
    echoing = commands.add_parser("client", help="send payloads to an echo server")
    echoing.set_defaults(run=limited)
    echoing.add_argument("--proxy", required=True, help="HOST:PORT of the proxy")
    echoing.add_argument("--proxy-ca", required=True, help="certificate to trust, PEM")
    echoing.add_argument("--sizes", default="1,1200", help="sizes of the payloads")
    echoing.add_argument("target", help="HOST:PORT of the echo server")
    relaying = commands.add_parser("proxy", help="relay UDP for clients")
    relaying.set_defaults(run=proxy)
    relaying.add_argument("--listen", default="127.0.0.1:0", help="address; port 0: any free port")
    relaying.add_argument("--cert", required=True, help="certificate chain, PEM")
    relaying.add_argument("--key", required=True, help="private key, PEM")
    options = parser.parse_args()
    try:
        return asyncio.run(options.run(options))
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        print(f"connect_udp: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
