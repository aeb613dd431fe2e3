//! Units of measurement.

use super::number::leads_to_equals;
use super::peek::{is_boundary, letter, skip_space, starts_with};

/// A unit as it is written, and the words for one and for several.
pub(super) struct Unit {
    sign: &'static str,
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    spacing: Spacing,
}

/// Where a unit may stand.
#[derive(PartialEq)]
enum Spacing {
    /// After a space, or without one.
    Free,
    /// Without a space, because its letters are also a word.
    Attached,
    /// The same, or with a full stop.
    Stopped,
}

const fn any(sign: &'static str, one: &'static str, many: &'static str) -> Unit {
    Unit { sign, one, many, spacing: Spacing::Free }
}

const fn near(sign: &'static str, one: &'static str, many: &'static str) -> Unit {
    Unit { sign, one, many, spacing: Spacing::Attached }
}

/// Of two that begin alike, the longer one first.
const UNITS: &[Unit] = &[
    any("%", "percent", "percent"),
    any("°C", "degree celsius", "degrees celsius"),
    any("°F", "degree fahrenheit", "degrees fahrenheit"),
    any("°", "degree", "degrees"),
    any("km/h", "kilometer per hour", "kilometers per hour"),
    any("kmh", "kilometer per hour", "kilometers per hour"),
    any("km^2", "square kilometer", "square kilometers"),
    any("km2", "square kilometer", "square kilometers"),
    any("kph", "kilometer per hour", "kilometers per hour"),
    any("kbps", "kilobit per second", "kilobits per second"),
    any("kbit", "kilobit", "kilobits"),
    any("kcal", "kilocalorie", "kilocalories"),
    any("kWh", "kilowatt hour", "kilowatt hours"),
    any("kHz", "kilohertz", "kilohertz"),
    any("kPa", "kilopascal", "kilopascals"),
    any("km", "kilometer", "kilometers"),
    any("kg", "kilogram", "kilograms"),
    any("kB", "kilobyte", "kilobytes"),
    any("KB", "kilobyte", "kilobytes"),
    any("KiB", "kibibyte", "kibibytes"),
    any("kW", "kilowatt", "kilowatts"),
    any("kV", "kilovolt", "kilovolts"),
    any("kJ", "kilojoule", "kilojoules"),
    any("kΩ", "kiloohm", "kiloohms"),
    any("mph", "mile per hour", "miles per hour"),
    any("mol", "mole", "moles"),
    any("mpg", "mile per gallon", "miles per gallon"),
    any("mAh", "milliampere hour", "milliampere hours"),
    any("mA", "milliampere", "milliamperes"),
    any("mV", "millivolt", "millivolts"),
    any("mW", "milliwatt", "milliwatts"),
    any("mmHg", "millimeter of mercury", "millimeters of mercury"),
    any("mm", "millimeter", "millimeters"),
    any("mg", "milligram", "milligrams"),
    any("mL", "milliliter", "milliliters"),
    any("ml", "milliliter", "milliliters"),
    any("ms", "millisecond", "milliseconds"),
    any("mins", "minute", "minutes"),
    any("min", "minute", "minutes"),
    any("mi", "mile", "miles"),
    any("m/s^2", "meter per second squared", "meters per second squared"),
    any("m/s", "meter per second", "meters per second"),
    any("m^2", "square meter", "square meters"),
    any("m2", "square meter", "square meters"),
    any("m^3", "cubic meter", "cubic meters"),
    any("m3", "cubic meter", "cubic meters"),
    any("m", "meter", "meters"),
    any("cm^2", "square centimeter", "square centimeters"),
    any("cm^3", "cubic centimeter", "cubic centimeters"),
    any("cm", "centimeter", "centimeters"),
    any("cc", "cubic centimeter", "cubic centimeters"),
    any("cl", "centiliter", "centiliters"),
    any("cal", "calorie", "calories"),
    any("dBA", "decibel", "decibels"),
    any("dB", "decibel", "decibels"),
    any("dl", "deciliter", "deciliters"),
    any("dpi", "dot per inch", "dots per inch"),
    any("ft^2", "square foot", "square feet"),
    any("ft", "foot", "feet"),
    any("fps", "frame per second", "frames per second"),
    any("sq ft", "square foot", "square feet"),
    any("sq m", "square meter", "square meters"),
    any("sq km", "square kilometer", "square kilometers"),
    any("sq. ft", "square foot", "square feet"),
    any("sq. m", "square meter", "square meters"),
    any("sq. km", "square kilometer", "square kilometers"),
    Unit { sign: "in", one: "inch", many: "inches", spacing: Spacing::Stopped },
    any("fl oz", "fluid ounce", "fluid ounces"),
    any("fl. oz", "fluid ounce", "fluid ounces"),
    any("gal", "gallon", "gallons"),
    any("qt", "quart", "quarts"),
    any("yrs", "year", "years"),
    any("yr", "year", "years"),
    any("yd", "yard", "yards"),
    any("lbs", "pound", "pounds"),
    any("lb", "pound", "pounds"),
    any("oz", "ounce", "ounces"),
    any("µm", "micrometer", "micrometers"),
    any("µg", "microgram", "micrograms"),
    any("µs", "microsecond", "microseconds"),
    any("nm", "nanometer", "nanometers"),
    any("ns", "nanosecond", "nanoseconds"),
    any("GiB", "gibibyte", "gibibytes"),
    any("GB", "gigabyte", "gigabytes"),
    any("Gbps", "gigabit per second", "gigabits per second"),
    any("Gbit", "gigabit", "gigabits"),
    any("GHz", "gigahertz", "gigahertz"),
    any("GW", "gigawatt", "gigawatts"),
    any("MiB", "mebibyte", "mebibytes"),
    any("MB", "megabyte", "megabytes"),
    any("Mbps", "megabit per second", "megabits per second"),
    any("Mbit", "megabit", "megabits"),
    any("MHz", "megahertz", "megahertz"),
    any("MW", "megawatt", "megawatts"),
    any("MP", "megapixel", "megapixels"),
    any("TiB", "tebibyte", "tebibytes"),
    any("TB", "terabyte", "terabytes"),
    any("PB", "petabyte", "petabytes"),
    any("THz", "terahertz", "terahertz"),
    any("Hz", "hertz", "hertz"),
    any("hPa", "hectopascal", "hectopascals"),
    any("Pa", "pascal", "pascals"),
    any("psi", "pound per square inch", "pounds per square inch"),
    any("ppm", "part per million", "parts per million"),
    any("px", "pixel", "pixels"),
    any("rpm", "revolution per minute", "revolutions per minute"),
    any("bpm", "beat per minute", "beats per minute"),
    any("hrs", "hour", "hours"),
    any("hr", "hour", "hours"),
    any("ha", "hectare", "hectares"),
    any("hp", "horsepower", "horsepower"),
    any("h", "hour", "hours"),
    any("secs", "second", "seconds"),
    any("sec", "second", "seconds"),
    any("bps", "basis point", "basis points"),
    any("pts", "point", "points"),
    any("s", "second", "seconds"),
    any("g", "gram", "grams"),
    any("tbsp", "tablespoon", "tablespoons"),
    any("tsp", "teaspoon", "teaspoons"),
    any("Wh", "watt hour", "watt hours"),
    any("W", "watt", "watts"),
    any("V", "volt", "volts"),
    any("Ω", "ohm", "ohms"),
    any("L", "liter", "liters"),
    near("l", "liter", "liters"),
    near("x", "times", "times"),
];

