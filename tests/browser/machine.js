async port => {
  const {Conversation} = await import(`http://127.0.0.1:${port}/sdk/conversation.js`);
  const agreed = {type: "session_init_ack", session_id: "s-1", resume_token: "s-1.secret"};
  const make = init => {
    const talk = new Conversation({type: "session_init", ...init});
    talk.hello();
    talk.hear(JSON.stringify(agreed));
    return talk;
  };
  const again = (talk, more = {}) => { talk.lost(1006); talk.hello(); talk.hear(JSON.stringify({...agreed, ...more})); };
  const end = (utterance_index, event_id, more = {}) => JSON.stringify({type: "translation_result", utterance_index,
    event_id, tts_audio: "not base64!", ...more});
  const taken = talk => { const all = []; for (let one; (one = talk.take());) all.push(one); return all; };
  const found = {};

  const once = make({});
  once.hear(end(0, 1));
  again(once);
  for (const said of [end(0, 1), end(1, 2), end(1, 2)]) once.hear(said);
  found.once = taken(once).map(item => item.utteranceIndex);
  found.confirmed = once.outbox.map(JSON.parse).map(said => said.last_event_id);

  const partials = make({});
  for (const text of ["a", "ab"]) partials.hear(JSON.stringify({type: "asr_partial", utterance_index: 0, text}));
  found.partials = taken(partials).map(item => item.text);

  const lost = make({});
  lost.say({});
  again(lost);
  found.saidAgain = lost.outbox.map(JSON.parse).map(said => said.utterance_index);
  lost.hear(JSON.stringify({type: "missing_result", utterance_index: 0, event_id: 1, reason: "invalid_message"}));
  found.lost = taken(lost).map(({reason, retryable}) => ({reason, retryable}));

  const refused = make({});
  refused.hear(JSON.stringify({type: "error", error: "RATE_LIMITED", detail: "because", retryable: true,
    retry_after_ms: 700, trace_id: "t"}));
  refused.hear(JSON.stringify({type: "missing_result", utterance_index: 0, event_id: 1, reason: "rate_limited", trace_id: "t"}));
  found.refused = taken(refused).map(({code, detail, retryAfterMs}) => ({code, detail, retryAfterMs}));

  const slow = make({});
  slow.hear(JSON.stringify({type: "backpressure", action: "PAUSE", resume_after_ms: 60000}));
  found.slow = slow.slowUntil > Date.now() + 50000;

  const seqs = frames => frames.filter(frame => frame[0] === 1).map(frame => new DataView(frame.buffer).getUint32(2, true));
  const stream = make({supports_binary_frame: true});
  const pong = frame => stream.hear(Uint8Array.of(0x11, ...frame.slice(1)).buffer);
  const saidAgain = more => { again(stream, more); return seqs(stream.outbox); };
  for (let chunk = 0; chunk < 3; chunk++) stream.stream(new Uint8Array(2));
  pong(stream.outbox.at(-1));
  stream.stream(new Uint8Array(2));
  found.chunks = [{heard_seq: 65}, {heard_seq: 67}, {heard_seq: -1}].map(saidAgain);
  pong(stream.outbox.at(-1));
  stream.stream(new Uint8Array(2));
  found.withoutItsPong = [{}, {}].map(saidAgain);
  for (let chunk = 5; chunk < 45; chunk++) {
    stream.stream(new Uint8Array(64 * 1024));
    pong(stream.outbox.at(-1));
  }
  found.kept = saidAgain({heard_seq: -1});
  found.maySend = stream.maySend;

  found.closes = {};
  for (const code of [1006, 1012, 4503, 4401, 4404, 4409]) {
    const closed = make({});
    closed.lost(code);
    found.closes[code] = closed.failure && [closed.failure.code, closed.failure.retryable];
  }
  const late = make({});
  late.lost(1006);
  late.hello();
  late.lost(4409);
  found.refusedForANewer = late.failure;
  return found;
}
