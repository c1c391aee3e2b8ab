"""HTTP/1.1 on a bare socket, so that a fault decides about every byte and every close.

A request is read entirely before anyone acts on it: what arrives in part is never obeyed.
"""

import hashlib
import json
import select
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

LINE_BYTES_MAX = 64 * 1024
HEADERS_MAX = 200
BODY_BYTES_MAX = 8 * 1024 * 1024
# Longer than any test holds a connection; without it a stuck peer keeps a thread.
SILENCE_SECONDS_MAX = 600.0

Headers = tuple[tuple[str, str], ...]


class BadRequest(Exception):
    """What was read is no request that can be acted on; the connection cannot go on."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Request:
    """One complete request, its header names as they stood on the wire."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Headers
    body: bytes
    keep_alive: bool

    def header(self, name: str) -> str | None:
        """Values of a repeated header are joined by a comma, as RFC 9110 says."""
        return _joined(self.headers, name)

    @property
    def body_sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What is to be said; whether it gets out is another matter."""

    status: int
    body: bytes
    headers: Headers = ()


def json_answer(status: int, value: object, headers: Headers = ()) -> Answer:
    """Say a JSON value."""
    return Answer(status, json.dumps(value).encode(), headers)


def error_answer(
    status: int, code: str, message: str = "", headers: Headers = ()
) -> Answer:
    """Say what went wrong, under /error/code and /error/message."""
    error = {"code": code, "message": message or code.replace("_", " ")}
    return json_answer(status, {"error": error}, headers)


class Connection:
    """One accepted socket: reads requests, sends answers, ends in the way it is told."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        sock.settimeout(SILENCE_SECONDS_MAX)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = name
        self.closed = False
        self._sock = sock
        self._reader = sock.makefile("rb")

    def read_request(self) -> Request | None:
        """Give the next request, or None when the peer closed between two.

        Raises:
            BadRequest: the bytes are not a request, or exceed a limit.
            ConnectionError: the peer left in the middle of one.
        """
        line = self._line()
        if not line:
            return None
        try:
            method, target, version = line.decode("ascii").split()
        except ValueError:
            raise BadRequest(400, "bad_request_line", "not a request line") from None
        headers = self._headers()
        body = self._body(headers)
        connection = (_joined(headers, "Connection") or "").lower()
        # HEAD is refused with a body, which a peer would read as the next answer.
        reusable = version == "HTTP/1.1" and method != "HEAD"
        keep_alive = reusable and "close" not in connection
        path, query = _split(target)
        return Request(method, target, path, query, headers, body, keep_alive)

    def send(self, answer: Answer, *, keep_alive: bool) -> None:
        self._sock.sendall(head(answer, keep_alive=keep_alive) + answer.body)

    def send_bytes(self, data: bytes) -> None:
        self._sock.sendall(data)

    def peer_left(self) -> bool:
        """Say whether the peer has closed; an answer may still be written to nobody."""
        # Asked first: with a timeout set, recv would wait for data despite MSG_DONTWAIT.
        readable = select.poll()
        readable.register(self._sock, select.POLLIN)
        if not readable.poll(0):
            return False
        try:
            return self._sock.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def reset(self) -> None:
        """Close so that the peer sees RST instead of an orderly end."""
        linger = struct.pack("ii", 1, 0)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close()

    def close(self) -> None:
        self.closed = True
        self._reader.close()
        self._sock.close()

    def _line(self) -> bytes:
        line = self._reader.readline(LINE_BYTES_MAX)
        if line and not line.endswith(b"\n"):
            if len(line) == LINE_BYTES_MAX:
                raise BadRequest(431, "line_too_long", "a line exceeds the limit")
            raise ConnectionError("the request ended within a line")
        return line

    def _headers(self) -> Headers:
        headers: list[tuple[str, str]] = []
        while line := self._line().rstrip(b"\r\n"):
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or name != name.strip() or len(headers) == HEADERS_MAX:
                raise BadRequest(400, "bad_header", "a header line cannot be read")
            headers.append((name, value.strip()))
        return tuple(headers)

    def _body(self, headers: Headers) -> bytes:
        coding = _joined(headers, "Transfer-Encoding")
        length = _joined(headers, "Content-Length")
        if coding is not None and (length is not None or coding.lower() != "chunked"):
            raise BadRequest(400, "bad_framing", "the body's length is not certain")
        if (_joined(headers, "Expect") or "").lower() == "100-continue":
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if coding is not None:
            return self._chunks()
        return self._exactly(_size(length or "0", base=10))

    def _chunks(self) -> bytes:
        body = b""
        while size := _size(self._line().split(b";")[0].decode("latin-1"), base=16):
            body += self._exactly(size)
            if len(body) > BODY_BYTES_MAX:
                raise BadRequest(413, "body_too_large", "the body exceeds the limit")
            self._line()
        while self._line().rstrip(b"\r\n"):
            pass
        return body

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionError("the request ended within its body")
        return data


def head(answer: Answer, *, keep_alive: bool) -> bytes:
    """Render status line and headers; the length is always the whole body's."""
    fields: Mapping[str, str] = {
        "Content-Type": "application/json",
        "Content-Length": str(len(answer.body)),
        "Connection": "keep-alive" if keep_alive else "close",
        **dict(answer.headers),
    }
    lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _joined(headers: Headers, name: str) -> str | None:
    values = [value for key, value in headers if key.lower() == name.lower()]
    return ", ".join(values) if values else None


def _split(target: str) -> tuple[str, dict[str, str]]:
    """Refuse a parameter given twice: two answers to one question are none."""
    path, _, query = target.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if len(dict(pairs)) != len(pairs):
        raise BadRequest(400, "parameter_repeated", "a parameter was given twice")
    return unquote(path), dict(pairs)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"


def _size(text: str, *, base: int) -> int:
    try:
        size = int(text.strip(), base)
    except ValueError:
        size = -1
    if size < 0:
        raise BadRequest(400, "bad_framing", "the body's length cannot be read")
    if size > BODY_BYTES_MAX:
        raise BadRequest(413, "body_too_large", "the body exceeds the limit")
    return size
