//! How much of each file is read, by number: the committed ones, and with BUSBW_CORPUS=DIR those of a
//! larger collection, of which every file must be read or refused as the table says.

use std::path::Path;

use busbw_hardware::topology::Word;

use super::*;

/// File, form, GPUs, NICs, links between GPUs, findings.
const CORPUS: &str = include_str!("../../data/topology/corpus.tsv");

/// What a file holds, in the words of the table.
fn count(text: &str) -> String {
    match recognise(text) {
        Ok(Input::System(system)) => {
            let gpus: Vec<_> = system.devices.iter().filter(|d| d.is_gpu()).collect();
            let nics = Paths::of(&system).ends().len() - gpus.len();
            let links: usize =
                gpus.iter().filter_map(|d| d.gpu.as_ref()).map(|gpu| gpu.links.len()).sum();
            let found = of_system(&system).len();
            format!("system\t{}\t{nics}\t{links}\t{found}", gpus.len())
        }
        Ok(Input::Graphs(graphs)) => format!("graphs\t{}\t0\t0\t0", graphs.graphs.len()),
        Ok(Input::Matrices(all)) => {
            let gpus: usize = all.iter().map(|matrix| matrix.gpus().count()).sum();
            let nics: usize = all.iter().map(|matrix| matrix.nics().count()).sum();
            let joined = |matrix: &Matrix| {
                let gpus: Vec<usize> = matrix.gpus().collect();
                let pairs = gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b)));
                let nvlink = |word| matches!(word, Some(Word::NvLink(_)));
                pairs.filter(|(a, b)| a < b && nvlink(matrix.between(*a, *b))).count()
            };
            let links: usize = all.iter().map(joined).sum();
            let found: usize = all.iter().map(|matrix| of_matrix(matrix).len()).sum();
            format!("matrix\t{gpus}\t{nics}\t{links}\t{found}")
        }
        Err(_) => "refused\t0\t0\t0\t0".to_owned(),
    }
}

#[test]
fn committed_files() {
    let counted: String =
        FILES.iter().map(|(name, text)| format!("{name}\t{}\n", count(text))).collect();
    assert_eq!(
        counted,
        "h200x8.xml\tsystem\t8\t0\t8\t0\n\
         rtx4090_cx5_ib.xml\tsystem\t2\t1\t0\t1\n\
         rtx4090_cx5_sockets.xml\tsystem\t2\t3\t0\t3\n\
         gb200_smi.txt\tmatrix\t4\t8\t6\t0\n\
         aws_p4d.xml\tsystem\t8\t4\t0\t0\n\
         azure_ndv5_crlf.xml\tsystem\t8\t8\t0\t0\n\
         mi350x8.xml\tsystem\t8\t8\t56\t0\n\
         a100pcie_x2_bridge.xml\tsystem\t2\t1\t2\t1\n\
         a800x8_smi.txt\tmatrix\t8\t4\t28\t0\n\
         a800x8_cut_smi.txt\tmatrix\t8\t4\t28\t0\n\
         ascend_npu_smi.txt\trefused\t0\t0\t0\t0\n\
         p2p_ok_smi.txt\trefused\t0\t0\t0\t0\n\
         fused_smi.txt\tmatrix\t2\t3\t1\t0\n\
         two_tables_smi.txt\tmatrix\t4\t1\t1\t1\n\
         markdown_smi.txt\tmatrix\t2\t1\t1\t1\n\
         graphs.xml\tgraphs\t2\t0\t0\t0\n"
    );
}

/// Without BUSBW_CORPUS only the table itself is checked.
#[test]
fn corpus_files() {
    let rows: Vec<(&str, &str)> =
        CORPUS.lines().skip(1).map(|line| line.split_once('\t').expect("columns")).collect();
    assert!(rows.len() >= 33, "{} rows", rows.len());
    assert!(rows.iter().all(|(_, counts)| counts.split('\t').count() == 5));
    let Some(corpus) = std::env::var_os("BUSBW_CORPUS") else {
        eprintln!("BUSBW_CORPUS is not set: the collection itself was not read");
        return;
    };
    let mut wrong = Vec::new();
    for (name, want) in rows {
        let path = Path::new(&corpus).join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let got = count(&String::from_utf8_lossy(&bytes));
        if got != want {
            wrong.push(format!("{name}\t{got}"));
        }
    }
    assert_eq!(wrong, [""; 0], "the table says otherwise");
}
