#!/usr/bin/env python3
"""Gathers the sentences that the voice learns from: about 408,000, from Debian packages and from templates.

    texts.py OUT.json.gz --harvard HARVARD.txt [--limit N]

PyPI's num2words and tokenizers must be installed. The sentences come from Debian's wordnet-base, fortunes, dict-gcide,
dict-devil, dict-jargon, dict-foldoc, anarchism, debian-handbook and gnome-user-docs, and from PyPI's chatterbot-corpus;
the templates take words of Debian's wamerican-large and wamerican-small. What is missing is left out and said. No
sentence of HARVARD.txt, nor one like it, gets in: the voice is measured with those.
"""
import argparse, collections, glob, gzip, html, importlib.util, json, os, random, re

import letters
import templates

PLAIN = letters.Letters()
NUMBER = re.compile(r"\d[\d,]*")


def spell_numbers(text):
    from num2words import num2words

    def word(match):
        digits = match[0].replace(",", "")
        if len(digits) > 6:
            return match[0]
        is_year = len(digits) == 4 and "1100" <= digits <= "2090"
        return num2words(int(digits), to="year" if is_year else "cardinal").replace(",", "").replace("-", " ")

    return NUMBER.sub(word, text)


def clean(text, longest=150):
    """Returns the sentence in the letters of the voice, or None if it is no good."""
    text = spell_numbers(re.sub(r"\s+", " ", text).strip(" \"'_*-"))
    if re.search(r"[\d@#$%^&_=+<>|\\/~{}\[\]*]|\.\.|--|[A-Z]{4}|\b[A-Z]\.", text):
        return None
    text = PLAIN.plain(text.encode("ascii", "ignore").decode())
    text = re.sub(r"\s+([,.?!])", r"\1", text).strip(" ,-'")
    words = text.split()
    if not 2 <= len(words) or not 8 <= len(text) <= longest or any(len(word) > 18 for word in words):
        return None
    is_short = sum(map(len, words)) < 2 * len(words)
    if is_short or not text[0].isalpha() or re.match(r"(syn|see|cf|obs)\b", text):
        return None
    return text if text[-1] in ".?!" else text + "."


def sentences(text):
    return re.split(r"(?<=[.?!])[\"')]*\s+(?=[\"'(]*[A-Z])", text)


def read(path):
    """Returns the text of a file; that of a missing one is empty."""
    if not os.path.exists(path):
        return ""
    opener = gzip.open if path.endswith((".gz", ".dz")) else open
    with opener(path, "rt", encoding="utf-8", errors="ignore") as file:
        return file.read()


def wordnet():
    for path in sorted(glob.glob("/usr/share/wordnet/data.*")):
        for line in read(path).splitlines():
            if "|" not in line:
                continue
            gloss = line.split("|", 1)[1]
            yield from re.findall(r'"([^"]+)"', gloss)
            definition = re.sub(r'"[^"]*"', "", gloss)
            yield from re.sub(r"\([^)]*\)", "", definition).split(";")[:2]


def gcide():
    text = read("/usr/share/dictd/gcide.dict.dz")
    text = re.sub(r"\[[^\]\n]{0,40}\]|\{|\}", "", text)
    for paragraph in re.split(r"\n\s*\n", text):
        if "\\" in paragraph:
            paragraph = paragraph.split("\n", 1)[-1]
        paragraph = re.sub(r"--\s*[A-Z].*$", "", paragraph, flags=re.S)
        paragraph = re.sub(r"^\s*(\d+\.|\([a-z]\))\s*(\([A-Z][^)]*\))?", "", paragraph)
        yield from sentences(paragraph.replace("\n", " "))


def dictd(name):
    text = read(f"/usr/share/dictd/{name}.dict.dz")
    for paragraph in re.split(r"\n\s*\n", text):
        yield from sentences(re.sub(r"[{}]", "", paragraph.replace("\n", " ")))


def markdown(pattern):
    for path in sorted(glob.glob(pattern)):
        text = re.sub(r"\]\([^)]*\)|[\[>*_]|^#.*$", "", read(path), flags=re.M)
        for paragraph in re.split(r"\n\s*\n", text):
            yield from sentences(paragraph.replace("\n", " "))


