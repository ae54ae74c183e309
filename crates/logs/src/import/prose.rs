//! What the sentences of a page clearly say of the run and its machine: a small set of forms, such as `2 nodes x 8 H100`,
//! `8 x 400 Gb/s InfiniBand`, `18 NVLink 4 links each`.
//! Not a guess: other forms say nothing, and names of files and inline code are passed over.

mod words;

use crate::measurement::{Network, Page, StatedNics};
use busbw_core::size;
use words::{Token, bare, is_model, tokens};

/// What people call a host.
const HOSTS: [&str; 16] = [
    "node",
    "nodes",
    "host",
    "hosts",
    "box",
    "boxes",
    "server",
    "servers",
    "machine",
    "machines",
    "pod",
    "pods",
    "instance",
    "instances",
    "vm",
    "vms",
];

/// Reads sentences.
pub(super) fn read(text: &str) -> Page {
    let tokens = tokens(text);
    let mut page = Page::default();
    for at in 0..tokens.len() {
        let rest = tokens.get(at..).unwrap_or_default();
        let before = tokens.get(..at).unwrap_or_default();
        if let [Token::Number(number) | Token::Spelled(number), after @ ..] = rest {
            counted(*number, after, before, &mut page);
        }
        if let [Token::Word(word), after @ ..] = rest {
            word_alone(word, after, before, &mut page);
        }
    }
    page.nics = nics(&tokens);
    // Of two models it is not clear which one ran.
    let mut models = tokens.iter().filter(|token| is_model(token));
    let first = models.next();
    if models.any(|next| Some(next) != first) {
        (page.model, page.gpus, page.links, page.link_line) = (None, None, None, None);
    }
    page
}

/// What a number counts.
fn counted(number: f64, after: &[Token], before: &[Token], page: &mut Page) {
    if number.fract() != 0.0 || !(1.0..=1e6).contains(&number) {
        return;
    }
    let count = number as usize;
    let all = matches!(before.last(), Some(Token::Word(word)) if word == "all");
    let after_x = match after {
        [Token::Word(x), rest @ ..] if x == "x" => rest,
        rest => rest,
    };
    match (after, after_x) {
        ([Token::Word(what), ..], _) if what == "ranks" => set(&mut page.ranks, count),
        ([Token::Word(what), rest @ ..], _) if ["nvlink", "nvlinks"].contains(&what.as_str()) => {
            let links = u32::try_from(count).unwrap_or(0);
            // `one NVLink domain` counts domains.
            let domains =
                matches!(rest.first(), Some(Token::Word(word)) if word.starts_with("domain"));
            if (1..=36).contains(&links) && !domains {
                set(&mut page.links, links);
                set(&mut page.nvlink, true);
            }
            if let [Token::Number(generation), ..] = rest {
                page.link_line = page.link_line.or(link_line(*generation));
            }
        }
        ([Token::Word(what), rest @ ..], _) if what == "links" && near(before, "nvlink") => {
            set(&mut page.links, u32::try_from(count).unwrap_or(0));
            if let [Token::Word(of), Token::Number(line), Token::Gigabytes, ..] = rest
                && of == "of"
            {
                set(&mut page.link_line, *line);
            }
        }
        _ if is_hosts(after) => set(&mut page.nodes, count),
        (_, [Token::Word(what), ..]) if what == "gpus" && !all => set(&mut page.gpus, count),
        (_, [first, rest @ ..]) => {
            // `8 H100`, `4 x RTX 4090`, and `one HGX H200`, which is a host.
            let board =
                matches!(first, Token::Word(word) if ["hgx", "dgx"].contains(&word.as_str()));
            let named = if board { rest.first() } else { Some(first) };
            if named.is_some_and(is_model) && !all {
                match board {
                    true => set(&mut page.nodes, count),
                    false => set(&mut page.gpus, of_each_host(count, rest)),
                }
            }
        }
        _ => {}
    }
}

fn word_alone(word: &str, after: &[Token], before: &[Token], page: &mut Page) {
    match word {
        "nvl72" | "mnnvl" => page.nvlink_joins_hosts = true,
        "nvlink" => {
            let no = |token: &Token| matches!(token, Token::Word(w) if w == "no" || w == "without");
            let denied = before.iter().rev().take(1).any(no);
            set(&mut page.nvlink, !denied);
            let domain = matches!(after.first(), Some(Token::Word(word)) if word == "domain");
            page.nvlink_joins_hosts |= domain || near(before, "multi-node");
        }
        "rtx" => {
            if let [Token::Number(number), ..] = after {
                set(&mut page.model, format!("RTX {number}"));
            }
        }
        "pcie" | "sxm" => {
            let pcie = word == "pcie";
            let board = matches!(before.last(), Some(token) if is_model(token));
            if let (true, Some(model)) = (board, &mut page.model)
                && !model.contains(' ')
            {
                model.push_str(if pcie { " PCIe" } else { " SXM" });
            }
        }
        word if words::MODELS.contains(&word) => set(&mut page.model, word.to_ascii_uppercase()),
        _ => {}
    }
}

