"""The tests of the public interop runner, over HTTP/0.9 or HTTP/3, on aioquic."""

import asyncio
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.h0.connection import H0Connection
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, StreamReset
from aioquic.quic.logger import QuicFileLogger
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

# The exit status for a test that is not supported.
UNSUPPORTED = 127
# The tests that aioquic's own image for the public runner supports (docker/run_endpoint.sh of its repository), by the names
# that the runner passes to the endpoints.
COMMON = "handshake transfer retry resumption zerortt http3 multiconnect chacha20 v2"
CASES = {"client": f"{COMMON} keyupdate".split(), "server": f"{COMMON} keyupdate".split()}

HQ = "hq-interop"
# How long a client waits for a session ticket.
TICKET = 10


def configuration(testcase, is_client):
    """Common to client and server."""
    result = QuicConfiguration(
        alpn_protocols=H3_ALPN if testcase == "http3" else [HQ],
        is_client=is_client,
        secrets_log_file=open(os.environ["SSLKEYLOGFILE"], "a", encoding="ascii"),
    )
    if testcase == "chacha20":
        result.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if testcase == "v2":
        result.original_version = QuicProtocolVersion.VERSION_1
        result.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    if os.environ.get("QLOGDIR"):
        result.quic_logger = QuicFileLogger(os.environ["QLOGDIR"])
    return result


def http(testcase, quic):
    """The HTTP version of a test."""
    return H3Connection(quic) if testcase == "http3" else H0Connection(quic)


class ServerProtocol(QuicConnectionProtocol):
    """One connection of the server."""

    http = None

    def quic_event_received(self, event):
        """Answers each request as soon as its headers are received."""
        if isinstance(event, ProtocolNegotiated):
            self.http = http(os.environ["TESTCASE"], self._quic)
        if self.http is None:
            return
        for received in self.http.handle_event(event):
            if isinstance(received, HeadersReceived):
                self.answer(received.stream_id, dict(received.headers))

    def answer(self, stream_id, headers):
        """Sends a file."""
        path = headers.get(b":path", b"").decode("latin-1").strip()
        file = Path(os.environ["WWW"]) / Path(path).name
        found = file.is_file()
        self.http.send_headers(stream_id, [(b":status", b"200" if found else b"404")])
        self.http.send_data(stream_id, file.read_bytes() if found else b"", end_stream=True)
        self.transmit()


class Tickets:
    """The session tickets of a server."""

    def __init__(self):
        self.tickets = {}

    def add(self, ticket):
        """Stores a ticket."""
        self.tickets[ticket.ticket] = ticket

    def pop(self, label):
        """Removes and returns the ticket with a label: it is used once."""
        return self.tickets.pop(label, None)


async def serve(testcase):
    """Serves until SIGTERM."""
    settings = configuration(testcase, is_client=False)
    settings.load_cert_chain(os.environ["CERT"], os.environ["KEY"])
    tickets = Tickets()
    host, port = os.environ["LISTEN"].rsplit(":", 1)
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: QuicServer(
            configuration=settings,
            create_protocol=ServerProtocol,
            retry=testcase == "retry",
            session_ticket_fetcher=tickets.pop,
            session_ticket_handler=tickets.add,
        ),
        local_addr=(host.strip("[]"), int(port)),
    )
    address = transport.get_extra_info("sockname")
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    print(f"listening {host}:{address[1]}", flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()
    return 0


class ClientProtocol(QuicConnectionProtocol):
    """One connection of the client."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = http(os.environ["TESTCASE"], self._quic)
        self.bodies = {}

    async def download(self, url):
        """Stores one file."""
        stream_id = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        body = bytearray()
        self.bodies[stream_id] = body, done
        headers = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", url.path.encode()),
        ]
        self.http.send_headers(stream_id, headers, end_stream=True)
        self.transmit()
        await done
        (Path(os.environ["DOWNLOADS"]) / Path(url.path).name).write_bytes(body)

    def quic_event_received(self, event):
        """Passes data to the download that it belongs to."""
        if isinstance(event, ConnectionTerminated):
            self.fail(f"the connection ended: {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, StreamReset):
            self.fail(f"stream {event.stream_id} was reset")
        for received in self.http.handle_event(event):
            if isinstance(received, (HeadersReceived, DataReceived)) and received.stream_id in self.bodies:
                body, done = self.bodies[received.stream_id]
                if isinstance(received, DataReceived):
                    body += received.data
                if received.stream_ended and not done.done():
                    done.set_result(None)

    def fail(self, reason):
        """Marks the incomplete downloads as failed."""
        for _, done in self.bodies.values():
            if not done.done():
                done.set_exception(ConnectionError(reason))


async def download(testcase):
    """Downloads all files, on as many connections as the test requires."""
    urls = [urlsplit(url) for url in os.environ["REQUESTS"].split()]
    settings = configuration(testcase, is_client=True)
    settings.server_name = urls[0].hostname
    settings.load_verify_locations(os.environ["CA"])
    groups = [urls]
    if testcase == "multiconnect":
        groups = [[url] for url in urls]
    elif testcase in ("resumption", "zerortt"):
        groups = [urls[:1], urls[1:]]
    host, port = os.environ["CONNECT"].rsplit(":", 1)
    for index, group in enumerate(groups):
        ticket = asyncio.get_running_loop().create_future()
        early = testcase == "zerortt" and index == 1
        async with connect(
            host.strip("[]"),
            int(port),
            configuration=settings,
            create_protocol=ClientProtocol,
            session_ticket_handler=lambda it, ticket=ticket: ticket.done() or ticket.set_result(it),
            wait_connected=not early,
        ) as protocol:
            if testcase == "keyupdate":
                await protocol.ping()
                protocol.request_key_update()
            await asyncio.gather(*(protocol.download(url) for url in group))
            if testcase in ("resumption", "zerortt") and index == 0:
                settings.session_ticket = await asyncio.wait_for(ticket, TICKET)
    return 0


def run():
    """Performs the test that the environment requests, and returns the exit status."""
    role, testcase = os.environ["ROLE"], os.environ["TESTCASE"]
    if testcase not in CASES[role]:
        return UNSUPPORTED
    return asyncio.run(serve(testcase) if role == "server" else download(testcase))
