"""A small phrase book: what the simulated nodes understand, and what it means elsewhere."""

from __future__ import annotations

from typing import Final

#: The same phrases in each language, in the same order.
_BOOK: Final = {
    "en": (
        "Good morning",
        "Where is the station?",
        "How much is it?",
        "A coffee, please",
        "I don't understand",
        "Thank you very much",
        "See you tomorrow",
        "What time is it?",
        "The train is late",
        "Can you help me?",
        "It is raining",
        "I would like to pay",
    ),
    "zh": (
        "早上好",
        "车站在哪里？",
        "多少钱？",
        "请给我一杯咖啡",
        "我不明白",
        "非常感谢",
        "明天见",
        "现在几点？",
        "火车晚点了",
        "你能帮我吗？",
        "下雨了",
        "我想买单",
    ),
    "es": (
        "Buenos días",
        "¿Dónde está la estación?",
        "¿Cuánto cuesta?",
        "Un café, por favor",
        "No entiendo",
        "Muchas gracias",
        "Hasta mañana",
        "¿Qué hora es?",
        "El tren llega tarde",
        "¿Puede ayudarme?",
        "Está lloviendo",
        "Quisiera pagar",
    ),
    "ja": (
        "おはようございます",
        "駅はどこですか",
        "いくらですか",
        "コーヒーをください",
        "わかりません",
        "どうもありがとう",
        "また明日",
        "今何時ですか",
        "電車が遅れています",
        "手伝ってもらえますか",
        "雨が降っています",
        "お会計をお願いします",
    ),
    "fr": (
        "Bonjour",
        "Où est la gare ?",
        "Combien ça coûte ?",
        "Un café, s'il vous plaît",
        "Je ne comprends pas",
        "Merci beaucoup",
        "À demain",
        "Quelle heure est-il ?",
        "Le train a du retard",
        "Pouvez-vous m'aider ?",
        "Il pleut",
        "Je voudrais payer",
    ),
    "de": (
        "Guten Morgen",
        "Wo ist der Bahnhof?",
        "Wie viel kostet das?",
        "Einen Kaffee, bitte",
        "Ich verstehe nicht",
        "Vielen Dank",
        "Bis morgen",
        "Wie spät ist es?",
        "Der Zug hat Verspätung",
        "Können Sie mir helfen?",
        "Es regnet",
        "Ich möchte zahlen",
    ),
}


def phrase(number: int, language: str) -> str:
    """One phrase in one language; numbers go round."""
    phrases = _BOOK[language]
    return phrases[number % len(phrases)]
