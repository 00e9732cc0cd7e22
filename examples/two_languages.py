"""Two languages, both ways, with a model that blocks: a plain `def`, which runs in a thread."""

import time

from lingua_scheduler.sdk import Job, JobError, Node

node = Node(
    semantic=["en", "zh"],
    asr=["en", "zh"],
    tts=["en", "zh"],
    pairs=[("en", "zh"), ("zh", "en")],
    max_jobs=2,
    labels={"region": "eu"},
)


WORDS = {"en": "good morning", "zh": "早上好"}


class Model:
    """Stands for one that computes, and holds its thread while it does."""

    def recognise(self, audio: bytes, language: str) -> str:
        time.sleep(0.05)
        return WORDS[language] if audio else ""

    def translate(self, text: str, target: str) -> str:
        time.sleep(0.05)
        return WORDS[target] if text else ""


models: dict[str, Model] = {}


@node.setup
def load() -> None:
    """Once, before the node joins."""
    models["both"] = Model()


@node.job
def translate(job: Job) -> dict[str, object]:
    if not job.audio:
        raise JobError("NO_AUDIO", "there is nothing to hear", retryable=False)
    model = models["both"]
    source = job.candidates[0] if job.src_lang == "auto" else job.src_lang
    target = job.candidates[1] if job.src_lang == "auto" else job.tgt_lang
    heard = model.recognise(job.audio, source)
    job.partial(heard, is_final=True)
    if job.is_cancelled:
        return {"text_asr": heard}
    return {"text_asr": heard, "text_translated": model.translate(heard, target)}


if __name__ == "__main__":
    node.cli()