/// What follows "per".
const PER: &[(&str, &str)] = &[
    ("m^2", "square meter"),
    ("m^3", "cubic meter"),
    ("s", "second"),
    ("sec", "second"),
    ("min", "minute"),
    ("h", "hour"),
    ("hr", "hour"),
    ("d", "day"),
    ("wk", "week"),
    ("mo", "month"),
    ("yr", "year"),
    ("kg", "kilogram"),
    ("g", "gram"),
    ("l", "liter"),
    ("L", "liter"),
    ("ml", "milliliter"),
    ("mL", "milliliter"),
    ("km", "kilometer"),
    ("m", "meter"),
    ("cm", "centimeter"),
    ("lb", "pound"),
    ("oz", "ounce"),
    ("GB", "gigabyte"),
    ("MB", "megabyte"),
    ("kWh", "kilowatt hour"),
    ("dL", "deciliter"),
    ("dl", "deciliter"),
];

/// Returns the unit at `at`, which may follow a space, and where it ends.
pub(super) fn read(chars: &[char], at: usize) -> Option<(&'static Unit, usize)> {
    let space = usize::from(letter(chars, at) == ' ');
    let place = at + space;
    let fits = |unit: &&Unit| {
        let end = place + unit.sign.chars().count();
        let is_sign = !unit.sign.ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let is_alone = is_boundary(chars, end) || (is_sign && !letter(chars, end).is_ascii_digit());
        let is_here = match unit.spacing {
            Spacing::Free => true,
            Spacing::Attached => space == 0,
            Spacing::Stopped => space == 0 || letter(chars, end) == '.',
        };
        // "5 m's", "5 s-shaped", "2x + 3".
        let is_more = ['\'', '&', '@'].contains(&letter(chars, end)) || (unit.sign == "x" && is_factor(chars, end));
        is_here && is_alone && !is_more && starts_with(chars, place, unit.sign)
    };
    let unit = UNITS.iter().find(fits)?;
    Some((unit, place + unit.sign.chars().count()))
}

/// Returns whether an `x` that ends at `at` is a variable: an operator or a sign of equality follows.
fn is_factor(chars: &[char], at: usize) -> bool {
    let place = skip_space(chars, at);
    match letter(chars, place) {
        '=' | '^' => true,
        '+' => (place > at) == (letter(chars, place + 1) == ' '),
        '-' => leads_to_equals(chars, skip_space(chars, place + 1)),
        _ => false,
    }
}

/// Returns what "per" stands before at `at`, after a slash.
pub(super) fn per(chars: &[char], at: usize) -> Option<(&'static str, usize)> {
    let fits = |(sign, _): &&(&str, &str)| starts_with(chars, at, sign) && is_boundary(chars, at + sign.len());
    PER.iter().find(fits).map(|(sign, word)| (*word, at + sign.len()))
}
