//! Times of the calendar, in UTC, as ISO 8601 writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 24 * 3600;
/// Days from 1 March of year 0 to 1970.
const EPOCH_DAY: u64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: u64 = 146_097;

/// Returns a time as in `2026-12-31T23:59:59.123Z`.
pub fn show(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(since.as_secs() / DAY_S);
    let second = since.as_secs() % DAY_S;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Reads the end of a day, `2026-12-31`, or a time, `2026-12-31T18:00:00Z`; both are in UTC.
pub fn parse_end(text: &str) -> Option<SystemTime> {
    let (day, time) = text.split_once('T').map_or((text, None), |(day, time)| (day, Some(time)));
    let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
    let days = days(year, month, day)?;
    let seconds = match time {
        None => DAY_S,
        Some(time) => {
            let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':', [2, 2, 2])?;
            if hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            hour * 3600 + minute * 60 + second
        }
    };
    Some(UNIX_EPOCH + Duration::from_secs(days * DAY_S + seconds))
}

/// Reads three numbers with that many digits each.
fn numbers(text: &str, separator: char, lens: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; 3];
    for (number, len) in numbers.iter_mut().zip(lens) {
        let digits = parts.next().filter(|part| part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = digits.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Returns the days from 1970 to a date. Years start in March, so that a leap day is the last of its year.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (from_march, year) = ((month + 9) % 12, year - u64::from(month <= 2 && year > 0));
    let day_of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * ERA_DAYS + day_of_era).checked_sub(EPOCH_DAY)?;
    // A date that does not exist, such as 30 February, is that of another day.
    (date(days) == (year + u64::from(month <= 2), month, day)).then_some(days)
}

/// Returns year, month and day of a number of days since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAY;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn times_are_those_of_date() {
        // `date -u -d @N +%FT%TZ`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(show(at(seconds)), format!("{text}.000Z"));
            assert_eq!(parse_end(&format!("{text}Z")), Some(at(seconds)));
        }
        assert_eq!(show(at(1) + Duration::from_micros(25_999)), "1970-01-01T00:00:01.025Z");
    }

    #[test]
    fn every_day_has_its_date() {
        for day in 0..200_000 {
            let (year, month, day_of_month) = date(day);
            assert_eq!(days(year, month, day_of_month), Some(day), "{year}-{month}-{day_of_month}");
        }
    }

    #[test]
    fn a_date_is_the_end_of_its_day_and_other_texts_are_none() {
        assert_eq!(parse_end("2026-12-31"), Some(at(1_798_761_600)));
        for text in [
            "",
            "2026",
            "2026-12",
            "2026-13-01",
            "2026-00-01",
            "2026-02-30",
            "2025-02-29",
            "2026-12-00",
            "26-12-31",
            "2026-12-31 18:00",
            "2026-12-31T18:00",
            "2026-12-31T18:00:00",
            "2026-12-31T24:00:00Z",
            "2026-12-31T18:60:00Z",
            "2026-12-31-1",
            "+026-12-31",
            "0000-01-01",
            "1969-12-31",
        ] {
            assert_eq!(parse_end(text), None, "{text}");
        }
    }
}
