//! A check as JUnit XML: a test case for each line, as CI servers show them.
//! Not read back by anything here.

use super::report::{CheckLine, CheckReport, Verdict};

/// The XML of a check: a fault is a failure, "cannot tell" and "waived" are skipped cases with their reason.
pub fn junit(report: &CheckReport) -> String {
    let number = |verdict| report.lines.iter().filter(|line| line.verdict == verdict).count();
    let failures = number(Verdict::Fail);
    let skipped = number(Verdict::CannotTell) + number(Verdict::Waived);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    xml.push_str(&format!(
        "  <testsuite name=\"busbw check\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{:.3}\" timestamp=\"{}\">\n",
        report.lines.len(),
        report.took_s,
        escaped(&report.started.replacen(' ', "T", 1))
    ));
    xml.push_str("    <properties>\n");
    let properties = [
        ("decision", report.decision.name().to_owned()),
        ("reason", report.reason.clone()),
        ("hosts", report.hosts.join(",")),
    ];
    for (name, value) in properties {
        let value = escaped(&value);
        xml.push_str(&format!("      <property name=\"{name}\" value=\"{value}\"/>\n"));
    }
    xml.push_str("    </properties>\n");
    report.lines.iter().for_each(|line| case(&mut xml, line));
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn case(xml: &mut String, line: &CheckLine) {
    let check = line.check.name();
    let name = line.subject.as_ref().map_or("all".to_owned(), ToString::to_string);
    xml.push_str(&format!(
        "    <testcase classname=\"busbw.check.{check}\" name=\"{}\" time=\"{:.3}\"",
        escaped(&name),
        line.took_s
    ));
    let text = escaped(&line.text);
    match line.verdict {
        Verdict::Pass => {
            xml.push_str(&format!(">\n      <system-out>{text}</system-out>\n    </testcase>\n"))
        }
        Verdict::Fail => {
            let advice: Vec<String> = [("remedy", &line.remedy), ("confirm", &line.confirm)]
                .into_iter()
                .filter_map(|(name, advice)| Some(format!("{name}: {}", escaped(advice.as_ref()?))))
                .collect();
            let advice = advice.join("\n");
            xml.push_str(&format!(
                ">\n      <failure message=\"{text}\" type=\"{check}\">{advice}</failure>\n    </testcase>\n"
            ));
        }
        Verdict::CannotTell | Verdict::Waived => {
            let verdict = line.verdict.name();
            xml.push_str(&format!(
                ">\n      <skipped message=\"{verdict}: {text}\"/>\n    </testcase>\n"
            ));
        }
    }
}

/// Text for elements and attributes. Characters that XML 1.0 does not allow become a question mark, line ends a blank.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\r' | '\t' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::table::tests::example;

    #[test]
    fn every_line_is_a_case() {
        let xml = junit(&example());
        let document = roxmltree::Document::parse(&xml).unwrap();
        let of = |name: &str| -> Vec<roxmltree::Node<'_, '_>> {
            document.descendants().filter(|node| node.has_tag_name(name)).collect()
        };
        let suite = of("testsuite")[0];
        let counts = ["tests", "failures", "skipped"].map(|name| suite.attribute(name).unwrap());
        assert_eq!(counts, ["4", "1", "2"]);
        assert_eq!(suite.attribute("timestamp"), Some("2026-11-25T02:00:00"));
        let names: Vec<&str> =
            of("testcase").iter().map(|case| case.attribute("name").unwrap()).collect();
        assert_eq!(names, ["all", "c", "all", "a gpu 1 -> b gpu 2"]);
        let failure = of("failure")[0];
        assert_eq!(failure.attribute("message"), Some("MTU 1500 where 3 others have 9000"));
        assert_eq!(failure.text(), Some("remedy: make it the same\nconfirm: ip link"));
    }

    proptest! {
        /// Whatever a host says of itself, the file stays well-formed and has it as text.
        #[test]
        fn any_text_is_well_formed(text in any::<String>()) {
            let mut report = example();
            report.lines[1].text.clone_from(&text);
            report.hosts[0] = text;
            let xml = junit(&report);
            let document = roxmltree::Document::parse(&xml);
            prop_assert!(document.is_ok(), "{:?}", document);
        }
    }
}
