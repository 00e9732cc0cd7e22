/** The same as code: what this page does, in Python, JavaScript and curl. They run as they stand. */

const shell = text => `'${text.replaceAll("'", "'\\''")}'`;
const quoted = text => JSON.stringify(text);

const python = ({ url, src, tgt, speak, hasToken }) => `\
# pip install lingua-scheduler
import asyncio
${hasToken ? "import os\n" : ""}
from lingua_scheduler.sdk import Client


async def main() -> None:
    audio = bytes(32_000)  # a second of silence; or a wav file
    async with Client(${quoted(url)}${hasToken ? ', token=os.environ["LINGUA_TOKEN"]' : ""}) as client:
        async for said in client.translate(audio, src=${quoted(src)}, tgt=${quoted(tgt)}${speak ? ", speak=True" : ""}):
            print(said)


asyncio.run(main())
`;

const javascript = ({ url, src, tgt, speak, hasToken }) => `\
<button id="stop">Stop</button>
<script type="module">
  import { Client } from ${quoted(`${url}/sdk/lingua.js`)};

  const client = new Client(${hasToken ? `undefined, { token: prompt("Token") }` : ""});
  const stream = await client.stream({ src: ${quoted(src)}, tgt: ${quoted(tgt)}${speak ? ", speak: true" : ""} });
  const microphone = await stream.listen();
  document.querySelector("#stop").onclick = async () => { await microphone.stop(); stream.end(); };

  for await (const said of stream) console.log(said.type, said.textTranslated ?? said.text ?? said.reason);
</script>
`;

const curl = ({ url, src, tgt, speak, hasToken }) => {
  const who = hasToken ? ' -H "Authorization: Bearer $LINGUA_TOKEN"' : "";
  const pair = `"src_lang": ${quoted(src)}, "tgt_lang": ${quoted(tgt)}`;
  const options = `{"wait_ms": 5000${speak ? ', "require_tts": true' : ""}}`;
  return `\
url=${shell(url)}
field() { sed -n 's/.*"'"$1"'":"\\([^"]*\\)".*/\\1/p'; }
# A second of silence; or a file of yours: --data-binary @hello.wav
audio=$(head -c 32000 /dev/zero | curl -sS --fail-with-body "$url/v1/audio"${who} \\
  -H 'Content-Type: application/octet-stream' --data-binary @- | field audio_ref)
job=$(curl -sS --fail-with-body "$url/v1/dispatch/f2f"${who} -H 'Content-Type: application/json' \\
  -d '{"session_id": "curl-'$$'", "audio_ref": "'"$audio"'", '${shell(`${pair}, "options": ${options}}`)} | field job_id)
curl -sS --fail-with-body "$url/v1/job/$job?wait_ms=30000"${who}
`;
};

export const SNIPPETS = { Python: python, JavaScript: javascript, curl };
