//! The pictures of docs/plan.md and docs/fabric.md are what the commands beside them draw. UPDATE_PLAN_PICTURES=1 draws them anew.
//! Not what they show: that is tested where it is computed.

use std::{fs, path::Path};

use super::said;

/// Pictures of docs, and the questions that draw them; the pages have the same lines.
const PICTURES: [(&str, &str); 3] = [
    ("plan_by_size.svg", "--machine dgx-h100 --nodes 2 all_reduce -b 64K"),
    ("plan_fabric.svg", "clos-2tier all_reduce --gpus 512 -b 64K --fail link:leaf*1024~1"),
    (
        "plan_failures.svg",
        "multi-plane all_reduce --gpus 8192 -b 1G --fail link:leaf --fail switch:spine --fail plane --target 80%",
    ),
];

/// What is drawn of a question.
fn drawn(question: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drawn.svg");
    said(&format!("{question} --svg {}", file.display()));
    fs::read_to_string(file).unwrap()
}

#[test]
fn pictures_are_what_the_commands_draw() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = ["plan.md", "fabric.md"].map(|page| fs::read_to_string(docs.join(page)).unwrap());
    for (name, question) in PICTURES {
        let drawn = drawn(question);
        assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"), "{name}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{name}");
        if std::env::var_os("UPDATE_PLAN_PICTURES").is_some() {
            fs::write(docs.join(name), &drawn).unwrap();
        }
        let kept = fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(
            kept == drawn,
            "docs/{name} is not what `busbw plan {question}` draws: UPDATE_PLAN_PICTURES=1"
        );
        let command = format!("busbw plan {question} --svg {name}");
        assert!(pages.iter().any(|page| page.contains(&command)), "no page has: {command}");
        assert!(
            pages.iter().any(|page| page.contains(&format!("]({name})"))),
            "no page shows {name}"
        );
    }
}

/// Two curves, one size, one point: nothing that is asked leaves an empty or broken picture.
#[test]
fn any_question_can_be_drawn() {
    for question in [
        "--machine dgx-h100 all_reduce -b 8 -e 8",
        "--machine dgx-h100 --nodes 2 alltoall -b 3 -e 17M",
        "multi-plane all_reduce --job tp8,pp8,dp --gpus 1024 -b 1G -e 1G",
        "clos-2tier all_reduce --gpus 64 -b 1G --fail link:host --target 1",
        "clos-2tier all_reduce --gpus 64 -b 1G --fail link:host --target 9999",
    ] {
        let text = drawn(question);
        assert!(text.contains("<text") && !text.contains("NaN"), "{question}");
    }
}
