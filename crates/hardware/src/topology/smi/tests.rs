use super::*;
use proptest::prelude::*;

#[test]
fn words_that_grew_together() {
    assert_eq!(names_in("NIC7NIC8"), Some(vec!["NIC7".to_owned(), "NIC8".to_owned()]));
    assert_eq!(names_in("rocep4s0f0"), Some(vec!["rocep4s0f0".to_owned()]));
    for word in ["CPU", "GPU", "GPUx", "NV12", "0-31", "N/A", "Affinity", "X"] {
        assert_eq!(names_in(word), None, "{word}");
    }
    assert_eq!(first_word("NV12NV4 PIX"), Some((Some(Word::NvLink(12)), "NV4 PIX")));
    assert_eq!(first_word("PXBSYS"), Some((Some(Word::Pxb), "SYS")));
    assert_eq!(first_word("NEW 0-3"), Some((None, " 0-3")));
    assert_eq!(first_word("0-31"), None);
}

#[test]
fn colours() {
    assert_eq!(without_colours("\x1b[4mGPU0\x1b[0m\x1b[1;31mX"), "GPU0X");
    assert_eq!(without_colours("cut \x1b[4"), "cut ");
}

proptest! {
    /// A table of any words is read as it was written, whatever blanks separate them.
    #[test]
    fn any_table(
        cells in prop::collection::vec(0..7_usize, 36),
        gap in prop::sample::select(vec![" ", "\t", "      ", " \t "]),
        gpus in 1..6_usize,
    ) {
        use Word::{Node, NvLink, Phb, Pix, Pxb, Sys};
        let name = |at: usize| match at.checked_sub(gpus) {
            None => format!("GPU{at}"),
            Some(nic) => format!("NIC{nic}"),
        };
        let word = |row: usize, column: usize| match (row == column, cells[row * 6 + column]) {
            (true, _) => Word::Itself,
            (_, 0) => NvLink(18),
            (_, 1) => Pix,
            (_, 2) => Pxb,
            (_, 3) => Phb,
            (_, 4) => Node,
            _ => Sys,
        };
        let mut text = "prompt$ nvidia-smi topo -m\n".to_owned();
        let header: Vec<String> = (0..6).map(name).collect();
        text += &format!("{gap}{}{gap}CPU Affinity\n", header.join(gap));
        for row in 0..6 {
            let words: Vec<String> = (0..6).map(|column| word(row, column).to_string()).collect();
            text += &format!("{}{gap}{}{gap}0-31\n", name(row), words.join(gap));
        }
        let found = matrices(&text).unwrap();
        prop_assert_eq!(found.len(), 1);
        for (row, column) in (0..6).flat_map(|row| (0..6).map(move |column| (row, column))) {
            prop_assert_eq!(found[0].between(row, column), Some(word(row, column)));
        }
        prop_assert_eq!(found[0].gpus().count(), gpus);
    }

    #[test]
    fn any_lines(text in "[GPUNIC0-9 \\tXVSYSPIX|:\\n-]{0,300}") {
        if let Ok(found) = matrices(&text) {
            prop_assert!(!found.is_empty());
        }
    }
}

#[test]
fn a_matrix_without_its_header_is_refused_for_that() {
    let why =
        |text: &str| matrices(text).map_or_else(|refused| refused.0, |found| panic!("{found:?}"));
    let rows = "GPU0\t X \tNV12\tPXB\t0-31\t0\nGPU1\tNV12\t X \tSYS\t0-31\t0\n";
    assert!(why(rows).contains("not their header"), "{}", why(rows));
    assert!(why("GPU0 GPU1 are here\n").contains("no row holds a word"));
}
