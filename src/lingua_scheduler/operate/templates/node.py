"""A node for Lingua Scheduler.

python my_node.py check    tries the handler on sample audio, without a scheduler, and suggests max_jobs
python my_node.py dev      joins the scheduler on this machine (`lingua serve`), and starts again when a file changes
python my_node.py start    production: JSON logs, SIGTERM drains; where to, from LINGUA_URL and LINGUA_TOKEN
"""

from lingua_scheduler.sdk import Job, Node

node = Node(
    semantic=["en", "es"],  # languages whose text it can repair: jobs come from these
    asr=["en"],  # languages that it hears
    tts=["es"],  # languages that it speaks
    pairs=[("en", "es")],  # what it translates, from and to
    max_jobs=2,  # how many at once: `check` suggests
)


@node.setup
def load() -> None:
    """Called once, before the node joins: load the models here."""


@node.job
def translate(job: Job) -> dict[str, object]:
    """A plain `def` runs in a thread and may block; an `async def` must not."""
    heard = f"{len(job.audio)} bytes of {job.audio_format} at {job.sample_rate} Hz"  # job.audio is what was said
    job.partial(heard)
    return {"text_asr": heard, "text_translated": f"({job.tgt_lang}) {heard}"}  # and "tts_audio": b"..."


if __name__ == "__main__":
    node.cli()
