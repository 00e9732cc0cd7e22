/** Audio without a microphone: a file, or a sentence that this page hums. 16-bit samples at 16 kHz, mono. */

const RATE = 16_000;
/** The two lowest resonances of some vowels, in Hz: ah, eh, ee, oh, oo. */
const VOWELS = [[730, 1090], [530, 1840], [270, 2290], [570, 840], [300, 870]];
const RESONANCE_HZ = 150;
const HIGHEST_HZ = 3_500;
const PITCH_HZ = 140;
const MELODY = [0.9, 0.95, 1, 1.06, 1.14];
const LOUDEST = 9_000;
const SYLLABLE_MS = 170;
const PAUSE_MS = 45;
const LONGEST = 40;

/** One period of a vowel: the harmonics of the pitch, each as loud as the vowel lets it be. */
const waveOf = (period, vowel) => {
  const pitch = RATE / period;
  const wave = new Float32Array(period);
  for (let n = 1; n * pitch < HIGHEST_HZ; n++) {
    const gain = VOWELS[vowel].reduce((sum, hz) => sum + 1 / (1 + ((n * pitch - hz) / RESONANCE_HZ) ** 2), 0);
    for (let at = 0; at < period; at++) wave[at] += gain * Math.sin(2 * Math.PI * n * at / period);
  }
  const peak = wave.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
  return wave.map(one => one * LOUDEST / peak);
};

/** A sentence as a voice that hums: a syllable for each vowel or sign, a pause for each gap. The same text sounds the same. */
export const hum = text => {
  const syllables = Array.from(text.toLowerCase().normalize("NFD").matchAll(/[aeiouy]+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]|[\s,.;!?，。！？]+/gu), ([one]) => one)
    .slice(0, LONGEST);
  const parts = (syllables.length ? syllables : ["a"]).map((syllable, index) => {
    if (/^[\s,.;!?，。！？]/u.test(syllable)) return new Int16Array(RATE * PAUSE_MS * 2 / 1000);
    const sign = syllable.codePointAt(0) + index;
    const period = Math.round(RATE / (PITCH_HZ * MELODY[sign * 7 % MELODY.length]));
    const wave = waveOf(period, sign % VOWELS.length);
    const repeats = Math.round(SYLLABLE_MS * RATE / 1000 / period);
    const sound = new Int16Array(repeats * period + RATE * PAUSE_MS / 1000);
    for (let at = 0; at < repeats * period; at++) {
      sound[at] = wave[at % period] * Math.sin(Math.PI * (at + 0.5) / (repeats * period));
    }
    return sound;
  });
  const all = new Int16Array(parts.reduce((sum, one) => sum + one.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** What a file sounds like. @param {File} file */
export const read = async file => {
  const context = new OfflineAudioContext(1, 1, RATE);
  const heard = await context.decodeAudioData(await file.arrayBuffer());
  const channels = Array.from({ length: heard.numberOfChannels }, (_, index) => heard.getChannelData(index));
  return Int16Array.from(channels[0], (_, at) => {
    const mean = channels.reduce((sum, one) => sum + one[at], 0) / channels.length;
    return Math.max(-1, Math.min(1, mean)) * 32_767;
  });
};

/** Something to say, in the languages that most fleets have. */
export const SENTENCES = {
  en: "Good morning",
  zh: "早上好，你今天怎么样？",
  es: "Buenos días, ¿cómo está usted hoy?",
  fr: "Bonjour, comment allez-vous aujourd'hui ?",
  de: "Guten Morgen, wie geht es Ihnen heute?",
  ja: "おはようございます、今日はお元気ですか。",
  ko: "안녕하세요, 오늘 어떠세요?",
  pt: "Bom dia, como está você hoje?",
  it: "Buongiorno, come sta oggi?",
  ru: "Доброе утро, как вы сегодня?",
  yue: "早晨，你今日點呀？",
};
