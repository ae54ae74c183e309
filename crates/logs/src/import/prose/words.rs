//! The words of a sentence: numbers, rates, the marks that part them.
//! Not what they say together.

/// Names of GPUs as people write them, without their maker.
pub(super) const MODELS: [&str; 27] = [
    "v100", "t4", "a10", "a10g", "a30", "a40", "a100", "a800", "l4", "l40", "l40s", "h20", "h100",
    "h200", "h800", "gh200", "b200", "b300", "gb200", "gb300", "mi210", "mi250", "mi250x",
    "mi300x", "mi325x", "mi350x", "mi355x",
];

/// A word of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number in digits.
    Number(f64),
    /// A number as a word: `two`, `a`, `single`.
    Spelled(f64),
    /// Gb/s or Mb/s, in Gb/s.
    Gigabits(f64),
    /// Gigabytes a second.
    Gigabytes,
    /// A word in small letters.
    Word(String),
    /// A mark that parts sentences or their parts.
    Mark(char),
}

pub(super) fn is_model(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word == "rtx" || MODELS.contains(&word.as_str()))
}

/// A word without the marks around it.
pub(super) fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The words of sentences, without inline code and names of files.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            tokens.push(Token::Mark('`'));
            continue;
        }
        for word in part.split_whitespace() {
            let file = bare(word);
            if file.matches('-').count() > 1
                || [".txt", ".log", ".xml", ".md"].iter().any(|end| file.ends_with(end))
            {
                tokens.push(Token::Mark('`'));
                continue;
            }
            push_word(word, &mut tokens);
        }
    }
    tokens
}

fn push_word(word: &str, tokens: &mut Vec<Token>) {
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let digits = |c: char| c.is_ascii_digit();
        if digits(first) {
            let mut end = rest.find(|c: char| !digits(c)).unwrap_or(rest.len());
            let tail = rest.get(end..).unwrap_or_default();
            if let Some(more) = tail.strip_prefix('.')
                && more.starts_with(digits)
            {
                end += 1 + more.find(|c: char| !digits(c)).unwrap_or(more.len());
            }
            let (number, after) = rest.split_at(end);
            tokens.extend(number.parse().ok().map(Token::Number));
            rest = after;
            // `400G`, `4090s`: what is stuck to a number is a word of its own.
            continue;
        }
        if first == '\u{d7}' {
            tokens.push(Token::Word("x".to_owned()));
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        if first.is_alphabetic() {
            let inner = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_');
            let end = rest.find(|c: char| !inner(c)).unwrap_or(rest.len());
            let (text, after) = rest.split_at(end);
            tokens.push(word_token(text));
            rest = after;
            continue;
        }
        tokens.push(Token::Mark(first));
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
}

fn word_token(text: &str) -> Token {
    // A small b is a bit, a capital one a byte.
    match text {
        "Gb/s" | "Gbit/s" | "Gbps" | "gbps" | "Gbit" | "Gb" => return Token::Gigabits(1.0),
        "Mb/s" | "Mbit/s" | "Mbps" | "mbps" => return Token::Gigabits(1e-3),
        "GB/s" => return Token::Gigabytes,
        _ => {}
    }
    let word = text.to_ascii_lowercase();
    let number = match word.as_str() {
        "a" | "an" | "one" | "single" => 1.0,
        "two" => 2.0,
        "three" => 3.0,
        "four" => 4.0,
        "five" => 5.0,
        "six" => 6.0,
        "seven" => 7.0,
        "eight" => 8.0,
        "sixteen" => 16.0,
        _ => {
            let one = word.strip_suffix('s').filter(|one| MODELS.contains(one));
            return Token::Word(one.map(str::to_owned).unwrap_or(word));
        }
    };
    Token::Spelled(number)
}
