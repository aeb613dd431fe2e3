"""Sentences made of parts: words of a large list in any order, numbers, times, money, letters, and everyday talk."""
import itertools, os, re

NAMES = """Anna Ben Clara David Emma Frank Grace Henry Iris Jack Karen Leo Maria Nina Oscar Paul Rosa Sam Tara Victor
Leah Zoe Mia Dan James Robert John Michael William Richard Joseph Thomas Charles Daniel Matthew Anthony Mark Steven
Andrew Kenneth Joshua Kevin Brian George Edward Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan
Stephen Larry Justin Scott Brandon Benjamin Samuel Gregory Alexander Patrick Mary Patricia Jennifer Linda Elizabeth
Barbara Susan Jessica Sarah Lisa Nancy Sandra Betty Ashley Emily Kimberly Margaret Donna Michelle Carol Amanda Melissa
Deborah Stephanie Rebecca Sharon Laura Cynthia Dorothy Amy Kathleen Angela Shirley Brenda Pamela Nicole Samantha Smith
Johnson Williams Brown Jones Miller Davis Wilson Anderson Taylor Moore Jackson Martin Lee Thompson White Harris Clark
Lewis Robinson Walker Young Allen King Wright Green Baker Adams Nelson Hill Campbell Mitchell Carter Roberts""".split()
PLACES = """London Paris Boston Berlin Madrid Rome Vienna Dublin Chicago Houston Dallas Denver Seattle Portland Austin
Atlanta Miami Detroit Phoenix Philadelphia Toronto Montreal Vancouver Sydney Melbourne Tokyo Beijing Shanghai Moscow
Mumbai Delhi Cairo Nairobi Lagos America England France Germany Spain Italy Russia China Japan India Brazil Mexico
Canada Australia Europe Africa Asia California Texas Florida Virginia Washington Scotland Ireland Sweden Norway Poland
Greece Turkey Egypt Israel Switzerland Austria Belgium Denmark Finland Portugal""".split()
SPOTS = """the station|the river|the library|the office|the market|the old bridge|the garden|the school|the harbor|the
kitchen|the hospital|the airport|the bank|the corner|the museum|the park|the theater|the church|the hotel|the beach|the
shop|the living room|the bedroom|the village|the city|the farm|the lake|the factory|the restaurant|the post office"""
SPOTS = re.sub(r"\s+", " ", SPOTS).split("|")
THINGS = """apples books chairs letters tickets horses boxes pages stories cups windows machines songs voices bottles
people children women men dogs cats birds files messages photos emails cars trains houses trees flowers boats stones
coins keys plates shoes hats coats lamps pencils potatoes eggs oranges cookies bags stamps tables beds doors bricks""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
ADJECTIVES = """quick quiet bright warm cold early late simple careful gentle strange happy tired small large new old
good bad great little long short high low young important different large next few public able clear free strong sure
dark heavy light deep soft hard sharp smooth rough clean dirty wet dry sweet bitter fresh empty full rich poor brave""".split()
VERBS = """opened closed painted carried counted found lost sold bought cleaned moved washed broke fixed wanted needed
took gave made saw heard kept held brought sent left put used tried called asked told showed dropped picked threw caught
cut built drew wrote read cooked ate stole hid burned filled lifted pulled pushed turned tied packed wrapped""".split()
UNITS = "meters kilometers miles feet inches pounds kilograms grams seconds minutes hours days weeks years percent degrees dollars cents euros gallons liters volts watts bytes megabytes gigabytes".split()
TALK = """Hello.|Hi.|Hey, {name}.|Good morning.|Good afternoon.|Good evening, {name}.|Good night.|Goodbye.|Bye for now.|Thank
you.|Thanks a lot, {name}.|You're welcome.|I'm sorry.|Excuse me.|Yes, please.|No, thank you.|Of course.|Sure, no
problem.|How are you?|How are you doing today?|I'm fine, thanks.|What's your name?|My name is {name}.|Nice to meet you,
{name}.|Where are you from?|I'm from {place}.|I don't know.|I don't think so.|I can't hear you.|Can you hear me?|Could
you say that again?|Could you repeat that, please?|Please wait a moment.|Just a second.|Let's go.|Let's start.|It's
time to go to {spot}.|What time is it?|It's {n} o'clock.|What's the weather like in {place}?|It's raining in
{place}.|It's going to be {adjective} today.|I'd like a cup of coffee.|We'd like {n} {things}, please.|They've
{verb} the {things}.|She's {verb} the {things}.|He's {verb} {n} {things}.|I've {verb} it.|I haven't {verb} it
yet.|He hasn't {verb} the {adjective} {things}.|You shouldn't have {verb} them.|We won't be there until {day}.|I'll
call you on {day}.|You'll find it near {spot}.|She'll be at {spot} in {month}.|They'll come back to {place}.|It
isn't {adjective}.|It wasn't my idea.|They aren't here.|We weren't at {spot}.|Doesn't it look {adjective}?|Didn't you
see {name}?|Don't worry about it.|Don't forget the {things}.|That's {adjective}.|That's not what I meant.|What's
that?|Who's there?|Who are you?|Where's {name}?|Where's {spot}?|Why not?|How much is it?|How many {things} are
there?|How old are you?|Here you are.|There's a {adjective} one near {spot}.|There are {things} in {spot}.|This is
{name} speaking.|This is a test.|This is a {adjective} voice.|Welcome to {place}.|Welcome back, {name}.|Have a nice
day.|See you tomorrow.|See you on {day}, {name}.|Take care.|Good luck.|Congratulations, {name}!|Happy
birthday, {name}!|Merry Christmas!|Happy new year!|I love you.|I miss {place}.|I want to go to {spot}.|I need to
talk to {name}.|You have {n} new messages.|You have one new message from {name}.|Your appointment is on {day} at
{n}.|Turn left at {spot}.|Turn right after {spot}.|Your order has been shipped.|Your battery is low.|The door is
open.|The timer is set for {n} minutes.|Timer finished.|Playing {adjective} music.|Stop.|Next.|Okay.|Are you
sure?|Please enter your password.|The file was saved.|The download is complete.|Something went wrong, please try
again.|I didn't catch that.|I'm not sure what you mean.|Would you like to continue?|Press {n} to talk to {name}.|The
number is {d} {d} {d}, {d} {d} {d}, {d} {d} {d} {d}.|Call me at {d} {d} {d}, {d} {d} {d} {d}.|Flight {d} {d} {d} to
{place} leaves at {n} fifteen.|The train to {place} arrives at {n} thirty.|Once upon a time, there was a {adjective}
king in {place}.|Hello, world!|Hello, {name}, how are you today?|The quick brown fox jumps over the lazy
dog.|{name} and {name} went to {spot}.|{name} {verb} the {adjective} {things} in {spot}.|The {adjective} {things}
were {verb} by {name}.|Why did {name} go to {place}?|When will {name} come to {spot}?|If it rains on {day}, we'll stay in {spot}."""
TALK = re.sub(r"\s+", " ", TALK).split("|")
FRAMES = """The {w} {w} {w} the {w}.|A {w} {w} of the {w} {w}.|She {w} the {w} with a {w} {w}.|He {w} {w} and {w} to the
{w}.|They {w} a {w} in the {w}.|It was {w}, {w} and {w}.|{w} {w} {w} {w} {w}.|{w} {w} {w} {w} {w} {w} {w}.|{w}, {w}, {w},
{w}.|The word is {w}.|What does {w} mean?|{w} is not {w}.|I said {w}, not {w}.|Is the {w} {w}?|We {w} {w} {w} for the
{w} {w}.|In the {w} of {w}, a {w} {w} {w}.|You can {w} the {w} or {w} it.|{w}.|{w} {w}.|{w} and {w}.|{name}'s {w}
{w}.|The {w} of {place} {w} {w}.|Two {w} {w} in the {w}.|Put the {w} on the {w} {w}.|This {w} {w} was {w}.|No {w} {w} {w}
will {w}.|{w} the {w} and the {w}.|My {w} {w} has a {w} {w}."""
FRAMES = re.sub(r"\s+", " ", FRAMES).split("|")
# Letters as a text normaliser spells them.
LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z".split()


