//! Words in capitals: acronyms that are words, letters, and words that are shouted.

/// Acronyms that are said as words.
const WORDS: &[&str] = &[
    "NASA", "NATO", "UNESCO", "UNICEF", "OPEC", "AIDS", "LASER", "RADAR", "SONAR", "SCUBA", "COVID", "FIFA", "UEFA",
    "NAFTA", "ASCII", "GIF", "RAM", "ROM", "PIN", "SIM", "LAN", "WAN", "WIFI", "SWAT", "NASDAQ", "JSON", "YAML",
    "CUDA", "BIOS", "DOS", "SNAC", "CAPTCHA", "ASEAN", "FEMA", "POTUS", "SCOTUS", "SARS", "SAT", "MOMA", "OSHA",
    "NIMBY", "YOLO", "TASER", "GULAG", "INTERPOL", "MIDI", "FLAC", "SAAS", "NORAD", "NAND", "FUD", "MERS", "GUI",
    "DRAM", "RAID", "CERN", "ZIP", "VISA", "IKEA", "LEGO", "UNIX",
];
/// Short words that are shouted rather than spelled, in the order of the alphabet.
pub(super) const SHOUTED: &[&str] = &[
    "ABLE", "ADD", "AGE", "AGO", "AIR", "ALL", "ALSO", "AN", "AND", "ANY", "ARE", "AREA", "ARM", "ARMY", "AS", "ASK",
    "AT", "ATE", "AUNT", "AWAY", "BABY", "BACK", "BAD", "BALL", "BANK", "BAR", "BASE", "BE", "BEAT", "BED", "BEEF",
    "BEEN", "BELL", "BELT", "BEST", "BIG", "BIKE", "BILL", "BIRD", "BIT", "BLUE", "BOAT", "BODY", "BOOK", "BORN",
    "BOSS", "BOTH", "BOX", "BOY", "BOYS", "BURN", "BUS", "BUSY", "BUT", "BUY", "BY", "BYE", "CAKE", "CALL", "CALM",
    "CAME", "CAN", "CAR", "CARD", "CARE", "CASE", "CASH", "CAT", "CHAT", "CITY", "CLUB", "CODE", "COLD", "COME",
    "COOK", "COOL", "COPY", "COST", "CREW", "CRY", "CUT", "DAD", "DARK", "DATA", "DATE", "DAY", "DAYS", "DEAD", "DEAL",
    "DEAR", "DEEP", "DEMO", "DID", "DIE", "DIED", "DO", "DOES", "DOG", "DOGS", "DONE", "DONT", "DOOR", "DOWN", "DRAW",
    "DROP", "DRY", "DUE", "DUTY", "EACH", "EAR", "EAST", "EASY", "EAT", "EDIT", "EGG", "EGGS", "ELSE", "END", "EVEN",
    "EVER", "EVIL", "EXIT", "EYE", "EYES", "FACE", "FACT", "FAIL", "FAIR", "FALL", "FAR", "FARM", "FAST", "FEEL",
    "FEET", "FEW", "FILE", "FILL", "FILM", "FIND", "FINE", "FIRE", "FISH", "FIT", "FIVE", "FLAT", "FLY", "FOOD",
    "FOOT", "FOR", "FOUR", "FREE", "FROM", "FULL", "FUN", "GAME", "GAVE", "GET", "GIFT", "GIRL", "GIVE", "GO", "GOD",
    "GOES", "GOLD", "GONE", "GOOD", "GOT", "GREW", "GROW", "GUN", "GUY", "GUYS", "HAD", "HAIR", "HALF", "HALL", "HAND",
    "HARD", "HAS", "HATE", "HAVE", "HE", "HEAD", "HEAR", "HEAT", "HELD", "HELP", "HER", "HERE", "HERO", "HEY", "HI",
    "HIGH", "HILL", "HIM", "HIS", "HIT", "HOLD", "HOLE", "HOLY", "HOME", "HOPE", "HOT", "HOUR", "HOW", "HUGE", "HURT",
    "ICE", "IDEA", "IF", "IN", "INFO", "INTO", "IS", "ITEM", "ITS", "JOB", "JOBS", "JOIN", "JOKE", "JOY", "JULY",
    "JUNE", "JUST", "KEEP", "KEPT", "KEY", "KEYS", "KICK", "KID", "KIDS", "KILL", "KIND", "KING", "KISS", "KNEW",
    "KNOW", "LADY", "LAID", "LAKE", "LAND", "LAST", "LATE", "LAW", "LAY", "LEAD", "LEFT", "LESS", "LET", "LETS", "LIE",
    "LIFE", "LIFT", "LIKE", "LINE", "LINK", "LIST", "LIVE", "LONG", "LOOK", "LOSE", "LOST", "LOT", "LOTS", "LOUD",
    "LOVE", "LOW", "LUCK", "MAIL", "MAIN", "MAKE", "MAN", "MANY", "MAP", "MAX", "MAY", "ME", "MEAN", "MEET", "MEN",
    "MENU", "MET", "MILE", "MILK", "MIND", "MINE", "MISS", "MODE", "MOM", "MORE", "MOST", "MOVE", "MUCH", "MUST", "MY",
    "NAME", "NAVY", "NEAR", "NEED", "NEW", "NEWS", "NEXT", "NICE", "NINE", "NO", "NONE", "NOR", "NOT", "NOTE", "NOW",
    "OF", "OFF", "OH", "OIL", "OKAY", "OLD", "ON", "ONCE", "ONE", "ONLY", "ONTO", "OPEN", "OR", "OUR", "OURS", "OUT",
    "OVER", "OWN", "PAGE", "PAID", "PAIN", "PAIR", "PARK", "PART", "PASS", "PAST", "PATH", "PAY", "PICK", "PLAN",
    "PLAY", "PLEASE", "PLUS", "POOL", "POOR", "PULL", "PUSH", "PUT", "QUIT", "RAIN", "RAN", "RATE", "READ", "REAL",
    "RED", "REST", "RICH", "RIDE", "RING", "RISE", "RISK", "ROAD", "ROCK", "ROLE", "ROOM", "RULE", "RUN", "SAD",
    "SAFE", "SAID", "SAKE", "SALE", "SAME", "SAVE", "SAW", "SAY", "SEA", "SEAT", "SEE", "SEEM", "SEEN", "SELF", "SELL",
    "SEND", "SENT", "SET", "SHE", "SHIP", "SHOP", "SHOT", "SHOW", "SHUT", "SICK", "SIDE", "SIGN", "SING", "SIR", "SIT",
    "SIX", "SIZE", "SKIN", "SKY", "SLOW", "SNOW", "SO", "SOFT", "SOLD", "SOME", "SON", "SONG", "SOON", "SORT", "STAR",
    "STAY", "STEP", "STOP", "SUCH", "SUN", "SURE", "TAKE", "TALK", "TALL", "TAX", "TEAM", "TELL", "TEN", "TEST",
    "TEXT", "THAN", "THAT", "THE", "THEM", "THEN", "THEY", "THIN", "THIS", "THUS", "TIME", "TINY", "TO", "TODO",
    "TOLD", "TOO", "TOOK", "TOP", "TOUR", "TOWN", "TREE", "TRIP", "TRUE", "TRY", "TURN", "TWO", "TYPE", "UGLY", "UNIT",
    "UP", "UPON", "USE", "USED", "USER", "VERY", "VIEW", "VOTE", "WAIT", "WALK", "WALL", "WANT", "WAR", "WARM", "WAS",
    "WASH", "WAVE", "WAY", "WAYS", "WE", "WEAK", "WEAR", "WEEK", "WELL", "WENT", "WERE", "WEST", "WHAT", "WHEN",
    "WHOM", "WHY", "WIDE", "WIFE", "WILD", "WILL", "WIN", "WIND", "WINE", "WISE", "WISH", "WITH", "WON", "WOOD",
    "WORD", "WORK", "WOW", "YARD", "YEAH", "YEAR", "YELL", "YES", "YET", "YOU", "YOUR", "ZERO", "ZONE",
];
/// What is spelled all the same, though it is long or a word beside it is shouted.
const SPELLED: &[&str] = &[
    "HTTPS", "NAACP", "ASPCA", "UCLA", "USAID", "LGBTQ", "LGBTQIA", "IEEE", "AAPL", "EULA", "UK", "USA", "FBI", "CIA",
    "EU", "UN", "TV", "CEO", "USB", "AI", "IBM", "IRS", "EPA", "FDA", "UFO", "SUV", "HIV", "DIY", "NBA", "CFO", "NSA",
    "API", "URL", "CPU", "GPU", "VIP", "ATM", "FAQ", "GPA", "IPO", "LED", "MRI", "SOS", "ADHD", "USMCA",
];
const MIN_SHOUTED: usize = 5;

