#!/bin/sh
# The whole life of a job over plain HTTP, with nothing but curl: a node joins, a caller submits, the node does the job,
# the caller reads the result. Then what is refused, and why. Every request is shown behind ">", every answer behind "<".
#
#   lingua serve                                        # in another terminal
#   sh examples/curl_tour.sh [http://127.0.0.1:5010]    # ends with "the end" if everything was answered as it should be
set -eu
url=${1:-${LINGUA_URL:-http://127.0.0.1:5010}}
node=tour-$$
place=$(mktemp -d)
# Whatever happens, nothing is left behind: no file, and no node that would be given work.
trap 'rm -rf "$place"; curl -s -o /dev/null "$url/v1/node/offline" -d "{\"node_id\": \"$node\"}" || true' EXIT
newline='
'

say() {
  printf '\n# %s\n' "$*"
}

# ask STATUS METHOD PATH [BODY]: one request. The answer is in $answer; one with another status ends the tour.
ask() {
  if [ $# -gt 3 ]; then
    printf '> %s %s %s\n' "$2" "$3" "$4"
    answer=$(curl -sS -w '\n%{http_code}' -X "$2" "$url$3" -H 'content-type: application/json' -d "$4")
  else
    printf '> %s %s\n' "$2" "$3"
    answer=$(curl -sS -w '\n%{http_code}' -X "$2" "$url$3")
  fi
  status=${answer##*"$newline"}
  answer=${answer%"$newline"*}
  printf '< %s %s\n' "$status" "$answer"
  [ "$status" = "$1" ] || fail "this should have been $1"
}

# field NAME: a string of the last answer. Whoever has jq writes: jq -r .NAME
field() {
  printf '%s' "$answer" | sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}

# has TEXT: the last answer says this.
has() {
  case $answer in *"$1"*) ;; *) fail "this should have said $1" ;; esac
}

fail() {
  echo "curl_tour: $*" >&2
  exit 1
}

say "Is anybody there, and ready?"
curl -sS -o "$place/ready" "$url/readyz" || fail "nobody answers at $url: \`lingua serve\` starts a scheduler"
ask 200 GET /readyz

say "A node joins, with one slot. It translates Esperanto into Latin."
ask 200 POST /v1/node/register '{"node_id": "'$node'", "semantic_langs": ["eo", "la"], "nmt_pairs": [["eo", "la"]],
  "max_concurrent_jobs": 1}'
has '"eo:la"'

say "A caller uploads what was said, as bare bytes (these are few, and no sound at all). They stay for two minutes."
printf 'bonan matenon' >"$place/said"
printf '> POST /v1/audio (13 bytes)\n'
answer=$(curl -sS -f "$url/v1/audio" -H 'content-type: application/octet-stream' --data-binary "@$place/said")
printf '< %s\n' "$answer"
audio=$(field audio_ref)

say "He submits a job. With a request_id the same may be sent again, by whoever is not sure: it is one job."
dispatch='{"session_id": "'$node'-room", "src_lang": "eo", "tgt_lang": "la", "audio_ref": "'$audio'",
  "request_id": "'$node'-1", "payload": {"words": "bonan matenon"}}'
ask 200 POST /v1/dispatch/f2f "$dispatch"
job=$(field job_id)
ask 200 POST /v1/dispatch/f2f "$dispatch"
[ "$(field job_id)" = "$job" ] || fail "this is another job"

say "The node asks for work, and would wait a second for it. The audio comes along, as base64."
ask 200 POST /v1/node/poll '{"node_id": "'$node'", "wait_ms": 1000}'
has '"type":"job_assign"'
has "$job"
has '"audio":"Ym9uYW4gbWF0ZW5vbg=="'

say "It has the job, and may fetch the audio as it was uploaded, too. It begins."
attempt='"job_id": "'$job'", "attempt_id": 1, "node_id": "'$node'"'
ask 200 POST /v1/job/ack "{$attempt}"
has ACCEPTED
printf '> GET /v1/audio/%s (as the node that has the job)\n' "$audio"
curl -sS -f "$url/v1/audio/$audio" -H "x-node-id: $node" -o "$place/heard"
cmp "$place/said" "$place/heard" || fail "this is other audio"
printf '< the same bytes\n'
ask 200 POST /v1/job/started "{$attempt}"
has RUNNING

say "The caller waits for the end. Meanwhile the node gets there."
curl -sS -f "$url/v1/job/$job?wait_ms=30000" >"$place/ended" &
waiting=$!
done='{'$attempt', "status": "ok", "result": {"text_asr": "bonan matenon", "text_translated": "bonum mane"}}'
ask 200 POST /v1/job/done "$done"
has FINISHED
wait "$waiting"
printf '> GET /v1/job/%s?wait_ms=30000\n< 200 ' "$job"
answer=$(cat "$place/ended")
printf '%s\n' "$answer"
has '"state":"FINISHED"'
has '"text_translated":"bonum mane"'

say "Who is not sure that his word was heard says it again: the same answer. What nobody asked of him is refused."
ask 200 POST /v1/job/done "$done"
ask 409 POST /v1/job/done '{"job_id": "'$job'", "attempt_id": 7, "node_id": "'$node'", "status": "ok"}'
has NODE_MISMATCH
ask 404 POST /v1/job/ack '{"job_id": "c0.nobody", "attempt_id": 1, "node_id": "'$node'"}'
has UNKNOWN_JOB

say "Every no has the same shape, and says whether to try again. A field is missing; another body under an old request_id:"
ask 400 POST /v1/dispatch/f2f '{"session_id": "'$node'-room", "src_lang": "eo"}'
has INVALID_MESSAGE
ask 409 POST /v1/dispatch/f2f '{"session_id": "'$node'-room", "src_lang": "eo", "tgt_lang": "la", "request_id": "'$node'-1"}'
has IDEMPOTENCY_CONFLICT

say "Nobody can do it: do not try again. Nobody can do it now: try again in so many milliseconds."
ask 422 POST /v1/dispatch/f2f '{"session_id": "'$node'-room", "src_lang": "eo", "tgt_lang": "cy"}'
has '"retryable":false'
ask 200 POST /v1/dispatch/f2f '{"session_id": "'$node'-room", "src_lang": "eo", "tgt_lang": "la"}'
second=$(field job_id)
ask 503 POST /v1/dispatch/f2f '{"session_id": "'$node'-room", "src_lang": "eo", "tgt_lang": "la"}'
has '"full":1'
has '"retryable":true'

say "Nobody wants the second job any more. The node hears of it with its heartbeat, and keeps its slot until it has" \
  "said that it stopped. That is about an attempt which is over: refused, because it changes nothing about the job."
ask 200 POST /v1/job/cancel '{"job_id": "'$second'", "reason": "he hung up"}'
has CANCELLED
ask 200 POST /v1/node/heartbeat '{"node_id": "'$node'", "running": [{"job_id": "'$second'", "attempt_id": 1}]}'
has "$second"
ask 200 GET "/v1/nodes/$node"
has '"used":1,'
ask 409 POST /v1/job/stopped '{"job_id": "'$second'", "attempt_id": 1, "node_id": "'$node'"}'
has STALE_ATTEMPT
ask 200 GET "/v1/nodes/$node"
has '"used":0,'

say "The node goes."
ask 200 POST /v1/node/offline '{"node_id": "'$node'"}'

say "the end"