/// The NICs of a host: a rate with the number of NICs before it.
fn nics(tokens: &[Token]) -> Option<StatedNics> {
    let of = |at: usize| -> Option<StatedNics> {
        let gbit = match (tokens.get(at)?, tokens.get(at + 1)?) {
            (Token::Number(number), Token::Gigabits(unit)) => number * unit,
            _ => return None,
        };
        let before = tokens.get(..at)?;
        let count = match before {
            [.., Token::Number(count) | Token::Spelled(count), Token::Word(x)] if x == "x" => {
                *count
            }
            // `port 1 400 Gb/s` counts nothing.
            [.., Token::Spelled(count)] => *count,
            // `8 ConnectX-7 (400 Gb/s`.
            [
                ..,
                Token::Number(count) | Token::Spelled(count),
                Token::Word(card),
                Token::Mark('('),
            ] if card.starts_with("connectx") => *count,
            _ => return None,
        };
        let after = tokens.get(at + 2..)?;
        let part: Vec<&Token> = after
            .iter()
            .take_while(|token| !matches!(token, Token::Mark('.' | ';' | ':')))
            .take(8)
            .collect();
        let word = |wanted: &str| {
            part.iter().any(|one| matches!(one, Token::Word(word) if word == wanted))
        };
        let per_gpu = ["for", "per"].iter().any(|word| follows(&part, word))
            && (word("gpu") && !word("one"))
            && count == 1.0;
        let plain =
            count.fract() == 0.0 && (1.0..=64.0).contains(&count) && (0.1..=3200.0).contains(&gbit);
        plain.then(|| StatedNics {
            count: count as usize,
            for_each_gpu: per_gpu,
            gbit,
            network: part.iter().find_map(|one| network(one)).or_else(|| only_network(tokens)),
            mtu: mtu(tokens),
        })
    };
    let all: Vec<StatedNics> = (0..tokens.len()).filter_map(of).collect();
    let rdma = |nics: &&StatedNics| nics.network != Some(Network::Ethernet);
    // NCCL prefers RDMA to sockets; of two kinds of it, which one ran is not clear.
    let first = all.iter().find(rdma).or(all.first())?;
    let same = |nics: &StatedNics| (nics.count, nics.gbit) == (first.count, first.gbit);
    all.iter().filter(|nics| rdma(nics) == rdma(&first)).all(same).then_some(*first)
}

fn follows(part: &[&Token], word: &str) -> bool {
    part.iter().any(|one| matches!(one, Token::Word(this) if this == word))
}

fn network(token: &Token) -> Option<Network> {
    let Token::Word(word) = token else { return None };
    match word.as_str() {
        "infiniband" | "ib" | "ndr" | "hdr" => Some(Network::InfiniBand),
        "roce" | "rocev2" => Some(Network::Roce),
        "ethernet" => Some(Network::Ethernet),
        _ => None,
    }
}

/// The network that a text names, if it names only one.
fn only_network(tokens: &[Token]) -> Option<Network> {
    let mut named = tokens.iter().filter_map(network);
    let first = named.next()?;
    named.all(|next| next == first).then_some(first)
}

fn mtu(tokens: &[Token]) -> Option<u32> {
    tokens.windows(2).find_map(|pair| match pair {
        [Token::Word(word), Token::Number(bytes)]
            if word == "mtu" && (256.0..=65536.0).contains(bytes) =>
        {
            Some(*bytes as u32)
        }
        _ => None,
    })
}

/// GB/s of a link of NVLink 2 to 5, one direction: 25, and 50 from 5 on (NVIDIA's white papers of V100 to Blackwell).
fn link_line(generation: f64) -> Option<f64> {
    match generation as u32 {
        2..=4 => Some(25.0),
        5 => Some(50.0),
        _ => None,
    }
}

/// GPUs of a host, of `16 H100 on 2 nodes`: a number of all hosts is divided.
fn of_each_host(count: usize, after: &[Token]) -> usize {
    let next: Vec<&Token> = after.iter().take(4).collect();
    let [Token::Word(on), Token::Number(hosts) | Token::Spelled(hosts), ..] = next.as_slice()
    else {
        return count;
    };
    let hosts = *hosts as usize;
    let over = ["in", "on", "over", "across"].contains(&on.as_str());
    let whole =
        hosts > 1 && count.is_multiple_of(hosts) && is_hosts(after.get(2..).unwrap_or_default());
    if over && whole { count / hosts } else { count }
}

/// Whether hosts follow, with at most one word between: `worker pods`.
fn is_hosts(after: &[Token]) -> bool {
    let host = |token: &Token| matches!(token, Token::Word(word) if HOSTS.contains(&word.as_str()));
    match after {
        [first, ..] if host(first) => true,
        [Token::Word(word), second, ..] => {
            ["worker", "compute", "render", "gpu", "identical", "similar", "other"]
                .contains(&word.as_str())
                && host(second)
        }
        _ => false,
    }
}

/// Whether a word stands among the last few, in the same sentence.
fn near(before: &[Token], wanted: &str) -> bool {
    let same =
        before.iter().rev().take(6).take_while(|token| !matches!(token, Token::Mark('.' | ';')));
    same.into_iter().any(|token| matches!(token, Token::Word(word) if word == wanted))
}

