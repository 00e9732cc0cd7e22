from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.store.address import parse_address
from lingua_scheduler.store.connection import Connection

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Server


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
async def test_rediss_is_encrypted_and_checks_who_answers(server: Server, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    subprocess.run(  # noqa: ASYNC221
        [*command, "-keyout", key, "-out", certificate, *subject], check=True, capture_output=True
    )
    front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    front.load_cert_chain(certificate, key)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
        writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_unix_connection(server.path)
        await asyncio.gather(pump(reader, downstream), pump(upstream, writer), return_exceptions=True)

    async with await asyncio.start_server(answer, "localhost", 0, ssl=front, family=2) as listener:
        port = listener.sockets[0].getsockname()[1]
        address = parse_address(f"rediss://localhost:{port}")
        trusting = Connection(address, tls=ssl.create_default_context(cafile=certificate))
        await trusting.ready()
        assert await trusting.call("ECHO", b"x" * 100_000) == b"x" * 100_000
        await trusting.close()
        wary = Connection(address)
        with pytest.raises(DependencyDown, match=r"(?i)certificate"):
            await wary.ready()
        await wary.close()