def number(draw):
    from num2words import num2words

    kind = draw.random()
    value = draw.randint(0, 20) if kind < 0.3 else draw.randint(0, 100) if kind < 0.6 else draw.randint(0, 10 ** draw.randint(2, 6))
    if kind > 0.97:
        return num2words(draw.randint(1, 999)) + draw.choice([" million", " billion", " thousand"])
    to = "ordinal" if draw.random() < 0.12 else "cardinal"
    return num2words(value, to=to).replace(",", "").replace("-", draw.choice([" ", " ", "-"]))


def digit(draw):
    return draw.choice("zero one two three four five six seven eight nine oh".split())


def fill(draw, template, words=None):
    parts = {
        "name": lambda: draw.choice(NAMES), "place": lambda: draw.choice(PLACES), "spot": lambda: draw.choice(SPOTS),
        "things": lambda: draw.choice(THINGS), "day": lambda: draw.choice(DAYS), "month": lambda: draw.choice(MONTHS),
        "adjective": lambda: draw.choice(ADJECTIVES), "verb": lambda: draw.choice(VERBS), "n": lambda: number(draw),
        "d": lambda: digit(draw), "unit": lambda: draw.choice(UNITS), "l": lambda: draw.choice(LETTERS),
        "w": lambda: next(words),
    }
    text = re.sub(r"\{(\w+)\}", lambda match: parts[match[1]](), template)
    return text[0].upper() + text[1:]


