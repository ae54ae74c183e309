//! Explanations as GitHub-flavoured Markdown, for a bot's comment: a table of runs, then what was found.
//! Not the text for terminals (`brief`, `print`), and not the JSON, which has everything.

use std::io::{self, Write};

use busbw_core::{
    finding::{Finding, Severity},
    quantity::{bytes, count, percent, rate, time},
};

use super::{Explanation, brief, print::bottleneck};

/// The most runs in the table, and the most of them whose findings follow: GitHub refuses comments of over
/// 65,536 characters.
const MAX_RUNS: usize = 50;
const MAX_DETAILED_RUNS: usize = 10;
/// The most findings of a run, and characters of one piece of evidence.
const MAX_FINDINGS: usize = 12;
const MAX_EVIDENCE_CHARS: usize = 300;

/// Prints explanations as Markdown. Text of logs cannot break out of it: no mention, link, HTML or table cell
/// is made of it.
///
/// # Errors
/// `out` cannot be written.
pub fn print_markdown(out: &mut impl Write, all: &[Explanation]) -> io::Result<()> {
    writeln!(out, "| run | verdict | measured | of the limit | limit | bottleneck |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for explanation in all.iter().take(MAX_RUNS) {
        writeln!(out, "| {} |", cells(explanation).join(" | "))?;
    }
    if let Some(left) = all.len().checked_sub(MAX_RUNS).filter(|left| *left > 0) {
        writeln!(out, "\n{} more.", count(left as u64, "run"))?;
    }
    let severe = |one: &&Explanation| one.findings.iter().any(|one| one.severity.is_wrong());
    // Where several runs are, only what is wrong is worth a reader's time.
    let detailed = all.iter().filter(|one| all.len() == 1 || severe(one));
    for explanation in detailed.take(MAX_DETAILED_RUNS) {
        details(out, explanation)?;
    }
    Ok(())
}

fn cells(explanation: &Explanation) -> [String; 6] {
    let source = &explanation.source;
    let line = if source.line > 1 { format!(", line {}", source.line) } else { String::new() };
    let measured = explanation.measured.as_ref();
    let measured = measured.and_then(|one| match (one.busbw, one.time_us) {
        (Some(busbw), _) => Some(format!("{} GB/s at {}", rate(busbw), bytes(one.size))),
        (None, Some(us)) => Some(format!("{} at {}", time(us), bytes(one.size))),
        (None, None) => None,
    });
    let limit = explanation.limit.as_ref();
    let limited = limit.map(|limit| format!("{} GB/s {}", rate(limit.busbw), limit.rate.name()));
    [
        format!("{}{line}: {}", plain(&source.name), plain(&explanation.subject)),
        format!("**{}**", explanation.verdict),
        measured.unwrap_or_else(|| "-".to_owned()),
        explanation.percent.map_or("-".to_owned(), |value| format!("{} %", percent(value))),
        limited.unwrap_or_else(|| "unknown".to_owned()),
        if limit.is_some() { plain(&bottleneck(explanation)) } else { "unknown".to_owned() },
    ]
}

fn details(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    writeln!(out, "\n**{}**", plain(&brief::first_line(explanation)))?;
    let rest = brief::behind_first_sentence(explanation);
    if !rest.is_empty() {
        writeln!(out, "\n{}", plain(rest))?;
    }
    let findings = &explanation.findings;
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for finding in findings.iter().take(MAX_FINDINGS) {
        self::finding(out, finding)?;
    }
    if let Some(left) = findings.len().checked_sub(MAX_FINDINGS).filter(|left| *left > 0) {
        writeln!(out, "- {} more", count(left as u64, "finding"))?;
    }
    Ok(())
}

fn finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let severity = match finding.severity {
        severity if severity >= Severity::Warning => format!("**{severity}**"),
        severity => severity.to_string(),
    };
    let subject = match finding.subject.as_str() {
        "" => String::new(),
        subject => format!("{}: ", plain(subject)),
    };
    writeln!(out, "- {severity} `{}` {subject}{}", finding.rule, plain(&finding.cause))?;
    for evidence in &finding.evidence {
        let cut: String = evidence.chars().take(MAX_EVIDENCE_CHARS).collect();
        let more = if cut.len() < evidence.len() { " …" } else { "" };
        writeln!(out, "  - seen: {}{more}", code(&cut))?;
    }
    if let Some(remedy) = &finding.remedy {
        writeln!(out, "  - do: {}", plain(remedy))?;
    }
    if let Some(confirm) = &finding.confirm {
        writeln!(out, "  - next: {}", code(confirm))?;
    }
    Ok(())
}

/// Text of one line in which nothing is markup (GitHub Flavored Markdown 0.29, 2.4 and 6.1). GitHub makes links of
/// `@name`, `#1` and addresses; a character reference is shown as the character and makes none.
fn plain(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '@' | '#' | '&' | '<' | '>' | '|' => written.push_str(&format!("&#{};", c as u32)),
            // `https://` and `www.` are links without a mark.
            ':' if written.ends_with("http") || written.ends_with("https") => {
                written.push_str("&#58;");
            }
            '\\' | '`' | '*' | '_' | '~' | '[' | ']' => {
                written.push('\\');
                written.push(c);
            }
            c if c.is_whitespace() => written.push(' '),
            c if c.is_control() => {}
            c => written.push(c),
        }
    }
    written.replace("www.", "www&#46;")
}

/// Text as a code span, which a fence longer than any run of backticks in it closes.
fn code(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::Severity;
    use busbw_hardware::limits::Bottleneck;
    use busbw_logs::measurement::Source;

    use super::super::{SCHEMA, Verdict};
    use super::*;

    fn failed(cause: &str) -> Explanation {
        Explanation {
            explain_schema: SCHEMA,
            source: Source { name: "a|b.log".to_owned(), line: 1, ..Source::default() },
            verdict: Verdict::Failed,
            subject: "all_reduce, 2 ranks".to_owned(),
            measured: None,
            limit: None,
            hypotheses: None,
            percent: None,
            rating: None,
            bottleneck: Bottleneck::Unknown { missing: Vec::new() },
            sentence: "Rank 1 died. @everyone <img src=x>".to_owned(),
            assumed: Vec::new(),
            missing: Vec::new(),
            unchecked: Vec::new(),
            findings: vec![
                Finding::new("failure", Severity::Error, cause.to_owned())
                    .evidence("a ``quoted`` line | @user")
                    .remedy("see https://example.org or #12")
                    .confirm("dmesg | tail"),
            ],
        }
    }

    fn markdown(all: &[Explanation]) -> String {
        let mut out = Vec::new();
        print_markdown(&mut out, all).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_failed_run() {
        insta::assert_snapshot!(markdown(&[failed("rank 1 was killed by *signal* 9\n| x |")]));
    }

    #[test]
    fn nothing_of_a_log_becomes_markup() {
        let text = markdown(&[failed("![x](http://x) @user <b> www.x.org")]);
        let outside: String =
            text.lines().map(|line| line.split("seen:").next().unwrap()).collect();
        for markup in ["@user", "@everyone", "<img", "<b>", "http:", "www.", "![x]"] {
            assert!(!outside.contains(markup), "{markup}: {text}");
        }
    }

    #[test]
    fn a_long_list_stays_within_what_github_takes() {
        let many = vec![failed(&"long ".repeat(200)); 500];
        let text = markdown(&many);
        assert!(text.len() < 65_536, "{}", text.len());
        assert!(text.contains("450 runs more"), "{text}");
    }
}