def pages(pattern):
    for path in sorted(glob.glob(pattern, recursive=True)):
        for paragraph in re.findall(r"<(?:p|title|desc)[^>]*>(.*?)</(?:p|title|desc)>", read(path), flags=re.S):
            yield from sentences(html.unescape(re.sub(r"<[^>]+>", "", paragraph)))


def fortunes():
    for path in sorted(glob.glob("/usr/share/games/fortunes/*")):
        if not path.endswith((".dat", ".u8")) and not os.path.islink(path):
            for quote in read(path).split("\n%\n"):
                yield from sentences(re.sub(r"\s--.*$", "", quote, flags=re.S).replace("\n", " "))


def dialogues():
    found = importlib.util.find_spec("chatterbot_corpus")
    for path in sorted(glob.glob(os.path.dirname(found.origin) + "/data/english/*.yml")) if found else []:
        if not path.endswith("coding.yml"):
            for line in re.findall(r"^\s*-\s+-?\s*(.+)$", read(path), flags=re.M):
                yield from sentences(line)


SOURCES = [
    ("wordnet-base", wordnet, 10**6), ("fortunes", fortunes, 10**6), ("chatterbot-corpus", dialogues, 10**6),
    ("dict-gcide", gcide, 70_000), ("dict-devil", lambda: dictd("devil"), 10**6),
    ("dict-jargon", lambda: dictd("jargon"), 10**6), ("dict-foldoc", lambda: dictd("foldoc"), 8_000),
    ("anarchism", lambda: markdown("/usr/share/doc/anarchism/markdown/*.md.gz"), 45_000),
    ("debian-handbook", lambda: pages("/usr/share/doc/debian-handbook/html/en-US/*.html"), 10**6),
    ("gnome-user-docs", lambda: pages("/usr/share/help/C/**/*.page"), 10**6),
]


class Refusal:
    """Knows the sentences that must not get in: the same words, or most of them."""

    def __init__(self, texts):
        self.sets = [frozenset(self.words(text)) for text in texts]
        self.by_word = collections.defaultdict(set)
        for index, words in enumerate(self.sets):
            for word in words:
                self.by_word[word].add(index)

    def words(self, text):
        return re.findall(r"[a-z']+", PLAIN.plain(text))

    def refuses(self, text):
        words = frozenset(self.words(text))
        shared = collections.Counter(index for word in words for index in self.by_word.get(word, ()))
        return any(n >= 0.7 * len(self.sets[index]) for index, n in shared.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--harvard", required=True)
    parser.add_argument("--limit", type=int, default=10**9)
    arguments = parser.parse_args()
    draw = random.Random(11)
    refusal = Refusal(open(arguments.harvard).read().splitlines())
    chosen, refused = {}, 0
    for name, source, most in SOURCES:
        found = dict.fromkeys(filter(None, (clean(text, 240 if draw.random() < 0.1 else 130) for text in source())))
        found = [text for text in found if text not in chosen]
        draw.shuffle(found)
        kept = [text for text in found[:most] if not refusal.refuses(text)]
        refused += min(len(found), most) - len(kept)
        chosen |= dict.fromkeys(kept)
        print(f"{name}: {len(kept)} of {len(found)}" if found else f"{name}: missing", flush=True)
    for name, make in templates.MAKERS.items():
        kept = [text for text in filter(None, map(clean, make(draw))) if not refusal.refuses(text)]
        new = len(set(kept) - set(chosen))
        chosen |= dict.fromkeys(kept)
        print(f"templates, {name}: {new}", flush=True)
    texts = list(chosen)
    draw.shuffle(texts)
    # Some end without a mark, as pieces of long sentences do.
    texts = [text[:-1] + draw.choice(["", "", ","]) if draw.random() < 0.06 else text for text in texts]
    texts = texts[: arguments.limit]
    with gzip.open(arguments.out, "wt") as file:
        json.dump(texts, file)
    words = collections.Counter(word for text in texts for word in refusal.words(text))
    print(f"{len(texts)} texts, {sum(map(len, texts)) / len(texts):.1f} letters each, {len(words)} words; {refused} refused")


if __name__ == "__main__":
    main()
