"""The smallest node: it says back what it heard. `python examples/echo_node.py check | dev | start`."""

from lingua_scheduler.sdk import Job, Node

node = Node(semantic=["en", "es"], asr=["en"], tts=["es"], pairs=[("en", "es")], max_jobs=2)


@node.job
async def translate(job: Job) -> dict[str, object]:
    seconds = len(job.audio) / 2 / job.sample_rate
    job.partial(f"{seconds:.1f} seconds")
    return {
        "text_asr": f"{seconds:.1f} seconds of {job.src_lang}",
        "text_translated": f"{seconds:.1f} segundos",
        "tts_audio": job.audio,
    }


if __name__ == "__main__":
    node.cli()