NUMBERS = """There are {n} {things} in {spot}.|The meeting starts at {n} thirty on {day}.|{name} {verb} {n} {things} on {day}.|Today
is {day}, {month} {n}.|It costs {n} dollars and {n} cents.|The price is {n} euros.|The temperature in {place} is {n}
degrees.|It is {n} point {d} {unit} long.|About {n} {unit}.|{n} {unit} and {n} {unit}.|{n} percent of the {things}.|On {month}
{n}, nineteen {n}.|In twenty {n}, {name} moved to {place}.|{n} plus {n} is {n}.|{n} minus {n} equals {n}.|{n} times {n}.|Chapter
{n}.|Page {n} of {n}.|Room {d} {d} {d}.|The code is {d} {d} {d} {d}.|Version {n} point {n}.|{l} {l} {l}.|The {l} {l} {l} in
{place}.|It is spelled {l}, {l}, {l}, {l}, {l}.|{l} {l} {l} {l} is an acronym.|An {l} {l} file.|Go to w w w dot {adjective} dot
com.|Write to {name} at {place} dot org.|{name} dot {name} at example dot com.|At {n} a m.|It's {n} p m in {place}.|A quarter
past {n}.|Half past {n}.|Ten to {n}.|Doctor {name} and Mister {name}.|Missus {name} lives at {n} {name} Street.|Professor {name},
{n} {name} Avenue.|{n}, {n}, {n}.|{d} {d} {d} {d} {d}.|From {n} to {n} {unit}.|The score was {n} to {n}.|Number {n}.|{n} slash {n}.|Minus
{n} degrees.|{n} and a half.|Two thirds of {n}.|The {n} of {month}.|Between {n} and {n} people.|{n} hundred {things}."""
NUMBERS = re.sub(r"\s+", " ", NUMBERS).split("|")


def words_of(path):
    """Returns the words of a list; a missing one has none."""
    if not os.path.exists(path):
        print(f"{path}: missing", flush=True)
        return []
    with open(path) as file:
        return [word for word in file.read().split() if re.fullmatch(r"[A-Za-z][a-z]+('[a-z]+)?", word) and len(word) < 16]


def any_order(draw):
    """Each word of the large list once or twice, common ones more often, in frames without a meaning."""
    large = words_of("/usr/share/dict/american-english-large")
    small = words_of("/usr/share/dict/american-english-small")
    plain = [word for word in small if not word.endswith("'s")]
    pool = [word for word in large if not word.endswith("'s") or draw.random() < 0.05] + plain * 4
    draw.shuffle(pool)
    words = itertools.cycle(pool)
    for _ in range(len(pool) // 5):
        yield fill(draw, draw.choice(FRAMES), words)


def from_templates(templates, n):
    def make(draw):
        for _ in range(n):
            yield fill(draw, draw.choice(templates))

    return make


MAKERS = {
    "words in any order": any_order, "numbers, times and letters": from_templates(NUMBERS, 32_000),
    "everyday talk": from_templates(TALK, 30_000),
}