fn set<T>(place: &mut Option<T>, value: T) {
    if place.is_none() {
        *place = Some(value);
    }
}

/// `at 8 GiB`: the message that a figure is of.
pub(super) fn size_in(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_ascii_whitespace().map(bare).collect();
    words.windows(3).find_map(|three| match three {
        ["at" | "of", number, unit @ ("KiB" | "MiB" | "GiB")] => {
            size::parse(&format!("{number}{}", &unit[..1])).ok()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nics(count: usize, gbit: f64, network: Network) -> Option<StatedNics> {
        Some(StatedNics { count, for_each_gpu: false, gbit, network: Some(network), mtu: None })
    }

    #[test]
    fn machines_as_people_write_them() {
        use Network::{InfiniBand, Roce};
        for (text, nodes, gpus, model, of) in [
            (
                "all_reduce on 2 nodes x 8 H100 (NVLink), 8 x 400 Gb/s InfiniBand per node, one NIC for each GPU:",
                Some(2),
                Some(8),
                Some("H100"),
                nics(8, 400.0, InfiniBand),
            ),
            (
                "H800 (8 NVLinks a GPU), nodes of 8 GPUs with 4 x 400 Gb/s InfiniBand each. The file is called 32x-h800-nvlink-4x-400gbps-ib-all-reduce.txt:",
                None,
                Some(8),
                Some("H800"),
                nics(4, 400.0, InfiniBand),
            ),
            (
                "2 nodes x 8 H100 with 16 × 200 Gb/s RoCE ports per node",
                Some(2),
                Some(8),
                Some("H100"),
                nics(16, 200.0, Roce),
            ),
            (
                "each has one 400 Gb/s InfiniBand port for it",
                None,
                None,
                None,
                nics(1, 400.0, InfiniBand),
            ),
            (
                "Two worker pods with four GB200 each. Every node also has two 400 Gb/s InfiniBand ports (NDR).",
                Some(2),
                Some(4),
                Some("GB200"),
                nics(2, 400.0, InfiniBand),
            ),
            (
                "Tuning notes, 4 nodes with 8 H100 and 8 ConnectX-7 (400 Gb/s RoCE, two leaf switches)",
                Some(4),
                Some(8),
                Some("H100"),
                nics(8, 400.0, Roce),
            ),
            ("16 H100 on 2 nodes", Some(2), Some(8), Some("H100"), None),
            ("Only 1.97 GB/s from a 100 GB/s card?", None, None, None, None),
            ("mlx5_0 port 1 400 Gb/s InfiniBand", None, None, None, None),
            ("We ran it on 5 days.", None, None, None, None),
        ] {
            let page = read(text);
            assert_eq!(
                (page.nodes, page.gpus, page.model.as_deref()),
                (nodes, gpus, model),
                "{text}"
            );
            assert_eq!(page.nics, of, "{text}");
        }
        let two = read(
            "8 H100 with 8 x 400 Gb/s InfiniBand, twice as fast as 8 A100 with 4 x 200 Gb/s RoCE",
        );
        assert_eq!((two.gpus, two.model, two.nics), (None, None, None));
        let beside = read("8 x 400 Gb/s InfiniBand, and one 25 Gb/s Ethernet port to log in");
        assert_eq!(beside.nics, nics(8, 400.0, InfiniBand));
        let one = read(
            "Two hosts with an H100 each and a single 400 Gb/s InfiniBand port (ConnectX-7, MTU 4096).",
        );
        assert_eq!((one.nodes, one.gpus), (Some(2), Some(1)));
        assert_eq!(one.nics.and_then(|nics| nics.mtu), Some(4096));
    }

    #[test]
    fn links_of_a_gpu() {
        for (text, links, line) in [
            ("one DGX H100 (8 H100, 18 NVLink 4 links each)", Some(18), Some(25.0)),
            ("multi-node NVLink, 18 NVLink 5 links a GPU", Some(18), Some(50.0)),
            ("8 H800 (NVLink, 8 links of 25 GB/s a GPU)", Some(8), Some(25.0)),
            ("H800 (8 NVLinks a GPU)", Some(8), None),
            ("2 nodes x 8 H100 (NVLink)", None, None),
        ] {
            let page = read(text);
            assert_eq!(
                (page.links, page.link_line, page.nvlink),
                (links, line, Some(true)),
                "{text}"
            );
        }
        assert_eq!(read("two boxes without NVLink").nvlink, Some(false));
        assert!(read("all eight GPUs in one NVLink domain").nvlink_joins_hosts);
        let domain = read("all eight GPUs in one NVLink domain");
        assert_eq!((domain.gpus, domain.links), (None, None));
    }

    #[test]
    fn figures_of_the_run() {
        assert_eq!(read("48 ranks, all_reduce").ranks, Some(48));
        assert_eq!(size_in("Bus bandwidth at 8 GiB, as it is printed"), Some(8 << 30));
        assert_eq!(size_in("at 8 o'clock"), None);
    }
}