/// Returns whether a word in capitals is one that somebody shouts, whatever stands beside it.
pub(super) fn is_shouted(word: &str) -> bool {
    if word.bytes().any(|byte| byte.is_ascii_lowercase()) || SPELLED.contains(&word) || WORDS.contains(&word) {
        return false;
    }
    let has_vowel = word.contains(['A', 'E', 'I', 'O', 'U', 'Y']);
    // "RSPCA" and "UNHCR", but "LIGHTS" and "STRENGTH".
    let max_cluster = if word.len() > MIN_SHOUTED { 4 } else { 3 };
    let is_long = word.len() >= MIN_SHOUTED && has_vowel && longest_cluster(word) <= max_cluster;
    SHOUTED.binary_search(&word).is_ok() || is_long
}

fn longest_cluster(word: &str) -> usize {
    word.split(['A', 'E', 'I', 'O', 'U', 'Y']).map(str::len).max().unwrap_or(0)
}

/// Returns the letters of a word one by one.
pub(super) fn spell(word: &str) -> String {
    let mut words = String::with_capacity(2 * word.len());
    for letter in word.chars().filter(char::is_ascii_alphabetic) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Returns two capitals or more as they are read. `is_loud`: whether a word beside it is shouted.
pub(super) fn read(word: &str, neighbour: Neighbour) -> String {
    let is_word = WORDS.contains(&word)
        || is_shouted(word)
        || (neighbour == Neighbour::Shouted
            && word.len() > 1
            && word.contains(['A', 'E', 'I', 'O', 'U', 'Y'])
            && !SPELLED.contains(&word));
    if is_word { word.to_ascii_lowercase() } else { spell(word) }
}

/// What stands beside a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    Shouted,
    Plain,
}
