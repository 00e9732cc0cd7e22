"""Translate a wav file: python examples/client.py hello.wav."""

import asyncio
import sys
from pathlib import Path

from lingua_scheduler.sdk import Client


async def main(audio: bytes) -> None:
    async with Client("http://127.0.0.1:5010") as client:
        async for said in client.translate(audio, src="en", tgt="zh"):
            print(said)


asyncio.run(main(Path(sys.argv[1]).read_bytes()))
