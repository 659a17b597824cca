//! Times as RFC 3339 text, as records have them.

const DAY: i64 = 86_400;

/// Seconds since 1970-01-01 UTC as `2024-05-01T12:00:00Z`.
pub fn rfc3339(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The seconds of a text like `2024-05-01T12:00:00Z`; fractions of a second are left out. None if it is in another form.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let (head, tail) = text.split_at_checked(19)?;
    let fraction = tail.strip_suffix('Z')?;
    let digits = fraction.strip_prefix('.').unwrap_or("0");
    let bytes = head.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if (fraction.is_empty() || fraction.starts_with('.'))
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && separators.iter().all(|&(at, separator)| bytes[at] == separator)
    {
        let number = |from: usize, to: usize| {
            let part = &bytes[from..to];
            part.iter()
                .all(u8::is_ascii_digit)
                .then(|| part.iter().fold(0, |n, &b| n * 10 + i64::from(b - b'0')))
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let valid =
            (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        let days = days(year, month, day);
        // A day that the month does not have would come back as another one.
        return (valid && date(days).2 == day).then_some(days * DAY + hour * 3600 + minute * 60 + second);
    }
    None
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. Years begin in March here, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_text_and_back() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert_eq!(parse_rfc3339(text), Some(seconds));
        }
        assert_eq!(parse_rfc3339("1970-01-01T00:00:01.1234567Z"), Some(1));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00+00:00",
            "1970-13-01T00:00:00Z",
            "1970-02-30T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00xZ",
            "197é-01-01T00:00:00Z",
            "1970-01-01 00:00:00Z",
            "+970-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
